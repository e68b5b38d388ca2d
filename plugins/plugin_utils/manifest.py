# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle's manifest, read for action plugins."""

from __future__ import annotations

import os

import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.baremetal.llm.plugins.module_utils.bundle import (
    MANIFEST_NAME,
    BundleError,
    Record,
    check_manifest,
)
from ansible_collections.baremetal.llm.plugins.module_utils.messages import message


def load_records(bundle: str, lang: str = "en") -> list[Record]:
    """Records of the bundle's manifest; AnsibleActionFail says what is wrong and what to do."""
    path = os.path.join(bundle, MANIFEST_NAME)
    try:
        with open(path, encoding="utf-8") as stream:
            return check_manifest(yaml.load(stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (OSError, yaml.YAMLError, BundleError) as error:
        raise AnsibleActionFail(message("bundle_unusable", lang, bundle=bundle, reason=error)) from error
