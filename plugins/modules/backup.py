#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: backup
short_description: Keep what only the controller knows in one encrypted file
version_added: 0.1.0
description:
  - Packs the inventory with everything beside it, the secrets, the reports, and the manifest of the bundle with the small files of its models, encrypts that
    with the vault password of the run, and writes one file that only its owner can read. C(ansible-vault decrypt) and C(tar) open it as well.
  - Neither images nor weights are in it, nor what the hosts know themselves.
options:
  state:
    description: Whether the file is written (V(saved)) or what is in it (V(restored)).
    type: str
    choices: [saved, restored]
    required: true
  path:
    description: The file. One that is there is not replaced.
    type: path
    required: true
  folder:
    description: With O(state=restored) the folder for what is in it, which is new or empty.
    type: path
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Backup | Write the backup
  baremetal.llm.backup:
    state: saved
    path: /mnt/usb/fleet.vault
  run_once: true
"""

RETURN = r"""
files:
  description: How many files are in it.
  returned: always
  type: int
variables:
  description: With O(state=restored) the variables whose folder was not beside the inventory, with where it is now.
  returned: always
  type: dict
"""
