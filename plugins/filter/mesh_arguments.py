# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.network import connectivity as reach

DOCUMENTATION = r"""
name: mesh_arguments
short_description: What a host has to be told to prove the network
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - The arguments of M(baremetal.llm.network_mesh) for one host, from the networks on which hosts could agree and from what the
    listeners of all hosts returned.
positional: _input, host
options:
  _input:
    description: The C(candidates) of P(baremetal.llm.cluster_interfaces#filter).
    type: list
    elements: dict
    required: true
  host:
    description: The host.
    type: str
    required: true
  listening:
    description: Per host what M(baremetal.llm.network_mesh) returned with C(state=listening). Not needed to start listening.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Network | Show this host's addresses
  ansible.builtin.debug:
    msg: "{{ (agreed.candidates | baremetal.llm.mesh_arguments(inventory_hostname)).addresses }}"
"""

RETURN = r"""
_value:
  description: A mapping with C(addresses), C(mtus) and C(peers).
  type: dict
"""


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def mesh_arguments(candidates: Any, host: str, listening: Any = None) -> dict[str, Any]:
    """The filter; see the documentation above."""
    if not isinstance(candidates, (list, tuple)) or not isinstance(listening or {}, Mapping):
        raise AnsibleFilterError("mesh_arguments wants a list of candidates and a mapping of host to results")
    return reach.mesh_arguments(_plain(candidates), str(host), _plain(listening or {}))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"mesh_arguments": mesh_arguments}
