# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that the role monitoring writes on a host that watches, as files with their content."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring import configuration
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.consoles import consoles
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.dashboards import dashboards
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.grafana import provisioning
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import rules_file
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import (
    Targets,
    address_of,
    endpoint,
    exporter_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.vector import NOWHERE, vector


def files(asked: Targets, settings: Mapping[str, object], lang: str = "en") -> list[dict[str, str]]:
    """Each file with ``path``, ``content`` and ``check``, the kind of file; a file comes before the one that names it.

    ``asked`` are the targets; ``settings`` are the variables of the role on the host that watches. In the mode rules_only there is no configuration of programs
    but ``scrape_configs.yml``, for a Prometheus that is there already.
    """
    folder, interval = str(settings["monitoring_dir"]), whole(settings["monitoring_interval_seconds"])
    limits = {
        "first_token_seconds": settings["monitoring_first_token_seconds"],
        "backup_days": settings["monitoring_backup_days"],
        "runbook_url": settings["monitoring_runbook_url"],
    }
    found = [
        *(_file(f"targets/{job}.json", _json(entries), "targets") for job, entries in asked.items()),
        _file("rules/llm.yml", _yaml(rules_file(limits, lang)), "rules"),
        *(_file(f"consoles/{name}", text, "consoles") for name, text in consoles(lang).items()),
        *(_file(f"dashboards/{name}", _json(content), "dashboards") for name, content in dashboards(lang).items()),
    ]
    own = endpoint(str(settings["monitoring_listen_address"]), 9090)
    found += [_file(path, _yaml(content), "grafana") for path, content in provisioning(folder, own, interval).items()]
    if settings["monitoring_mode"] == "rules_only":
        return [
            *found,
            _file("scrape_configs.yml", _yaml({"scrape_configs": configuration.scrape_configs(folder, interval)}), ""),
        ]
    alertmanager = endpoint(str(settings["monitoring_listen_address"]), 9093)
    words = {state: message("alert_is_" + state, lang) for state in ("firing", "resolved")}
    receivers = mappings(settings["monitoring_receivers"])
    routes = configuration.alertmanager(receivers, folder)
    return [
        *found,
        _file("blackbox.yml", _yaml(configuration.blackbox()), "blackbox"),
        _file("relay.json", _json(configuration.relay(receivers, words)), "relay"),
        _file("alertmanager.yml", _yaml(routes), "alertmanager"),
        _file("prometheus.yml", _yaml(configuration.prometheus(folder, interval, alertmanager, own)), "prometheus"),
    ]


def exporters_and_collectors(
    deployments: Mapping[str, DeploymentHosts],
    variables: Mapping[str, Mapping[str, object]],
    collectors: Sequence[str],
    resolve: Callable[[str], Sequence[str]],
) -> dict[str, Any]:
    """``exporters``: where each host's node_exporter listens. ``collectors``: the addresses from which it is asked."""
    hosts = dict.fromkeys([*(host for entry in deployments.values() for host in entry["hosts"]), *collectors])
    listening = {host: exporter_of(host, variables[host]) for host in hosts}
    named = [address_of(host, variables[host]) for host in collectors]
    known = [address for name in named for address in (resolve(name) or [name])]
    return {"exporters": listening, "collectors": list(dict.fromkeys(map(str, known)))}


def shipping(host: str, deployment: str, settings: Mapping[str, object]) -> str:
    """The file for Vector of one host; empty where logs go nowhere else."""
    if str(settings.get("monitoring_logs_kind") or NOWHERE) == NOWHERE:
        return ""
    return _yaml(vector(host, deployment, settings))


def _file(path: str, content: str, check: str) -> dict[str, str]:
    return {"path": path, "content": content, "check": check}


def _json(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _yaml(content: object) -> str:
    # Ansible's texts know where they come from, and YAML's writer takes nothing but plain ones.
    return str(yaml.safe_dump(json.loads(_json(content)), allow_unicode=True, sort_keys=False, width=200))
