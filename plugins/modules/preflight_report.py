#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_report
short_description: Print and write what preflight found
version_added: 0.1.0
description:
  - Prints a line for each host and all warnings as plain text, and writes all findings as JSON for CI.
  - It refuses nothing; the role P(baremetal.llm.preflight#role) does that afterwards.
  - The file on the controller is a report, no state of a host, so that writing it is no change. Check mode writes nothing.
options:
  result:
    description: What the filter P(baremetal.llm.check_hosts#filter) returned.
    type: dict
    required: true
  path:
    description: The file on the controller. Its folder is made.
    type: path
    required: true
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Can run in check mode and writes no file there.
    support: full
  diff_mode:
    description: Shows what changed. Nothing does.
    support: none
"""

EXAMPLES = r"""
- name: Preflight | Tell what was found
  baremetal.llm.preflight_report:
    result: "{{ found }}"
    path: "{{ llm_report_dir }}/preflight.json"
  run_once: true
"""

RETURN = r"""
lines:
  description: The printed lines.
  returned: always
  type: list
  elements: str
"""
