# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter plan_gguf: a thin wrapper around the plan of llama.cpp."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plan_gguf
author: The baremetal.llm authors (@baremetal-llm)
short_description: Plan llama.cpp for a GGUF file on the GPUs of a host
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.language
description:
  - Reads the header of a GGUF file on the controller, of its further parts too. Says which layers lie on which GPU, how much memory each needs, how long
    the context can be, and with which options llama-server is started so.
  - A file that is cut off, damaged or of another architecture is refused.
options:
  _input:
    description: The path of the file, of several parts that of the first one.
    type: str
    required: true
  gpus:
    description: The GPUs of the host, each with C(name), C(memory_mib) and C(compute_capability) as nvidia-smi reports them.
    type: list
    elements: dict
    required: true
  request:
    description:
      - C(context), which all requests at once share, C(requests), C(batch), C(key_type) and C(value_type) of the cache, C(flash), C(unified), C(whole_window).
    type: dict
  release:
    description: The build of llama.cpp for which C(argv) is written, such as C(b9603). Without it there is none.
    type: str
"""

EXAMPLES = r"""
- name: Show what a file needs on a host with two V100
  ansible.builtin.debug:
    msg: "{{ '/srv/models/qwen3-32b-q4_k_m.gguf' | baremetal.llm.plan_gguf(gpus, {'context': 16384}) }}"
  vars:
    gpus:
      - {name: Tesla V100-PCIE-16GB, memory_mib: 16384}
      - {name: Tesla V100-PCIE-16GB, memory_mib: 16384}
"""

RETURN = r"""
_value:
  description:
    - C(architecture), C(quantization), C(bits_per_weight), C(fits) (whether all layers are on GPUs), C(verdict) (C(measured) where plans of the architecture
      were compared with llama.cpp, else C(estimated)), C(layers), C(gpu_layers), C(context), C(longest_context), C(gpus) and C(all_in_one) (C(weights_gib),
      C(cache_gib), C(compute_gib)), C(host_gib), C(argv).
  type: dict
"""

from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp import plan as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain, refusing


@refusing
def plan_gguf(
    path: object, gpus: object, request: object = None, release: object = "", language: str = "en"
) -> dict[str, object]:
    return core.plan_gguf(str(path), plain(gpus), plain(request or {}), str(release or ""))


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"plan_gguf": plan_gguf}
