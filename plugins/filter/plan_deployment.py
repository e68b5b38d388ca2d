# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter plan_deployment: a thin wrapper around the planner."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plan_deployment
author: The baremetal.llm authors (@baremetal-llm)
short_description: Choose how to serve a model on the GPUs of some hosts
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.model
  - baremetal.llm.language
description:
  - Chooses tensor and pipeline parallel sizes, dtype, context and memory settings, and explains the choice.
  - Shapes are compared by predicted context, requests at once and speed, with a stated cost of the network between hosts.
positional: nodes, request
options:
  nodes:
    description:
      - Hosts in rank order, the head first; each with C(host) and C(gpus).
      - GPUs are as nvidia-smi reports them, each with C(name), C(memory_mib) and C(compute_capability).
      - C(memory_mib) of a host, where it is known, limits the weights that an alternative puts there.
    type: list
    elements: dict
    required: true
  request:
    description:
      - What the user wants, any of the settings of C(predict_start), kept as they are.
      - C(objective) is C(throughput), C(latency) or C(context); C(interconnect) is C(slow) or C(fast) between hosts.
      - C(image_has_ray) says whether hosts can be joined by Ray; where it is false, vLLM joins them itself (C(mp)).
      - C(observations) holds past starts (C(gpu), C(model), C(vllm_version), C(prediction), C(truth)) that correct the figures.
    type: dict
    default: {}
seealso:
  - plugin: baremetal.llm.vllm_arguments
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Plan a model on two hosts with one V100 each
  ansible.builtin.set_fact:
    plan: "{{ config | baremetal.llm.plan_deployment(nodes, {'vllm_version': '0.8.5.post1', 'max_model_len': 4096}) }}"
  vars:
    v100: {name: Tesla V100-PCIE-16GB, memory_mib: 16384, compute_capability: "7.0"}
    nodes:
      - {host: gpu01, gpus: ["{{ v100 }}"]}
      - {host: gpu02, gpus: ["{{ v100 }}"]}

- name: Show the command line of the plan
  ansible.builtin.debug:
    msg: "{{ plan.settings | baremetal.llm.vllm_arguments('0.8.5.post1') | join(' ') }}"
"""

RETURN = r"""
_value:
  description:
    - C(ok), C(verdict) (as from C(predict_start)), C(settings) (options of the release), C(nodes) (C(host) and C(ranks) in rank order),
      C(gpu_places) (by host the places in its list of the GPUs that are used, where some of another kind are left out), C(predicted) (as from
      C(predict_start)), C(alternatives) (the nearest other plans with what each costs and gains, rejected ones with
      their error), C(reasons), C(vllm_version), C(executor) (C(uni), C(mp) or C(ray)), and C(launch), by host the C(argv) and
      C(environment) of vLLM, with the names of hosts where their addresses belong. Where the release reads its options from a file
      (from 0.11.1 on), C(config) holds the C(path) and C(content) of that file and the shorter C(argv) that names it.
  type: dict
"""

from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm import plan as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import refusing

plan_deployment = refusing(core.plan_deployment)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"plan_deployment": plan_deployment}
