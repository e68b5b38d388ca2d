#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: status
short_description: Show the state of the fleet
version_added: 0.1.0
description:
  - Prints what M(baremetal.llm.gather) with O(baremetal.llm.gather#module:live) found on the hosts of this run. The verdict comes first, then a row for each
    host, then in what hosts differ that should be alike, then what hosts still run or hold that the inventory does not name for them any more.
  - A host that does not answer, or answers with something that cannot be read, is a row that says so. What is not known is said to be unknown.
  - Writes C(status.json) and C(status.html) into C(llm_report_dir), and C(looks.json), by which later looks tell how disks fill and which hosts left the
    inventory. These are reports, no state of a host, so that writing them is no change. Check mode writes nothing.
options:
  output:
    description: What is printed, a table (V(text)), the content of C(status.json) (V(json)), or where the page was written (V(html)).
    type: str
    choices: [text, json, html]
    default: text
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
  - baremetal.llm.attributes.looks
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Status | Show the state of the fleet
  baremetal.llm.status:
  run_once: true
"""

RETURN = r"""
ok:
  description: Whether every row is well.
  returned: always
  type: bool
verdict:
  description: The first line of what is printed.
  returned: always
  type: str
  sample: All deployments serve (2).
"""
