#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_copy
short_description: Copy files of the bundle to a host, checked by SHA-256 where they arrive
version_added: 0.1.0
description:
  - Picks files from the manifest of a bundle on the controller, copies those that the host does not have yet, and compares
    their SHA-256 on the host before they get their final name. A broken transfer leaves nothing under that name.
  - A file that is on the host already is recognised by size, modification time and the checksum noted when it arrived; it is
    read again only when one of them differs.
options:
  bundle:
    description: Folder of the bundle on the controller; C(manifest.yml) lies in it.
    type: path
    required: true
  kind:
    description: Kind of the files, as the manifest says it.
    type: str
    required: true
    choices: [docker, driver, image, model, nvidia_container_toolkit, os_packages, python]
  match:
    description: Fields of the manifest's record that must have these values, compared as text.
    type: dict
    default: {}
  dest:
    description: Folder on the host. A file lands at its path in the bundle below it.
    type: path
    required: true
  strip:
    description: How many leading folders of the path in the bundle are left away below O(dest).
    type: int
    default: 0
  files:
    description: Internal. What the controller's part asks the host's part about.
    type: list
    elements: dict
  phase:
    description: Internal. Whether the host's part shall C(check) what is missing or C(commit) what has arrived.
    type: str
    choices: [check, commit]
    default: check
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  action:
    description: Has a part that runs on the controller.
  check_mode:
    description: Says what would be copied and copies nothing.
    support: full
  diff_mode:
    description: Lists the files that are, or would be, copied.
    support: full
  idempotent:
    description: A second run copies nothing.
    support: full
"""

EXAMPLES = r"""
- name: Driver | Bring the installer to the host
  baremetal.llm.bundle_copy:
    bundle: "{{ llm_bundle_dir }}"
    kind: driver
    match:
      version: 570.195.03
    dest: "{{ llm_host_dir }}/bundle"
  register: __installer
"""

RETURN = r"""
files:
  description: The selected records of the manifest, each with C(dest), its path on the host.
  returned: success
  type: list
  elements: dict
  sample:
    - path: driver/NVIDIA-Linux-x86_64-570.195.03.run
      dest: /opt/llm/bundle/driver/NVIDIA-Linux-x86_64-570.195.03.run
      kind: driver
      size: 1234
      sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
copied:
  description: Paths in the bundle of the files that were copied, or would be in check mode.
  returned: success
  type: list
  elements: str
bytes:
  description: How many bytes that is.
  returned: success
  type: int
"""

import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes, is_right, sha256_of, stamp
from ansible_collections.baremetal.llm.plugins.module_utils._coded import coded, failure

STATE_NAME = ".bundle-state.json"
INCOMING = ".incoming"


def read_state(dest: str) -> dict[str, Any]:
    """The checksums noted when files arrived; an unreadable note only means that files are read again."""
    try:
        with open(os.path.join(dest, STATE_NAME), encoding="utf-8") as stream:
            state = json.load(stream)
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def check(module: AnsibleModule, dest: str, files: list[dict[str, Any]]) -> None:
    """Say which files the host lacks, and make room where the connection's user may put them."""
    state = read_state(dest)
    missing = [file["path"] for file in files if not is_right(os.path.join(dest, file["path"]), file, state)]
    incoming = os.path.join(dest, INCOMING)
    if missing and not module.check_mode:
        os.makedirs(incoming, mode=0o700, exist_ok=True)
        os.chown(incoming, int(os.environ.get("SUDO_UID", "-1")), -1)
        status = os.statvfs(dest)
        needed = sum(file["size"] for file in files if file["path"] in missing)
        free = status.f_bavail * status.f_frsize
        if needed > free:
            sizes = {"free": human_bytes(free), "needed": human_bytes(needed)}
            module.fail_json(**failure("no_room", folder=dest, variable="llm_host_dir", **sizes))
    module.exit_json(changed=bool(missing), missing=missing, incoming=incoming)


def commit(module: AnsibleModule, dest: str, files: list[dict[str, Any]]) -> None:
    """Check what has arrived and give it its name."""
    state = read_state(dest)
    wrong = []
    for file in files:
        arrived, final = file["arrived"], os.path.join(dest, file["path"])
        digest = sha256_of(arrived)
        if digest != file["sha256"]:
            wrong.append(coded("copy_digest", path=file["path"], found=digest, wanted=file["sha256"]))
            os.unlink(arrived)
            continue
        os.makedirs(os.path.dirname(final), mode=0o755, exist_ok=True)
        os.chmod(arrived, 0o644)
        if os.geteuid() == 0:
            os.chown(arrived, 0, 0)
        os.replace(arrived, final)
        state[file["path"]] = {"sha256": digest, "stamp": stamp(final)}
    noted = os.path.join(dest, STATE_NAME)
    with open(noted + ".new", "w", encoding="utf-8") as stream:
        json.dump(state, stream, indent=1, sort_keys=True)
    os.replace(noted + ".new", noted)
    if wrong:
        module.fail_json(**failure("copy_damaged", files=wrong))
    module.exit_json(changed=True)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "bundle": {"type": "path", "required": True},
            "kind": {
                "type": "str",
                "required": True,
                "choices": ["docker", "driver", "image", "model", "nvidia_container_toolkit", "os_packages", "python"],
            },
            "match": {"type": "dict", "default": {}},
            "dest": {"type": "path", "required": True},
            "strip": {"type": "int", "default": 0},
            "files": {"type": "list", "elements": "dict"},
            "phase": {"type": "str", "choices": ["check", "commit"], "default": "check"},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    dest, files = module.params["dest"], module.params["files"] or []
    try:
        (check if module.params["phase"] == "check" else commit)(module, dest, files)
    except OSError as error:
        module.fail_json(**failure("not_writable", folder=dest, reason=error, variable="llm_host_dir"))


if __name__ == "__main__":
    main()
