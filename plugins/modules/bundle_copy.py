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
  - A file of 64 MiB or more gets its name as soon as it has arrived, smaller ones together. After an interrupted run the next one
    sends only what had not arrived completely; what was left of the others is removed first and needs no room.
  - Files of less than 1 MiB travel together in an archive of at most 64 MiB, as a transfer each would take longer than their content. One
    that was under way when a run was interrupted is sent again.
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
  content:
    description:
      - Read every file on the host again, from the disk and when nobody else wants it, instead of trusting size and modification time.
      - A file whose content changed although nobody wrote to it is named in a warning and copied again. A program that has the old
        one open keeps it.
    type: bool
    default: false
  files:
    description: Internal. What the controller's part asks the host's part about.
    type: list
    elements: dict
  phase:
    description: Internal. Whether the host's part shall C(check) what is missing or C(commit) what has arrived.
    type: str
    choices: [check, commit]
    default: check
  packed:
    description: Internal. Whether some of O(files) have arrived in an archive.
    type: bool
    default: false
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller_part
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
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
  description: How many bytes were sent for that, or would be in check mode. What an interrupted run had sent is not counted.
  returned: success
  type: int
rotten:
  description: Those of RV(copied) that were on the host, with the right size and time, and another content.
  returned: success
  type: list
  elements: str
taken:
  description: Those of RV(copied) that an interrupted run had sent already.
  returned: success
  type: list
  elements: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Wanted
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import (
    INCOMING,
    PACKED,
    commit,
    incoming_name,
    look,
    unpack,
    write_state,
)
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, coded, failure
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import read_state


def check(module: AnsibleModule, dest: str, files: list[Wanted]) -> None:
    """Say which files the host lacks and which of them have arrived already, and make room where the connection's user may put the rest."""
    found = look(dest, files, bool(module.params["content"]), module.check_mode, "llm_host_dir")
    incoming = os.path.join(dest, INCOMING)
    module.exit_json(
        changed=bool(found["missing"]),
        **found,
        arriving={
            file["path"]: os.path.join(incoming, incoming_name(file))
            for file in files
            if file["path"] in found["missing"]
        },
        arriving_packed=os.path.join(incoming, PACKED),
    )


def receive(module: AnsibleModule, dest: str, files: list[Wanted]) -> None:
    """Check what has arrived and give it its name. What is wrong is removed and returned, so that the others can go on."""
    state, wrong = read_state(dest), []
    if module.params["packed"]:
        unpack(dest, files)
    for file in files:
        found = commit(dest, file, os.path.join(dest, INCOMING, incoming_name(file)), state)
        if found != file["sha256"]:
            wrong.append(coded("copy_digest", path=file["path"], found=found, wanted=file["sha256"]))
    write_state(dest, state)
    module.exit_json(changed=True, wrong=wrong)


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
            "content": {"type": "bool", "default": False},
            "files": {"type": "list", "elements": "dict"},
            "phase": {"type": "str", "choices": ["check", "commit"], "default": "check"},
            "packed": {"type": "bool", "default": False},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    # Containers read the models as another user, whatever a host lets root's files be by default.
    os.umask(0o022)
    dest, files = module.params["dest"], module.params["files"] or []
    try:
        (check if module.params["phase"] == "check" else receive)(module, dest, files)
    except CodedError as error:
        module.fail_json(**failure(error.code, **error.values))
    except OSError as error:
        module.fail_json(**failure("not_writable", folder=dest, reason=error, variable="llm_host_dir"))


if __name__ == "__main__":
    main()
