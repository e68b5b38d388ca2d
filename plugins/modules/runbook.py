#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: runbook
short_description: Write a page to print, with the commands of the runbooks for this fleet
version_added: 0.1.0
description:
  - Writes C(runbook.html) into C(llm_report_dir), from what an operator sees to commands with the names of this fleet's hosts and deployments. It is a
    report, so that writing it is no change. Check mode writes nothing.
  - Names, addresses and folders are on the page; secrets are not.
options: {}
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Runbook | Write the page
  baremetal.llm.runbook:
  run_once: true
"""

RETURN = r"""
path:
  description: Where the page is.
  returned: always
  type: str
"""
