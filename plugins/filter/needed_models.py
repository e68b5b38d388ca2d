# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: needed_models
short_description: Which models the hosts of a deployment need
version_added: 0.1.0
description:
  - The served model, then those that it is served with, each once; by name as in the bundle, or as an absolute path on the hosts.
positional: vllm_tokenizer, vllm_speculative_model, vllm_lora_adapters
options:
  _input:
    description: The served model.
    type: str
    required: true
  vllm_tokenizer:
    description: The model with the tokenizer; empty for the served one.
    type: str
    default: ""
  vllm_speculative_model:
    description: The draft model; empty for none.
    type: str
    default: ""
  vllm_lora_adapters:
    description: The adapters, each with its C(model).
    type: list
    elements: dict
    default: []
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Models | Show what comes to the hosts
  ansible.builtin.debug:
    msg: "{{ 'Qwen/Qwen2.5-7B-Instruct' | baremetal.llm.needed_models('', '', [{'name': 'sql', 'model': 'org/sql-lora'}]) }}"
"""

RETURN = r"""
_value:
  description: The models.
  type: list
  elements: str
"""

from collections.abc import Callable, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import models as core


def needed_models(
    model: object,
    vllm_tokenizer: object = "",
    vllm_speculative_model: object = "",
    vllm_lora_adapters: Sequence[object] = (),
) -> list[str]:
    """The filter; see the documentation above."""
    # The names that the default engine has for them; another engine's role hands over what it has under these.
    said = {"vllm_model": model, "vllm_tokenizer": vllm_tokenizer, "vllm_speculative_model": vllm_speculative_model}
    return list(core.needed_models({**said, "vllm_lora_adapters": list(vllm_lora_adapters)}))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"needed_models": needed_models}
