#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_accept
short_description: Load the GPUs of a host, measure them, and judge each
version_added: 0.1.0
description:
  - Reads how the host's GPUs are, runs C(dcgmi diag) where DCGM is there, loads all cards with O(command) at once and reads them meanwhile, and reads
    them again. The controller judges each card by one table - memory and results that are wrong, errors and worn memory, links under load, clocks,
    temperature, what the driver logged, figures far below the data sheet, below the other cards of the host or below the card's own of last time.
  - An answer that cannot be read is a finding about the host or its cards, never a failure.
  - The cards are busy as long as O(command) runs. Nothing on the host is changed.
options:
  command:
    description: The program that loads all cards and prints their figures, as C(burn_in.py) of the role does.
    type: list
    elements: str
    required: true
  seconds:
    description: After how long it is ended.
    type: int
    required: true
  dcgm_level:
    description: Level of C(dcgmi diag -r); 0 leaves DCGM out. 1 takes seconds, 2 minutes, 3 up to half an hour, 4 hours.
    type: int
    choices: [0, 1, 2, 3, 4]
    default: 1
  record:
    description: File on the host with the result of last time, to compare with.
    type: path
    required: true
  slower_percent:
    description: A figure so much lower than last time, or than that of the host's other cards of one name, is a finding.
    type: int
    default: 10
extends_documentation_fragment:
  - baremetal.llm.sysfs
  - baremetal.llm.language
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller_part
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
    details:
      - Loads nothing then, and judges nothing.
"""

EXAMPLES = r"""
- name: Accept | Load and judge the GPUs
  baremetal.llm.gpu_accept:
    command: [python3, /opt/llm/accept/burn_in.py, "60", "0.9"]
    seconds: 600
    record: /opt/llm/accept/accept.json
"""

RETURN = r"""
gpus:
  description:
    - Each card with C(index), C(uuid), C(name), C(bus_id), its C(verdict) (V(pass), V(warn) or V(fail)), its C(findings), each with C(code) and C(values),
      and its C(figures).
  returned: unless in check mode
  type: list
  elements: dict
passed:
  description: Whether no card failed.
  returned: unless in check mode
  type: bool
text:
  description: The same for people.
  returned: unless in check mode
  type: str
record:
  description: What belongs into O(record) now, so that the next time can be compared.
  returned: unless in check mode
  type: dict
"""


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._accept import examine
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_object
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs

# After how long DCGM is ended.
DCGM_SECONDS = 7200


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "command": {"type": "list", "elements": "str", "required": True},
            "seconds": {"type": "int", "required": True},
            "dcgm_level": {"type": "int", "choices": [0, 1, 2, 3, 4], "default": 1},
            "record": {"type": "path", "required": True},
            "slower_percent": {"type": "int", "default": 10},
            "sysfs_root": {"type": "path", "default": "/sys"},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False)
    asked = module.params
    programs = Programs(module)
    diagnoses = Programs(module, DCGM_SECONDS)
    facts = examine(programs, diagnoses, asked["command"], asked["seconds"], asked["dcgm_level"], asked["sysfs_root"])
    # The result of last time; an unreadable one only means that nothing is compared.
    module.exit_json(changed=False, facts=facts, last=read_object(asked["record"]))


if __name__ == "__main__":
    main()
