#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: what_fits
short_description: Print which models fit some hosts
version_added: 0.1.0
description:
  - Plans each model of the catalogue on a fleet, and prints those that fit with their context, and what keeps the others from it.
  - The fleet is O(fleet) or C(llm_fleet) of the command line, else the hosts of the inventory with what C(llm_gpus) says of them. No host is touched.
  - Hosts with equal GPUs belong together. A model that fits one host has a copy on each of them; one that does not is split over the hosts that are alike.
  - The figures are those of the filter P(baremetal.llm.plan_deployment#filter), with the release that is recommended for the GPUs.
options:
  fleet:
    description: Hosts x GPUs of each, as in V(3 x 2 Tesla V100-PCIE-16GB); several kinds of hosts joined with C(+). Left out, it is C(llm_fleet).
    type: str
    default: ""
  model:
    description: Only this model of the catalogue, by its name at Hugging Face or ModelScope.
    type: str
    default: ""
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
  - baremetal.llm.attributes.looks
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Catalogue | Print what fits
  baremetal.llm.what_fits:
    fleet: 2 x 4 RTX 4090 + 1 x 2 RTX A6000
"""

RETURN = r"""
fits:
  description: For each kind of hosts their names (C(hosts)) and the models that fit (C(models)), the largest first.
  returned: success
  type: list
  elements: dict
"""
