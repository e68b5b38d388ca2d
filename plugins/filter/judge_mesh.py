# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.network import connectivity as reach

DOCUMENTATION = r"""
name: judge_mesh
short_description: Which network carries a deployment, and what is wrong with the others
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - Takes the networks on which hosts could agree, best first, and what M(baremetal.llm.network_mesh) found on each host, and chooses
    the first network that works. Names dead directions of a path, blocked and taken ports, MTUs that differ, and hosts that share
    an address.
positional: _input, results
options:
  _input:
    description: The C(candidates) of P(baremetal.llm.cluster_interfaces#filter).
    type: list
    elements: dict
    required: true
  results:
    description: Per host C(taken), C(reached) and C(heard), as M(baremetal.llm.network_mesh) returned them.
    type: dict
    required: true
  previous:
    description: The network in use. It is kept as long as it works.
    type: str
    default: ""
  rdma:
    description:
      - Per host its C(llm_rdma_found). Where every host uses RDMA, C(speed_mbps) of the interfaces is that of its ports. Where only some
        have it, a note names the others.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Network | Judge
  ansible.builtin.set_fact:
    llm_network: "{{ agreed.candidates | baremetal.llm.judge_mesh(results) }}"
"""

RETURN = r"""
_value:
  description:
    - A mapping with C(network) and C(interfaces) of the network to use, C(networks), each with C(works), C(paths), C(problems) and
      C(warnings), C(notes), texts for people, C(problems) if none works, and C(message), all problems as one text.
  type: dict
"""


def judge_mesh(
    candidates: Any, results: Any, previous: str = "", language: str = "en", rdma: Any = None
) -> dict[str, Any]:
    """The filter; see the documentation above."""
    if not isinstance(results, Mapping) or not isinstance(candidates, (list, tuple)):
        raise AnsibleFilterError("judge_mesh wants a list of candidates and a mapping of host to results")
    return reach.judge_mesh(
        plain(candidates), plain(results), str(previous or ""), known_language(language), plain(rdma or {})
    )


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"judge_mesh": judge_mesh}
