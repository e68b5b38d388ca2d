# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the first replica of an upgrade serves as well as before: its benchmark beside earlier ones, and the alerts since its first token."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, number, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.benchmark import failed_requests, load_of

OUTPUT = "output_throughput"


def slower(
    figures: Mapping[str, object], earlier: Sequence[Mapping[str, object]], allowed_percent: float, language: str = "en"
) -> tuple[list[str], bool]:
    """What is worse than in the newest ``earlier`` run of the same load, and whether there is one. Each run is as the engine's benchmark writes it."""
    failed = failed_requests(figures)
    found = []
    if failed:
        requests = whole(figures["num_prompts"])
        found.append(message("canary_failed_requests", language, count=failed, requests=requests))
    former = next((run for run in earlier if load_of(run) == load_of(figures) and run[OUTPUT]), None)
    if former is None:
        return found, False
    now, before = number(figures[OUTPUT]), number(former[OUTPUT])
    percent = 100 * (1 - now / before)
    if percent > allowed_percent:
        values = {"found": f"{now:.1f}", "wanted": f"{before:.1f}", "percent": f"{percent:.0f}"}
        measured = former.get("measured") or "-"
        found.append(message("canary_slower", language, **values, measured=measured, allowed=f"{allowed_percent:g}"))
    return found, True


def new_alerts(
    now: Sequence[Mapping[str, object]],
    before: Sequence[Mapping[str, object]],
    deployment: str,
    hosts: Collection[str],
    since: float | None = None,
) -> list[Mapping[str, object]]:
    """The alerts that fire ``now`` about a deployment or one of its hosts and did not ``before``, both as /api/v1/alerts of Prometheus has them. With
    ``since`` (seconds since 1970) only those that became active later: a start raises some that end by themselves."""
    known = [alert.get("labels") for alert in before if alert.get("state") == "firing"]
    return [
        alert
        for alert in now
        if alert.get("state") == "firing"
        and alert.get("labels") not in known
        and _is_about(mapping(alert.get("labels")), deployment, hosts)
        and (since is None or _active_at(alert) > since)
    ]


def alert_lines(alerts: Sequence[Mapping[str, object]], language: str = "en") -> list[str]:
    return [
        message(
            "canary_alert",
            language,
            name=mapping(alert.get("labels")).get("alertname", "-"),
            since=str(alert.get("activeAt") or "-")[:19],
            said=mapping(alert.get("annotations")).get("summary") or "-",
        )
        for alert in alerts
    ]


def _is_about(labels: Mapping[str, object], deployment: str, hosts: Collection[str]) -> bool:
    named = labels.get("deployment")
    return named == deployment if named else labels.get("host") in hosts


def _active_at(alert: Mapping[str, object]) -> float:
    """In seconds since 1970. Prometheus writes RFC 3339 with nanoseconds, in UTC."""
    try:
        return datetime.datetime.fromisoformat(str(alert["activeAt"])[:19] + "+00:00").timestamp()
    except (KeyError, ValueError):
        return 0.0
