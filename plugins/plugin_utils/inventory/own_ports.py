# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports that the variables of one host name twice: of its deployment, of the services that run there, and of sshd."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.machines import ports_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import has_type
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import clashes

# Of the hosts of a group. 0 is none.
OF_SERVICES = {
    "llm_gateway": ("gateway_https_port", "gateway_http_port"),
    "llm_web_ui": ("web_ui_port", "web_ui_listen_port"),
    "llm_monitoring": ("monitoring_grafana_port",),
}
SSHD = "ansible_port"


def own_port_problems(inventory: Inventory) -> Problems:
    """Each pair of variables once, however many hosts have it."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for host in inventory.checked_hosts:
        members = [name for hosts in inventory.deployments.values() if host in hosts for name in hosts]
        ports = ports_on(inventory, host) if members else []
        services = [name for group, names in OF_SERVICES.items() if host in inventory.members(group) for name in names]
        taken = {name: _number(inventory, host, name) for name in (*services, SSHD)}
        for pair in clashes(ports, [(name, number) for name, number in taken.items() if number]):
            values = [f"{name}: {taken.get(name) or inventory.text(inventory.get(host, name))}" for name in pair]
            found.setdefault((*pair, "; ".join(values)), []).append(host)
    for (one, other, said), hosts in found.items():
        where = inventory.names(list(dict.fromkeys(inventory.where(name, hosts[0]) for name in (one, other))))
        yield inventory.problem("own_ports_clash", value=said, where=where, hosts=inventory.names(hosts))


def _number(inventory: Inventory, host: str, name: str) -> int:
    value = inventory.hosts[host].get(name, 22) if name == SSHD else inventory.get(host, name)
    return whole(value) if has_type("int", value) else 0
