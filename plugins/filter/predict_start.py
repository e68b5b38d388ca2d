# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter predict_start: a thin wrapper around the planner."""

from __future__ import annotations

DOCUMENTATION = r"""
name: predict_start
author: The baremetal.llm authors (@baremetal-llm)
short_description: Say what a start of vLLM would do
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.model
  - baremetal.llm.language
description:
  - Predicts the outcome of starting vLLM with a model on given GPUs, with the memory of every rank.
  - Knows the rules and defaults of each release from 0.2.7 on; nothing is started and no host is reached.
positional: gpus, settings
options:
  gpus:
    description: "GPUs as nvidia-smi reports them, each with C(name), C(memory_mib) and C(compute_capability). One entry for each rank, in rank order."
    type: list
    elements: dict
    required: true
  settings:
    description:
      - vLLM's options with underscores, plus C(vllm_version) and, when known, C(nodes) (the number of ranks on each node).
      - An option left out takes that release's own default.
      - C(compute_capabilities) names the CUDA code that a self-built image holds, as in V(7.0) or V(9.0+PTX); C(cuda_code) names it
        by library, as in C({vllm - [sm_80, compute_80]}), and counts more.
      - C(environment) holds environment variables of the engine, C(free_memory_mib) what is free on each rank before the start.
    type: dict
    required: true
seealso:
  - plugin: baremetal.llm.plan_deployment
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Predict a start on two V100
  ansible.builtin.debug:
    msg: >-
      {{ lookup('ansible.builtin.file', 'config.json') | from_json
      | baremetal.llm.predict_start([v100, v100], {'vllm_version': '0.8.5.post1', 'tensor_parallel_size': 2, 'dtype': 'half'}) }}
  vars:
    v100: {name: Tesla V100-PCIE-16GB, memory_mib: 16384, compute_capability: "7.0"}
"""

RETURN = r"""
_value:
  description:
    - C(ok), C(error) (null, or C(code), C(message), C(remedy)), C(dtype), C(ranks) (C(weights_gib), C(activation_gib),
      C(non_torch_gib), C(cudagraph_gib), C(kv_cache_gib) of each), C(kv_cache_tokens), C(max_concurrency), C(warnings).
    - C(verdict) is C(starts), C(starts_narrowly) (less memory to spare than the prediction may be off by),
      C(not_verified) (the planner has no memory model of the architecture) or C(does_not_start).
    - C(margin) holds C(spare_gib) on the fullest rank (null where unknown), C(uncertainty_gib) with its C(reason), and
      C(longest_safe_context), the longest context that leaves as much (null where unknown).
    - C(change) holds, for a start that fails, options that the planner predicts to start (null leaves one out), nothing if none was found.
  type: dict
"""

from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import refusing
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import remedies as core

predict_start = refusing(core.predict_start)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"predict_start": predict_start}
