# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: deployment_image
short_description: Which container image a deployment runs
version_added: 0.1.0
description:
  - The image that is named, else the official one of the release. Where the bundle holds one that was made from it, with Ray added,
    that one.
positional: _input, vllm_version, records
options:
  _input:
    description: The image that the inventory names; empty for the official one.
    type: str
    required: true
  vllm_version:
    description: Release of the engine.
    type: str
    required: true
  records:
    description: The C(files) of the bundle's manifest.
    type: list
    elements: dict
    default: []
  engine:
    description: The engine (O(ignore:llm_engine)) of which the image is.
    type: str
    default: vllm
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Image | Show what will run
  ansible.builtin.debug:
    msg: "{{ vllm_image | default('') | baremetal.llm.deployment_image(vllm_version, manifest.files) }}"
"""

RETURN = r"""
_value:
  description: The image's reference.
  type: str
"""

from collections.abc import Callable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import image_to_run
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, VARIABLE


def deployment_image(
    image: object, vllm_version: object, records: Sequence[Mapping[str, object]] = (), engine: str = DEFAULT
) -> str:
    """The filter; see the documentation above."""
    return image_to_run({VARIABLE: engine, f"{engine}_image": image, f"{engine}_version": vllm_version}, records)


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"deployment_image": deployment_image}
