# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter recommended_release: a thin wrapper around the planner."""

from __future__ import annotations

DOCUMENTATION = r"""
name: recommended_release
author: The baremetal.llm authors (@baremetal-llm)
short_description: Name the vLLM release that serves a GPU best
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.language
description:
  - Names the release for a GPU, with the reason, and the limits of driver, kernel modules and CUDA of its generation.
options:
  _input:
    description: A GPU, given by its name, by its compute capability, or as a dictionary with C(name) or C(compute_capability).
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show the release for a V100
  ansible.builtin.debug:
    msg: "{{ ('Tesla V100-PCIE-16GB' | baremetal.llm.recommended_release).vllm_version }}"
    # 0.8.5.post1
"""

RETURN = r"""
_value:
  description:
    - C(vllm_version), C(reason), C(generation), C(compute_capability), C(dtype), C(cuda), C(cuda_last), C(driver_minimum),
      C(driver_branch_recommended), C(driver_branch_last), C(kernel_modules), C(first_official_image),
      C(last_official_image), C(alternatives).
  type: dict
"""

from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import refusing
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import release as core

recommended_release = refusing(core.recommended_release)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"recommended_release": recommended_release}
