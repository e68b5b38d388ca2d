#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_manifest
short_description: Put files into a bundle and write its manifest
version_added: 0.1.0
description:
  - Brings files and folders into the folder of a bundle and writes C(manifest.yml) with the size and SHA-256 of each.
  - Runs where the bundle is made, usually the controller. Files on the same file system are linked, not copied.
options:
  bundle:
    description: Folder of the bundle; made if it is not there.
    type: path
    required: true
  artefacts:
    description: What the bundle shall hold. Everything else in the manifest is dropped.
    type: list
    elements: dict
    required: true
    suboptions:
      source:
        description: File or folder to bring in. Left out for what lies in the bundle already.
        type: path
      path:
        description: Where it goes in the bundle, or lies there; a folder if O(artefacts[].source) is one.
        type: str
        required: true
      kind:
        description: Kind of the files.
        type: str
        required: true
        choices: [docker, driver, image, model, nvidia_container_toolkit, os_packages, python]
      fields:
        description: Further fields of the records of these files, by kind.
        type: dict
        default: {}
  checks:
    description:
      - File that remembers what was read, so that a file that was not touched since is not read again.
      - M(baremetal.llm.bundle_verify) has the same.
    type: path
  signing_key:
    description:
      - Private key of OpenSSH on the controller that the manifest is signed with, or a public key whose private one an agent holds. The
        signature goes into C(manifest.yml.sig). A key with a passphrase has to be in an agent.
      - Left out, the manifest is not signed.
    type: path
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  action:
    description: Has a part that runs on the controller, and says there what went wrong.
    support: full
  check_mode:
    description: Says whether the bundle would change, and changes nothing.
    support: full
  diff_mode:
    description: Shows the records that are added and removed.
    support: full
  idempotent:
    description: A second run with the same files changes nothing.
    support: full
requirements:
  - PyYAML
"""

EXAMPLES = r"""
- name: Bundle | Write the manifest
  baremetal.llm.bundle_manifest:
    bundle: /srv/llm-bundle
    artefacts:
      - source: /srv/downloads/NVIDIA-Linux-x86_64-570.195.03.run
        path: driver/NVIDIA-Linux-x86_64-570.195.03.run
        kind: driver
        fields:
          method: runfile
          version: 570.195.03
          branch: "570"
"""

RETURN = r"""
files:
  description: How many files the manifest lists.
  returned: success
  type: int
bytes:
  description: Their size together.
  returned: success
  type: int
manifest_sha256:
  description: The SHA-256 of the manifest itself, which stands for the whole bundle.
  returned: success, but not in check mode
  type: str
"""

import datetime
import os
import shutil
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    KINDS,
    MANIFEST_NAME,
    SCHEMA,
    SIGNATURE_NAME,
    BundleError,
    make_record,
    safe_path,
    walk,
)
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_check import read_checks, write_checks
from ansible_collections.baremetal.llm.plugins.module_utils._coded import failure
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_yaml

try:
    import yaml

    HAS_YAML = True
except ImportError:
    HAS_YAML = False


def bring(source: str, target: str, check_mode: bool) -> bool:
    """Make target the same file as source, or a copy of it. Return whether that changes anything."""
    source = os.path.realpath(source)
    if os.path.exists(target):
        there, wanted = os.stat(target), os.stat(source)
        if os.path.samefile(source, target) or (there.st_size, there.st_mtime_ns) == (
            wanted.st_size,
            wanted.st_mtime_ns,
        ):
            return False
    if not check_mode:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.exists(target):
            os.unlink(target)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
    return True


def earlier(path: str) -> dict[str, Any]:
    """The manifest that is there; nothing of one that nobody can read."""
    try:
        with open(path, encoding="utf-8") as stream:
            found = read_yaml(stream.read())
    except ValueError:
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("files"), list) else {}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "bundle": {"type": "path", "required": True},
            "checks": {"type": "path"},
            "signing_key": {"type": "path", "no_log": False},
            "artefacts": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "source": {"type": "path"},
                    "path": {"type": "str", "required": True},
                    "kind": {"type": "str", "required": True, "choices": list(KINDS)},
                    "fields": {"type": "dict", "default": {}},
                },
            },
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    if not HAS_YAML:
        module.fail_json(**failure("as_given", reason=missing_required_lib("PyYAML")))
    bundle = module.params["bundle"]
    seen = read_checks(module.params["checks"], bundle) if module.params["checks"] else {}
    changed, records = False, []
    for artefact in module.params["artefacts"]:
        source = artefact["source"] or os.path.join(bundle, artefact["path"])
        found = walk(source)
        if not found and module.check_mode and not artefact["source"]:
            changed = True  # it would have been fetched by now
        elif not found:
            module.fail_json(**failure("artefact_missing", source=source, kind=artefact["kind"]))
        for full, below in found:
            path = safe_path(os.path.join(artefact["path"], below) if os.path.isdir(source) else artefact["path"])
            if artefact["source"]:
                changed |= bring(full, os.path.join(bundle, path), module.check_mode)
            if not module.check_mode:
                try:
                    records.append(make_record(bundle, path, artefact["kind"], artefact["fields"], seen))
                except BundleError as error:
                    module.fail_json(**failure(error.code, **error.values))
    manifest_path, signature_path = (os.path.join(bundle, name) for name in (MANIFEST_NAME, SIGNATURE_NAME))
    old = earlier(manifest_path) if os.path.exists(manifest_path) else {}
    if module.check_mode:
        module.exit_json(changed=changed or not old, files=len(old.get("files", [])), bytes=0)
    if old.get("files") != records or old.get("schema") != SCHEMA:
        changed = True
        created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        text = yaml.safe_dump({"schema": SCHEMA, "created": created, "files": records}, sort_keys=False)
        _own_files.write(manifest_path, text.encode("utf-8"))
        if os.path.exists(signature_path):
            os.unlink(signature_path)  # it is that of the manifest before
    if module.params["checks"]:
        write_checks(module.params["checks"], bundle, seen)
    before, after = (
        "".join(f"{record['path']} {record['sha256']}\n" for record in files)
        for files in (old.get("files", []), records)
    )
    module.exit_json(
        changed=changed,
        files=len(records),
        bytes=sum(record["size"] for record in records),
        diff={"before": before, "after": after, "before_header": manifest_path, "after_header": manifest_path},
    )


if __name__ == "__main__":
    main()
