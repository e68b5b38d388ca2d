# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle's manifest, read on the controller."""

from __future__ import annotations

import functools
import os

import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    MANIFEST_NAME,
    BundleError,
    Record,
    check_manifest,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message


@functools.lru_cache(maxsize=8)
def _parsed(path: str, _written: int) -> list[Record]:
    """Ansible's own from_yaml takes half a second for a thousand packages, this one a thirtieth of that."""
    with open(path, encoding="utf-8") as stream:
        return check_manifest(yaml.load(stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def read_manifest(bundle: str) -> list[Record]:
    """Records of the bundle's manifest. Raises BundleError where there is none or it is wrong."""
    path = os.path.join(os.path.expanduser(bundle), MANIFEST_NAME)
    try:
        return [dict(record) for record in _parsed(path, os.stat(path).st_mtime_ns)]
    except (OSError, yaml.YAMLError) as error:
        raise BundleError("as_given", reason=error) from error


def load_records(bundle: str, lang: str = "en") -> list[Record]:
    """The same for action plugins: AnsibleActionFail says what is wrong and what to do."""
    try:
        return read_manifest(bundle)
    except BundleError as error:
        raise AnsibleActionFail(message("bundle_unusable", lang, bundle=bundle, reason=error)) from error


def known_records(bundle: str, lang: str = "en") -> list[Record]:
    """The same where there may be no bundle yet: no records then."""
    known = bundle and os.path.isfile(os.path.join(os.path.expanduser(bundle), MANIFEST_NAME))
    return load_records(bundle, lang) if known else []
