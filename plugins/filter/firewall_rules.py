# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.network import firewall

DOCUMENTATION = r"""
name: firewall_rules
short_description: What the firewall of a host has to let in for its deployment
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - From the addresses of the deployment's hosts and the variables that name ports, which ports are open to whom. The same for
    nftables, ufw and firewalld.
positional: _input, host, others, hostvars
options:
  _input:
    description: The hosts of the deployment.
    type: list
    elements: str
    required: true
  host:
    description: The host whose rules are wanted.
    type: str
    required: true
  others:
    description: Hosts outside of the deployment that connect too, by what they are, V(clients) or V(collectors).
    type: dict
    required: true
  hostvars:
    description: The variables of all hosts.
    type: dict
    required: true
  executor:
    description: The executor of the plan. Only its ports are opened.
    type: str
    default: ""
  candidates:
    description: The C(candidates) of P(baremetal.llm.cluster_interfaces#filter).
    type: list
    elements: dict
    default: []
  decided:
    description: What was decided on this host, its C(network), once that is known, and C(open_ports) of other people's programs.
    type: dict
    default: {}
  firewalld:
    description: What C(firewall-cmd --get-default-zone) and C(firewall-cmd --list-all-zones) print, where firewalld runs.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - baremetal.llm.language
"""

EXAMPLES = r"""
- name: Firewall | Show what is open to whom
  ansible.builtin.debug:
    msg: "{{ ['gpu01', 'gpu02'] | baremetal.llm.firewall_rules('gpu01', {'clients': groups['llm_gateway']}, hostvars, executor='ray') }}"
"""

RETURN = r"""
_value:
  description:
    - C(members), C(clients) and C(collectors), each with C(v4) and C(v6) (addresses and networks) and C(ports), C(dynamic) (C(interface)
      and C(ports) of gloo and NCCL, and ports that stay C(open) there, V(null) for a host alone and before a network was proved), C(ssh)
      (ports), C(zones) (of firewalld), C(notes) (for people), C(unknown) (hosts without a known address) and C(clashes) (pairs of
      variables with one port).
    - Clients and collectors that this run does not look at come from what their C(ansible_host) stands for on the controller.
  type: dict
"""


def _resolve(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


def firewall_rules(
    members: Any,
    host: str,
    others: Any,
    hostvars: Any,
    executor: str = "",
    candidates: Any = (),
    decided: Any = None,
    firewalld: Any = (),
    language: str = "en",
) -> dict[str, Any]:
    """The filter; see the documentation above."""
    if not isinstance(members, (list, tuple)) or not isinstance(others, Mapping) or not isinstance(hostvars, Mapping):
        raise AnsibleFilterError(
            "firewall_rules wants a list of hosts, a mapping of other hosts, and the variables of all"
        )
    return firewall.firewall_rules(
        str(host),
        [str(name) for name in members],
        {str(kind): [str(name) for name in hosts] for kind, hosts in others.items()},
        hostvars,
        executor=str(executor or ""),
        candidates=list(candidates),
        decided=decided or {},
        zones=firewall.firewalld_zones(str(firewalld[0]), str(firewalld[1])) if firewalld else {},
        resolve=_resolve,
        lang=known_language(language),
    )


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"firewall_rules": firewall_rules}
