# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter vllm_arguments: a thin wrapper around the planner."""

from __future__ import annotations

DOCUMENTATION = r"""
name: vllm_arguments
author: The baremetal.llm authors (@baremetal-llm)
short_description: Write settings as the command line of a vLLM release
version_added: 0.1.0
description:
  - Turns settings into the list of arguments of a release. An option that the release does not know is an error that names
    the first or last release that has it and what replaced it.
positional: vllm_version
options:
  _input:
    description:
      - vLLM's options with underscores. Empty values are left out; keys that describe a start and are no options
        (C(vllm_version), C(nodes), C(compute_capabilities), C(environment)) never reach the command line.
    type: dict
    required: true
  vllm_version:
    description: The vLLM release.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show a command line
  ansible.builtin.debug:
    msg: "{{ {'tensor_parallel_size': 2, 'dtype': 'half', 'enforce_eager': true} | baremetal.llm.vllm_arguments('0.8.5.post1') }}"
    # ["--tensor-parallel-size", "2", "--dtype", "half", "--enforce-eager"]
"""

RETURN = r"""
_value:
  description: The arguments.
  type: list
  elements: str
"""

from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm import arguments as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import refusing

vllm_arguments = refusing(core.vllm_arguments)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"vllm_arguments": vllm_arguments}
