# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter parse_engine_log: a thin wrapper around the planner."""

from __future__ import annotations

DOCUMENTATION = r"""
name: parse_engine_log
author: The baremetal.llm authors (@baremetal-llm)
short_description: Read what an engine measured from its log
version_added: 0.1.0
description:
  - Reads the figures that vLLM logs while it starts (V0 and V1 formats), to be stored beside the prediction and given to the
    next plan as C(observations).
options:
  _input:
    description: The text of the log.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Keep what the engine measured
  ansible.builtin.set_fact:
    truth: "{{ log_text | baremetal.llm.parse_engine_log }}"
"""

RETURN = r"""
_value:
  description:
    - C(ranks) (C(weights_gib), C(activation_gib), C(non_torch_gib), C(cudagraph_gib), C(kv_cache_gib) as far as logged),
      C(kv_cache_tokens), C(max_concurrency), C(num_gpu_blocks), C(engine), C(vllm_version), C(loading_seconds), C(complete).
  type: dict
"""

from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm import engine_log as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import refusing

parse_engine_log = refusing(core.parse_engine_log)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"parse_engine_log": parse_engine_log}
