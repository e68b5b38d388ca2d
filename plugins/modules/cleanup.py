#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cleanup
short_description: Decide what a cleanup frees on hosts, and say what it freed
version_added: 0.1.0
description:
  - Of what M(baremetal.llm.host_cleanup) listed on the hosts of this run, that goes which the host calls safe to go, the inventory does not ask for, and which
    is in a class of O(what). All else stays, with its reason.
  - Afterwards prints what was removed, what is free now, what a full disk has damaged, and the command that mends that. Writes it into C(cleanup.json)
    in C(llm_report_dir); check mode writes nothing.
options:
  state:
    description: Whether to decide, or to say what was done.
    type: str
    choices: [planned, done]
    default: planned
  hosts:
    description: The hosts that the run is about.
    type: list
    elements: str
    required: true
  what:
    description:
      - The classes that are freed, C(images), C(layers), C(models), C(transfers), C(caches), C(runs), C(journals), C(cores) and C(packages).
      - Left out, all but the last three, which people may want to read or to keep.
    type: list
    elements: str
    default: []
  output:
    description: What is printed at the end, lines (V(text)) or the content of C(cleanup.json) (V(json)).
    type: str
    choices: [text, json, html]
    default: text
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
  - baremetal.llm.attributes.looks
author:
  - The baremetal.llm authors (@baremetal-llm)
seealso:
  - module: baremetal.llm.host_cleanup
"""

EXAMPLES = r"""
- name: Cleanup | Decide what goes
  baremetal.llm.cleanup:
    hosts: [gpu01, gpu02]
    what: [images, models]
  register: __cleanup
"""

RETURN = r"""
lines:
  description: For people, what takes space and what goes, or what was done.
  returned: always
  type: list
  elements: str
items:
  description: By host, what M(baremetal.llm.host_cleanup) is to remove. A host where nothing goes is not in it.
  returned: with O(state=planned)
  type: dict
silent:
  description: The hosts that did not answer.
  returned: always
  type: list
  elements: str
failed_hosts:
  description: The hosts where something could not be removed.
  returned: with O(state=done)
  type: list
  elements: str
"""
