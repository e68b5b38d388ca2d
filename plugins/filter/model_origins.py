# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: model_origins
short_description: How each model comes to a host
version_added: 0.1.0
description:
  - From the bundle, from a hub, by a program of a host, or not at all, because it lies there.
options:
  _input:
    description: The models, as M(baremetal.llm.online_sources) and the bundle name them, or paths on the hosts.
    type: list
    elements: str
    required: true
  variables:
    description: C(models_dir), C(models_source), C(vllm_model) and C(vllm_tokenizer) of the host.
    type: dict
    required: true
  records:
    description: What the manifest says of its files.
    type: list
    elements: dict
    default: []
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Models | Show how they come
  ansible.builtin.debug:
    msg: "{{ ['Qwen/Qwen2.5-7B-Instruct'] | baremetal.llm.model_origins({'models_dir': '/opt/llm/models'}) }}"
"""

RETURN = r"""
_value:
  description: >-
    By model C(how) (V(bundle), V(hub), V(program), V(there)), its C(folder) on the host, the C(source) of a program, and whether it has to have
    C(weights) and a C(tokenizer).
  type: list
  elements: dict
"""

from collections.abc import Callable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import models as core


def model_origins(
    models: Sequence[str], variables: Mapping[str, object], records: Sequence[Mapping[str, object]] = ()
) -> list[dict[str, object]]:
    """The filter; see the documentation above."""
    return core.origins(models, variables, records)


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"model_origins": model_origins}
