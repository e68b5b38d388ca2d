#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait
short_description: Wait until another module succeeds, with a line of progress a minute
version_added: 0.1.0
description:
  - Runs O(module) on the host until it succeeds, or until an asynchronous job that it asks for has finished. In contrast to C(until) no line is printed
    for each try.
  - The result is that of the last try.
options:
  module:
    description: The full name of the module or action, as in V(ansible.builtin.uri).
    type: str
    required: true
  args:
    description: Its arguments.
    type: dict
    required: true
  seconds:
    description: After how long it fails. A try that has begun is not ended.
    type: float
    required: true
  every_seconds:
    description: How long it waits between two tries.
    type: float
    default: 2
extends_documentation_fragment:
  - baremetal.llm.language
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller_part
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
    details:
      - Asks nothing then.
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Grafana | Wait for an answer
  baremetal.llm.wait:
    module: ansible.builtin.uri
    args:
      url: http://127.0.0.1:3000/api/health
    seconds: 60
"""

RETURN = r"""
waited_seconds:
  description: How long it took.
  returned: always
  type: float
"""
