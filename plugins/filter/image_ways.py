# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: image_ways
short_description: Say how a host without a bundle gets its images, and which it passes on
version_added: 0.1.0
description:
  - Of the hosts that lack an image one pulls it and passes it on, or one that has it passes it on. A host that cannot pass images on pulls its own, and
    so does one that is alone.
positional: host
options:
  _input:
    description:
      - By host what its engine has. C(missing) and C(present) are lists of references, C(exchanges) says whether it can pass images on.
    type: dict
    required: true
  host:
    description: The host.
    type: str
    required: true
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Images | Show where images come from
  ansible.builtin.debug:
    msg: "{{ {'gpu01': {'missing': ['site/vllm:1'], 'present': [], 'exchanges': true}} | baremetal.llm.image_ways('gpu01') }}"
"""

RETURN = r"""
_value:
  description: The references that the host is to C(pull) from a registry, to C(give) to other hosts, and to C(take) from another host.
  type: dict
"""

from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.fanout import image_ways


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"image_ways": image_ways}
