#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: diagnose
short_description: Explain a saved log of an engine
version_added: 0.1.0
description:
  - Prints what a log of vLLM, SGLang, Ray, NCCL or the container engine says about a failure, with the line that shows it and what to change. What starts a
    failure comes before what follows from it. An error that no entry knows is quoted, and called unknown.
  - Of a log longer than 4 MiB the beginning and the end are read. No host is touched.
options:
  file:
    description: The file on the controller.
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
- name: Diagnose | Explain the log
  baremetal.llm.diagnose:
    file: vllm.log
"""

RETURN = r"""
findings:
  description: What the log shows, as the filter P(baremetal.llm.diagnose_log#filter) returns it.
  returned: success
  type: list
  elements: dict
"""
