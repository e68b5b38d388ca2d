#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: install_decide
short_description: Decide what a role that installs something does on its host
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - From the variables of the role, the bundle and what the role has found on the host, what it removes, installs and configures, and what it
    leaves for its record. What cannot work is refused before the host is changed.
  - The roles P(baremetal.llm.nvidia_driver#role), P(baremetal.llm.docker#role) and P(baremetal.llm.nvidia_container_toolkit#role) begin with
    it, in a playbook of this collection and alone.
  - Runs on the controller and touches no host.
options:
  role:
    description: The role that asks.
    type: str
    choices: [nvidia_driver, docker, nvidia_container_toolkit]
    required: true
  found:
    description:
      - What the role has found. For V(nvidia_driver) C(gpus) and C(driver), which M(baremetal.llm.gpu_facts) and M(baremetal.llm.driver_facts)
        return.
      - For V(docker) C(units) (paths of units of an engine), C(config) (the content of C(daemon.json)), C(held) (how many images and
        containers lie below the data root) and C(flags) (files that put runtimes on the engine's command line).
      - For V(nvidia_container_toolkit) C(engine), the version of the engine that runs.
    type: dict
    required: true
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller
"""

EXAMPLES = r"""
- name: Toolkit | Decide what to do, and refuse what cannot work
  baremetal.llm.install_decide:
    role: nvidia_container_toolkit
    found:
      engine: 28.5.1
  register: _nvidia_container_toolkit_decided
"""

RETURN = r"""
wanted:
  description: The version to install; empty where any will do.
  returned: success
  type: str
packages:
  description: Names of packages, or C(NAME=VERSION).
  returned: success
  type: list
  elements: str
left:
  description: What the role leaves on the host, as M(baremetal.llm.record) takes it. The other values are those that the role's tasks need.
  returned: success
  type: dict
"""
