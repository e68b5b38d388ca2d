#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nic_facts
short_description: The network interfaces, RDMA devices and listeners of a host
version_added: 0.1.0
description:
  - Tells which network interfaces a host has, with their addresses, speed and MTU, which of them lead to other hosts, and
    which RDMA devices (InfiniBand or RoCE) there are.
  - Tells what a firewall has to leave open, the ports of SSH and those of other people's programs.
  - Read from C(/sys), C(/proc) and the kernel; neither C(ip) nor C(ethtool) has to be installed.
  - Changes nothing.
options:
  sysfs_root:
    description: Where the host's sysfs is mounted.
    type: path
    default: /sys
  proc_root:
    description: Where the host's procfs is mounted.
    type: path
    default: /proc
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.facts
author:
  - The baremetal.llm authors (@baremetal-llm)
seealso:
  - plugin: baremetal.llm.cluster_interfaces
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Network | Read the interfaces
  baremetal.llm.nic_facts:

- name: Network | Show those that are up
  ansible.builtin.debug:
    msg: "{{ ansible_facts['llm_nics_found'] | selectattr('up') | map(attribute='name') | list }}"
"""

RETURN = r"""
nic_facts:
  description: What was found.
  returned: always
  type: dict
  contains:
    interfaces:
      description:
        - The interfaces by name, each with C(name), C(addresses) (IPv4 first, with prefix length), C(speed_mbps), C(mtu),
          C(operstate), C(up), C(kind) (V(ethernet), V(infiniband), V(wlan), V(bond), V(bridge), V(vlan), V(tun), V(tunnel),
          V(loopback) or V(other)), C(driver), C(pci_id), C(wireless), C(virtual) (no device behind it), C(master) (the bond or
          bridge that it belongs to), C(members) (what belongs to it) and C(rdma) (active RDMA ports that it leads to).
          What is not known is V(null).
      type: list
      elements: dict
    rdma:
      description:
        - The ports of the RDMA devices, each with C(device), C(port), C(state), C(active), C(link_layer) (V(InfiniBand) or
          V(Ethernet)), C(rate_gbps), C(interface) and C(gids), each of these with C(index), C(gid), C(type) and C(interface).
      type: list
      elements: dict
    dynamic_ports:
      description: The C(first) and C(last) of the ports that the kernel gives to programs that ask for any.
      type: dict
      sample: {"first": 32768, "last": 60999}
    ssh_ports:
      description: The ports through which logins come in, those of sshd, or of systemd in its place, and that of the current login.
      type: list
      elements: int
      sample: [22]
    foreign_ports:
      description:
        - Which of the dynamic ports programs hold that listen to other hosts, run in no container of this collection, and are no
          listeners of an interrupted proof of the network.
      type: list
      elements: int
      sample: [49152]
ansible_facts:
  description: Facts for later plays.
  returned: always
  type: dict
  contains:
    llm_nics_found:
      description: The list RV(nic_facts.interfaces).
      type: list
      elements: dict
    llm_rdma_found:
      description: The list RV(nic_facts.rdma).
      type: list
      elements: dict
    llm_dynamic_ports:
      description: The dictionary RV(nic_facts.dynamic_ports).
      type: dict
    llm_ssh_ports:
      description: The list RV(nic_facts.ssh_ports).
      type: list
      elements: int
    llm_foreign_ports:
      description: The list RV(nic_facts.foreign_ports).
      type: list
      elements: int
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._listeners import foreign_ports, ssh_ports
from ansible_collections.baremetal.llm.plugins.module_utils._nics import nic_facts


def main() -> None:
    """Read, and return what was read."""
    module = AnsibleModule(
        argument_spec={
            "sysfs_root": {"type": "path", "default": "/sys"},
            "proc_root": {"type": "path", "default": "/proc"},
        },
        supports_check_mode=True,
    )
    proc = module.params["proc_root"]
    facts = nic_facts(module.params["sysfs_root"], proc)
    dynamic = facts["dynamic_ports"]
    facts.update(ssh_ports=ssh_ports(proc), foreign_ports=foreign_ports(dynamic["first"], dynamic["last"], proc))
    module.exit_json(
        changed=False,
        nic_facts=facts,
        ansible_facts={
            "llm_nics_found": facts["interfaces"],
            "llm_rdma_found": facts["rdma"],
            "llm_dynamic_ports": dynamic,
            "llm_ssh_ports": facts["ssh_ports"],
            "llm_foreign_ports": facts["foreign_ports"],
        },
    )


if __name__ == "__main__":
    main()
