#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: disk_facts
short_description: What is free on a host's disks, and what is still to come to them
version_added: 0.1.0
description:
  - Adds up per file system what has to go to it and what is free. Directories that do not exist yet count for the file system
    on which they would be made, and what is there already is not needed a second time.
  - Changes nothing.
options:
  needs:
    description: What shall be put where, as the filter P(baremetal.llm.disk_needs#filter) returns it.
    type: list
    elements: dict
    required: true
    suboptions:
      directory:
        description: Where it goes.
        type: path
        required: true
      bytes:
        description: Its size.
        type: int
        required: true
      name:
        description: The file's name. A file of this name and size anywhere below the directory is the one that is needed.
        type: str
        default: ""
      marks:
        description: Groups of paths. When of each group one path exists, nothing is needed any more.
        type: list
        elements: list
        default: []
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Disk | Measure what the bundle needs
  baremetal.llm.disk_facts:
    needs: "{{ manifest | baremetal.llm.disk_needs(model='Qwen/Qwen2.5-14B-Instruct') }}"
  vars:
    manifest: "{{ lookup('ansible.builtin.file', llm_bundle_dir ~ '/manifest.yml') | from_yaml }}"
  register: __disk
"""

RETURN = r"""
disks:
  description: The file systems that are concerned.
  returned: success
  type: list
  elements: dict
  contains:
    mount:
      description: Where it is mounted.
      type: str
      sample: /
    available_bytes:
      description: What is free for everybody.
      type: int
      sample: 1234567890
    total_bytes:
      description: Its size.
      type: int
      sample: 9234567890
    needed_bytes:
      description: What is still to come to it.
      type: int
      sample: 234567890
    needs:
      description: The same per directory.
      type: dict
      sample: {"/opt/llm": 234567890}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._disks import measure_disks


def main() -> None:
    """Measure."""
    module = AnsibleModule(
        argument_spec={
            "needs": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "directory": {"type": "path", "required": True},
                    "bytes": {"type": "int", "required": True},
                    "name": {"type": "str", "default": ""},
                    "marks": {"type": "list", "elements": "list", "default": []},
                },
            }
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, disks=measure_disks(module.params["needs"]))


if __name__ == "__main__":
    main()
