#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Print the report at the end of a playbook
version_added: 0.1.0
description:
  - Prints, as plain lines for people, what each deployment answers, where its ranks run, and how long each stage took.
  - Reads what the stages before it left in variables of the hosts. Runs on the controller, once.
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Report | Show it
  baremetal.llm.report:
  run_once: true
"""

RETURN = r"""
lines:
  description: The printed lines.
  returned: always
  type: list
  elements: str
"""
