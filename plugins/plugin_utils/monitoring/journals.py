# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journals of all hosts on the first host that watches: who sends, and to which address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import address_of, endpoint
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import is_address

CENTRAL = "monitoring_journal_central_enabled"
# Variables of the host that collects: what each of them has to be, and its default.
NEEDED = (
    (CENTRAL, "true", "false"),
    ("monitoring_mode", "full", "full"),
    ("monitoring_exporter_enabled", "true", "true"),
)


def senders(hosts: Sequence[str], variables: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The hosts whose journal is collected."""
    return [host for host in hosts if is_true(variables[host].get(CENTRAL, ""))]


def central(
    sending: Sequence[str],
    variables: Mapping[str, Mapping[str, object]],
    collectors: Sequence[str],
    certificate: Callable[[str, Sequence[str]], Mapping[str, object]],
) -> dict[str, Any]:
    """``server``, ``listen`` and ``url``, and ``hosts``: by host that sends the files of its certificate on the controller (``certificate``, ``key``,
    ``root``) and their ``sha256``. ``certificate`` makes one for a host and its names."""
    server = collectors[0]
    address, port = address_of(server, variables[server]), whole(variables[server]["monitoring_journal_central_port"])
    kept = ("certificate", "key", "root", "sha256")
    made = {host: certificate(host, [host, *([address] if host == server else [])]) for host in sending}
    return {
        "server": server,
        # A name is no address to listen on.
        "listen": endpoint(address, port) if is_address(address) else str(port),
        "url": f"https://{endpoint(address, port)}",
        "hosts": {host: {name: found[name] for name in kept} for host, found in made.items()},
    }
