# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_problems
short_description: Why an NVIDIA driver cannot drive the GPUs of a host
version_added: 0.1.0
description:
  - Compares a version of the driver with the last branch that drives each generation of GPUs, and the kind of kernel module
    with what the generation has.
positional: gpus, kernel_module, language
options:
  _input:
    description: The version of the driver.
    type: str
    required: true
  gpus:
    description: Compute capabilities of the GPUs, as in V(7.0); what is not known (V(null)) is passed over.
    type: list
    elements: str
    required: true
  kernel_module:
    description: Kind of the kernel module; V(auto) is the one that drives the GPUs.
    type: str
    choices: [auto, proprietary, open]
    default: auto
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Driver | Refuse what does not drive the GPUs
  ansible.builtin.assert:
    that: "'590.44.01' | baremetal.llm.driver_problems(['7.0']) | length == 0"
"""

RETURN = r"""
_value:
  description: A text for each problem; empty if there is none.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.install import driver


def driver_problems(version: str, gpus: list[Any], kernel_module: str = "auto", language: str = "en") -> list[str]:
    """Texts for people."""
    return driver.driver_problems(str(version), [str(gpu) for gpu in gpus if gpu], kernel_module, language)


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"driver_problems": driver_problems}
