# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, render
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.interfaces import (
    agree_interfaces,
    interfaces_from_facts,
)

DOCUMENTATION = r"""
name: cluster_interfaces
short_description: The network interface that each host of a cluster uses
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - Finds the subnet on which all hosts have an address, and each host's interface and address in it. Of several it is one with
    RDMA on every host before one without, then the fastest; Wi-Fi comes last. Names may differ from host to host, and no default
    route is needed.
  - Loopback, container and virtual machine bridges and link-local addresses are passed over, unless the network or the
    interface was asked for by name.
  - A host alone gets its fastest interface.
positional: _input, network, wanted
options:
  _input:
    description:
      - Per host its C(ansible_facts), with what M(baremetal.llm.nic_facts) or C(gather_subset=network) found, or a list of its
        interfaces as M(baremetal.llm.nic_facts) describes them, of which only C(name) and C(addresses) must be there.
    type: dict
    required: true
  network:
    description: The network to use, in CIDR form. Without it the shared subnet is found.
    type: str
    default: ""
  wanted:
    description: Per host the interface that it shall use. Hosts that are not in it choose freely.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Network | Agree on interfaces
  ansible.builtin.set_fact:
    _ray_interfaces: >-
      {{ dict(_hosts | zip(_hosts | map('extract', hostvars, 'ansible_facts')))
         | baremetal.llm.cluster_interfaces(network=llm_cluster_network) }}
  vars:
    _hosts: "{{ llm_inventory.deployments['qwen25_14b'].hosts }}"

- name: Network | Refuse hosts that cannot reach each other
  ansible.builtin.assert:
    that: _ray_interfaces.problems | length == 0
    fail_msg: "{{ _ray_interfaces.message }}"
"""

RETURN = r"""
_value:
  description:
    - A mapping with C(network), the subnet in CIDR form, C(interfaces), per host its C(interface) and C(address), C(problems), a
      list of mappings with C(code), C(what), C(value), C(where) and C(allowed), C(message), all problems as one text, and
      C(candidates), all networks that would do, best first, each with C(network) and C(interfaces).
    - C(interfaces) lacks the hosts for which there is none.
  type: dict
  sample:
    network: 10.10.0.0/24
    interfaces: {"gpu01": {"interface": "ens3f0", "address": "10.10.0.1"}}
    problems: []
    message: ""
"""


def cluster_interfaces(
    hosts: Any, network: Any = "", wanted: Mapping[str, Any] | None = None, language: str = "en"
) -> dict[str, Any]:
    """The filter; see the documentation above."""
    if not isinstance(hosts, Mapping):
        raise AnsibleFilterError(f"cluster_interfaces wants a mapping of host to facts, not {type(hosts).__name__}")
    lang = known_language(language)
    lists: dict[str, Any] = {}
    for host, given in hosts.items():
        if isinstance(given, Mapping):
            facts = plain(given)
            described = facts.get("interfaces") or []
            # Facts list names; a description lists mappings.
            named = "llm_nics_found" in facts or all(not isinstance(item, Mapping) for item in described)
            lists[str(host)] = interfaces_from_facts(facts) if named else described
        elif isinstance(given, (list, tuple)):
            lists[str(host)] = plain(given)
        else:
            raise AnsibleFilterError(f"cluster_interfaces wants the facts of {host}, not {type(given).__name__}")
    agreed = agree_interfaces(lists, network=network, wanted=plain(wanted or {}), lang=lang)
    problems = agreed["problems"]
    agreed["message"] = render(problems, lang, header=message("network_header", lang)) if problems else ""
    return agreed


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cluster_interfaces": cluster_interfaces}
