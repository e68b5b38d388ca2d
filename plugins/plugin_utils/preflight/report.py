# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings as a report for machines, and as texts for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, render
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR, WARNING, Finding

REPORT_SCHEMA = 1


def text(findings: Sequence[Finding], header: str, lang: str) -> str:
    """Nothing where nothing was found."""
    header += "_one" if len(findings) == 1 else ""
    return render(findings, lang, message(header, lang, count=len(findings))) if findings else ""


def report(findings: Sequence[Finding], deployment_of: Mapping[str, str]) -> dict[str, Any]:
    """The findings host by host, for the hosts that were looked at."""
    hosts: dict[str, Any] = {}
    for host, deployment in deployment_of.items():
        checks = [_check(finding) for finding in findings if host in finding["hosts"]]
        ok = all(check["severity"] != ERROR for check in checks)
        hosts[host] = {"deployment": deployment, "ok": ok, "checks": checks}
    count = {kind: sum(item["severity"] == kind for item in findings) for kind in (ERROR, WARNING)}
    return {
        "schema": REPORT_SCHEMA,
        "ok": not count[ERROR],
        "errors": count[ERROR],
        "warnings": count[WARNING],
        "hosts": hosts,
    }


def _check(finding: Finding) -> dict[str, object]:
    same = {key: finding[key] for key in ("code", "severity", "what", "value", "limit", "where")}
    return {**same, "remedy": finding["allowed"]}


def verdict(report: Mapping[str, object], lang: str = "en") -> str:
    """Whether the hosts are fine, what was looked at, and what can come next."""
    code = "preflight_passed" if report["ok"] else "preflight_failed"
    return message(
        code, lang, hosts=len(mapping(report["hosts"])), errors=report["errors"], warnings=report["warnings"]
    )


def report_lines(report: Mapping[str, object], lang: str = "en") -> list[str]:
    """One line per host: whether it is fine, else what is wrong by its code."""
    lines = []
    hosts = mapping(report["hosts"])
    width = max([len(host) for host in hosts] or [0])
    for host, entry in ((host, mapping(said)) for host, said in hosts.items()):
        checks = mappings(entry["checks"])
        found = [f"{message('severity_' + str(check['severity']), lang)}: {check['code']}" for check in checks]
        state = message("preflight_ok", lang) if not found else "; ".join(dict.fromkeys(found))
        lines.append(f"{host.ljust(width)}  {state} ({entry['deployment']})")
    return lines
