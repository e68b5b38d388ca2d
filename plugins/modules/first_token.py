#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: first_token
short_description: Wait for the first token of a server that starts
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - Runs O(ask) on the host every five seconds until it succeeds. Meanwhile it reads the server's log, and prints what the server does, how far that is
    and how long it may still take, when that is something new, and once a minute.
  - What it says of the time left is the engine's own estimate. Before the engine has one, it is the time in which the host's disk gives all
    weights.
  - Three starts that end with the same root cause end the wait, unless the cause is one that other hosts may heal.
options:
  name:
    description: The name of the deployment, for the lines that are printed.
    type: str
    required: true
  ask:
    description: A command that succeeds once the server generates.
    type: list
    elements: str
    required: true
  log:
    description: A command that prints the server's log.
    type: list
    elements: str
    required: true
  seconds:
    description: After how long it fails.
    type: float
    required: true
  reading_seconds:
    description: How long the host's disk needs to read all weights, where that was measured.
    type: float
  last_seconds:
    description: How long the last start took, where that is known.
    type: float
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
"""

EXAMPLES = r"""
- name: Token | Wait until vLLM generates it
  baremetal.llm.first_token:
    name: qwen25_14b
    ask: [curl, --fail, "http://127.0.0.1:8000/v1/models"]
    log: [docker, logs, --tail, "2000", llm-vllm]
    seconds: 600
"""

RETURN = r"""
waited_seconds:
  description: How long it waited. It waits no longer than three starts in a row that the same known failure ended.
  returned: always
  type: float
stage:
  description: What the log showed last, in words.
  returned: always
  type: str
stdout:
  description: What O(ask) printed the last time, and C(stderr) and C(rc) of the same.
  returned: always
  type: str
"""
