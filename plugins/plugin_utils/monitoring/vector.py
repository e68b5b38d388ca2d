# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of Vector on a host: its journal and the logs of its containers, for a Loki or an Elasticsearch that is there already.

Options by website/cue/reference/components of vectordotdev/vector. Vector itself is the site's to install.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

LOKI, NOWHERE = "loki", "none"
# Vector reads it from its environment: the password is in no file of ours.
PASSWORD = "${LLM_LOGS_PASSWORD}"
# Names of all containers of the collection begin so, and Vector compares beginnings.
CONTAINERS = "llm-"


def vector(host: str, deployment: str, said: Mapping[str, object]) -> dict[str, object]:
    """``said``: monitoring_logs_kind, _url, _username and _ca_file."""
    return {
        "sources": {
            "journal": {"type": "journald", "current_boot_only": False},
            "containers": {"type": "docker_logs", "include_containers": [CONTAINERS]},
        },
        "transforms": {
            "named": {"type": "remap", "inputs": ["journal", "containers"], "source": _names(host, deployment)}
        },
        "sinks": {"site": _sink(said)},
    }


def _names(host: str, deployment: str) -> str:
    """Whatever wrote a line, the same fields tell where it is from."""
    return (
        f".llm_host = {json.dumps(host)}\n"
        f".llm_deployment = {json.dumps(deployment)}\n"
        '.llm_source = string(.container_name) ?? string(._SYSTEMD_UNIT) ?? string(.SYSLOG_IDENTIFIER) ?? "kernel"\n'
    )


def _sink(said: Mapping[str, object]) -> dict[str, object]:
    kind, url = str(said["monitoring_logs_kind"]), str(said["monitoring_logs_url"])
    found: dict[str, object] = {"type": kind, "inputs": ["named"]}
    if kind == LOKI:
        found |= {
            "endpoint": url,
            "encoding": {"codec": "text"},
            "labels": {name: f"{{{{ llm_{name} }}}}" for name in ("host", "deployment", "source")},
            "out_of_order_action": "accept",
        }
    else:
        found |= {"endpoints": [url], "mode": "bulk", "bulk": {"index": "llm-%Y.%m.%d"}}
    if said.get("monitoring_logs_username"):
        found["auth"] = {"strategy": "basic", "user": str(said["monitoring_logs_username"]), "password": PASSWORD}
    if said.get("monitoring_logs_ca_file"):
        found["tls"] = {"ca_file": str(said["monitoring_logs_ca_file"])}
    return found
