# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle's manifest, read on the controller."""

from __future__ import annotations

import functools
import hashlib
import json
import os

from ansible import constants as C
from ansible.errors import AnsibleActionFail
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    MANIFEST_NAME,
    BundleError,
    Record,
    check_manifest,
)
from ansible_collections.baremetal.llm.plugins.module_utils._content import load_json, read_yaml
from ansible_collections.baremetal.llm.plugins.module_utils._private_file import write_private
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

# By bundle the SHA-256 of the manifest that holds for this run, in the folder that ansible-playbook makes for each run: all its processes read it,
# nobody else can, and it goes with the run.
HELD = "bundle-manifests.json"


@functools.lru_cache(maxsize=8)
def _parsed(_sha256: str, content: bytes) -> list[Record]:
    """Ansible's own from_yaml takes half a second for a thousand packages, this one a thirtieth of that."""
    return check_manifest(read_yaml(content))


def manifest_of(bundle: str) -> bytes:
    """A bundle's manifest. Raises BundleError where there is none, or another one than was verified in this run."""
    try:
        with open(os.path.join(os.path.expanduser(bundle), MANIFEST_NAME), "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise BundleError("as_given", reason=error) from error
    found = hashlib.sha256(content).hexdigest()
    held = _held().get(_place(bundle), found)
    if found != held:
        raise BundleError("manifest_changed", found=found, held=held)
    return content


def records_in(content: bytes) -> list[Record]:
    """Records of a manifest that was read. Raises BundleError where it is wrong."""
    try:
        return [dict(record) for record in _parsed(hashlib.sha256(content).hexdigest(), content)]
    except ValueError as error:
        raise BundleError("as_given", reason=error) from error


def read_manifest(bundle: str) -> list[Record]:
    """Records of the bundle's manifest. Raises BundleError where there is none, it is wrong, or it is another one than was verified in this run."""
    return records_in(manifest_of(bundle))


def hold(bundle: str, sha256: str) -> None:
    """From now on only this manifest of a bundle counts, to the end of the run."""
    os.makedirs(C.DEFAULT_LOCAL_TMP, mode=0o700, exist_ok=True)
    write_private(os.path.join(C.DEFAULT_LOCAL_TMP, HELD), json.dumps({**_held(), _place(bundle): sha256}))


def _held() -> dict[str, str]:
    try:
        with open(os.path.join(C.DEFAULT_LOCAL_TMP, HELD), encoding="utf-8") as stream:
            return dict(load_json(stream))
    except FileNotFoundError:
        return {}


def _place(bundle: str) -> str:
    return os.path.abspath(os.path.expanduser(bundle))


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
