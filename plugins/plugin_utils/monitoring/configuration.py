# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of Prometheus, Alertmanager and blackbox_exporter, as plain data that is written as YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import jobs
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.timing import (
    GROUP_INTERVAL_SECONDS,
    GROUP_WAIT_SECONDS,
    QUICK_SECONDS,
    TIMEOUT_SECONDS,
)

LOOPBACK = "127.0.0.1"
# Of the program that passes alerts on (roles/monitoring/files/llm-alert-relay.py).
RELAY_PORT = 9096
# blackbox_exporter's modules for a server that answers; with TLS it may show a certificate of a local authority.
ANSWERS, ANSWERS_TLS = "http_answers", "https_answers"
MODULES = {"api": ANSWERS, "gateway": ANSWERS_TLS}


def scrape_configs(folder: str, interval_seconds: int) -> list[dict[str, object]]:
    """How each job is asked, and how often. ``folder`` holds targets/JOB.json on the host."""
    found: list[dict[str, object]] = []
    busy = (*engine_names(), "ray")
    for job in jobs():
        seconds = min(interval_seconds, QUICK_SECONDS) if job in MODULES else interval_seconds
        entry: dict[str, object] = {
            "job_name": job,
            "scrape_interval": f"{seconds}s",
            # The pages of engines and of Ray are long, and come late where there is much to do.
            "scrape_timeout": f"{seconds if job in busy else min(seconds, TIMEOUT_SECONDS)}s",
            "file_sd_configs": [{"files": [f"{folder}/targets/{job}.json"]}],
        }
        if job == "node":
            # A machine with several deployments says itself to which of them a figure belongs.
            entry["honor_labels"] = True
        if job in MODULES:
            entry |= {
                "metrics_path": "/probe",
                "params": {"module": [MODULES[job]]},
                "relabel_configs": [
                    {"source_labels": ["__address__"], "target_label": "__param_target"},
                    {"source_labels": ["__param_target"], "target_label": "instance"},
                    {"target_label": "__address__", "replacement": f"{LOOPBACK}:9115"},
                ],
            }
        found.append(entry)
    return found


def prometheus(folder: str, interval_seconds: int, alertmanager: str, own: str) -> dict[str, object]:
    """prometheus.yml. ``alertmanager`` and ``own`` are HOST:PORT, ``interval_seconds`` is how often everything is asked."""
    watching = [
        {"job_name": "prometheus", "static_configs": [{"targets": [own]}]},
        {"job_name": "alertmanager", "static_configs": [{"targets": [alertmanager]}]},
    ]
    return {
        "global": {"scrape_interval": f"{interval_seconds}s", "evaluation_interval": f"{interval_seconds}s"},
        "rule_files": [f"{folder}/rules/*.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [*scrape_configs(folder, interval_seconds), *watching],
    }


def blackbox() -> dict[str, object]:
    """blackbox.yml: a server that answers well in time over IPv4 or IPv6. One that somebody drains says 404 (playbooks/drain.yml)."""
    ways: dict[str, dict[str, object]] = {
        ANSWERS: {"valid_status_codes": [200, 404]},
        ANSWERS_TLS: {"valid_status_codes": [200], "tls_config": {"insecure_skip_verify": True}},
    }
    return {
        "modules": {
            name: {"prober": "http", "timeout": f"{TIMEOUT_SECONDS}s", "http": way} for name, way in ways.items()
        }
    }


def alertmanager(receivers: Sequence[Mapping[str, object]], folder: str) -> dict[str, object]:
    """alertmanager.yml: every receiver gets every alert, those of a deployment together.

    A receiver is ``{name, kind, url}`` with the kind webhook, wecom, dingtalk or feishu, or ``{name, kind: email, to, from, smarthost,
    username, password}``. Addresses and passwords are secrets: they are in the file FOLDER/secrets/NAME on the host, the first of them for
    the relay.
    """
    known = [{"name": "nobody"}, *({"name": entry["name"], **_receiver(entry, folder)} for entry in receivers)]
    routes = [{"receiver": entry["name"], "continue": True} for entry in receivers]
    return {
        "route": {
            "receiver": "nobody",
            "group_by": ["alertname", "deployment"],
            "group_wait": f"{GROUP_WAIT_SECONDS}s",
            "group_interval": f"{GROUP_INTERVAL_SECONDS}s",
            "repeat_interval": "4h",
            "routes": routes,
        },
        # A host that is down explains what is missing of it.
        "inhibit_rules": [
            # As releases before 0.22 say it, too.
            {
                "source_match": {"alertname": "HostDown"},
                "target_match": {"alertname": "TargetMissing"},
                "equal": ["host"],
            }
        ],
        "receivers": known,
    }


def _receiver(entry: Mapping[str, object], folder: str) -> dict[str, object]:
    if entry["kind"] != "email":
        return {"webhook_configs": [{"url": f"http://{LOOPBACK}:{RELAY_PORT}/{entry['name']}", "send_resolved": True}]}
    mail = {name: entry[name] for name in ("to", "from", "smarthost") if entry.get(name)}
    if entry.get("username"):
        mail |= {"auth_username": entry["username"], "auth_password_file": f"{folder}/secrets/{entry['name']}"}
    return {"email_configs": [{**mail, "send_resolved": True}]}


def relay(receivers: Sequence[Mapping[str, object]], words: Mapping[str, str]) -> dict[str, object]:
    """relay.json: the kind of each receiver that roles/monitoring/files/llm-alert-relay.py tells, and what it calls the states of an alert."""
    return {
        "receivers": {entry["name"]: entry["kind"] for entry in receivers if entry["kind"] != "email"},
        "words": dict(words),
    }
