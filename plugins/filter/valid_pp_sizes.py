# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter valid_pp_sizes: a thin wrapper around the planner."""

from __future__ import annotations

DOCUMENTATION = r"""
name: valid_pp_sizes
author: The baremetal.llm authors (@baremetal-llm)
short_description: List the pipeline sizes that a model allows
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.model
description:
  - Lists every pipeline_parallel_size up to a number of stages that the release allows for this model.
positional: max_nodes, vllm_version
options:
  max_nodes:
    description: The largest size to look at.
    type: int
    required: true
  vllm_version:
    description: The vLLM release.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the pipeline sizes for up to four hosts
  ansible.builtin.debug:
    msg: "{{ config | baremetal.llm.valid_pp_sizes(4, '0.8.5.post1') }}"
"""

RETURN = r"""
_value:
  description: The sizes, in rising order.
  type: list
  elements: int
"""

from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import refusing
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import predict as core

valid_pp_sizes = refusing(core.valid_pp_sizes)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"valid_pp_sizes": valid_pp_sizes}
