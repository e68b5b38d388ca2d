#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: doctor
short_description: Say what is wrong with a fleet that runs, and what to do
version_added: 0.1.0
description:
  - Judges what M(baremetal.llm.gather) with O(baremetal.llm.gather#module:live) found on the hosts of this run, by the rules of
    M(baremetal.llm.preflight_check), by the table of known failures in logs, and by what only a running fleet shows. Changes nothing.
  - Prints the verdict, then each finding with what shows it and what to do, the worst first, then each check that is well.
  - Writes C(doctor.json) and C(looks.json) into C(llm_report_dir). Check mode writes nothing.
  - Fails where a host could not be looked at and nothing else is broken. What is broken is no failure of the task, and is said by RV(exit_code).
options:
  output:
    description: What is printed, lines (V(text)) or the content of C(doctor.json) (V(json)).
    type: str
    choices: [text, json]
    default: text
  log:
    description: A saved log on the controller. With it the log is judged, and no host.
    type: path
    default: ""
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
  - baremetal.llm.attributes.looks
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Doctor | Report each fault
  baremetal.llm.doctor:
  run_once: true
  register: __doctor
"""

RETURN = r"""
exit_code:
  description: V(0) where nothing is broken, V(1) where something is, V(2) where a host could not be looked at and nothing else is broken.
  returned: always
  type: int
verdict:
  description: The first line of what is printed.
  returned: always
  type: str
"""
