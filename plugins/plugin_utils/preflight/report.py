# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings as a report for machines, and as texts for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, render
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR, WARNING, Finding

REPORT_SCHEMA = 1


# What a finding says to people.
_SAID = ("code", "what", "value", "where", "allowed")


def text(findings: Sequence[Finding], header: str, lang: str) -> str:
    """What was found, once where several hosts have it. Nothing where nothing was found."""
    said = together(findings, lang)
    header += "_one" if len(said) == 1 else ""
    return render(said, lang, message(header, lang, count=len(said))) if said else ""


def together(findings: Sequence[Finding], lang: str) -> list[Mapping[str, str]]:
    """Findings that differ in nothing but the name of their host are the first of them, which names the other hosts."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        [host, *more] = finding["hosts"] or [""]
        own = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)") if host and not more else re.compile(r"(?!)")
        alike.setdefault(tuple(own.sub("\0", finding[name]) for name in _SAID), []).append(finding)
    return [_together(same, lang) for same in alike.values()]


def _together(same: Sequence[Finding], lang: str) -> Mapping[str, str]:
    first, others = same[0], [host for finding in same[1:] for host in finding["hosts"]]
    also = "\n" + message("preflight_also", lang, hosts=names(others, lang)) if others else ""
    return {**{name: first[name] for name in _SAID}, "what": first["what"] + also}


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
