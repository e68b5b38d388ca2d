# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.network import environment

DOCUMENTATION = r"""
name: cluster_environment
short_description: The environment variables that make a host use the cluster's network
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - From the interface that the hosts agreed on, their RDMA devices and what their GPUs can do, the variables of Ray, NCCL, gloo, UCX
    and vLLM for one of the hosts. RDMA is used if every host has it, InfiniBand before RoCE.
positional: _input, hostvars, host
options:
  _input:
    description: The hosts of the deployment.
    type: list
    elements: str
    required: true
  hostvars:
    description:
      - The variables of all hosts. Read are C(llm_interface), the C(llm_nccl_*) settings, and of C(ansible_facts) C(llm_rdma_found) and
        C(llm_gpu_p2p).
    type: dict
    required: true
  host:
    description: The host whose variables are wanted. Left out, it is those of all, by host.
    type: str
"""

EXAMPLES = r"""
- name: Network | Show the environment of this host's containers
  ansible.builtin.debug:
    msg: "{{ _llm_deployment.hosts | baremetal.llm.cluster_environment(hostvars, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: The variables, or those of each host; empty if the host has no interface yet.
  type: dict
  sample: {"VLLM_HOST_IP": "10.10.0.1", "NCCL_SOCKET_IFNAME": "=ens3f0", "NCCL_IB_DISABLE": "1"}
"""


def cluster_environment(members: Any, hostvars: Any, host: str | None = None) -> dict[str, Any]:
    """The filter; see the documentation above."""
    if not isinstance(members, (list, tuple)) or not isinstance(hostvars, Mapping):
        raise AnsibleFilterError("cluster_environment wants a list of hosts and their variables")
    hosts = environment.hosts_of([str(member) for member in members], hostvars)
    if host is None:
        return {name: environment.cluster_environment(name, hosts) for name in hosts}
    return environment.cluster_environment(str(host), hosts) if host in hosts else {}


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cluster_environment": cluster_environment}
