# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connectivity check for people and for programs: lines for a terminal, a page, JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.connectivity import (
    Checked,
    Connectivity,
    Path,
    rate,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.columns import aligned
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.html import render_page

FORMATS = ("text", "html", "json")
# A terminal has columns for so many hosts; more are summed up.
_MATRIX_HOSTS = 8


def network_report(checks: Mapping[str, Connectivity], report_format: str = "text", language: str = "en") -> str:
    """The report on all deployments; ``checks`` holds by deployment what the connectivity check found."""
    if report_format == "html":
        return network_html(checks, language)
    if report_format == "json":
        return json.dumps(checks, indent=2, sort_keys=True, ensure_ascii=False, default=str) + "\n"
    lines = []
    for name, check in sorted(checks.items()):
        lines += [str(name), *(f"  {line}" for line in network_lines(check, language))]
    return "\n".join(lines)


class Row(TypedDict):
    """The paths from a host: who sends, and for each that receives a ``state`` and a ``text``."""

    sender: str
    cells: list[dict[str, str]]


def _works(path: Path) -> bool:
    return not path["failed"] and not path["stream"]


def _path_text(path: Path, language: str) -> str:
    """A path in few words."""
    if not _works(path):
        reasons = sorted({entry["reason"] for entry in path["failed"].values()} | {path["stream"]} - {""})
        ports = sorted({str(entry["port"]) for key, entry in path["failed"].items() if key != "dynamic"})
        if "dynamic" in path["failed"] or not ports:
            return message("connectivity_cell_dead", language, reason=", ".join(reasons))
        return message("connectivity_cell_ports", language, ports=", ".join(ports), reason=", ".join(reasons))
    parts = [rate(path["mbps"]) or message("connectivity_cell_open", language), f"{path['milliseconds'] or 0:.1f} ms"]
    if path["mtu"]:
        parts.append(f"MTU {path['mtu']}")
    return ", ".join(parts)


def _cell(path: Path | None, language: str) -> dict[str, str]:
    """One field of the matrix; a host has no path to itself."""
    if path is None:
        return {"state": "self", "text": "-"}
    return {"state": "good" if _works(path) else "bad", "text": _path_text(path, language)}


def _header(entry: Checked, language: str) -> list[str]:
    return [message("connectivity_corner", language), *entry["paths"]]


def _rows(entry: Checked, language: str) -> list[Row]:
    """The matrix of one network: a row for each host that sends, a cell for each host that receives."""
    return [
        {
            "sender": f"{sender} ({entry['interfaces'][sender]['interface']})",
            "cells": [_cell(paths.get(receiver), language) for receiver in entry["paths"]],
        }
        for sender, paths in entry["paths"].items()
    ]


def _summary(entry: Checked, language: str) -> str:
    """For more hosts than a terminal has columns."""
    paths = [path for others in entry["paths"].values() for path in others.values()]
    rates = sorted(mbps for path in paths if (mbps := path["mbps"]))
    return message(
        "connectivity_summary",
        language,
        hosts=len(entry["paths"]),
        good=sum(1 for path in paths if not path["failed"]),
        all=len(paths),
        low=rate(rates[0]) if rates else "?",
        high=rate(rates[-1]) if rates else "?",
    )


def _title(check: Connectivity, entry: Checked, language: str) -> str:
    """What became of a network: a run that is limited to some hosts says nothing about the others."""
    missing = [host for host in entry["interfaces"] if host not in entry["paths"]]
    codes: list[tuple[str, bool]] = [
        ("connectivity_network_other", entry["network"] != check["network"]),
        ("connectivity_network_alone", len(entry["interfaces"]) == 1),
        ("connectivity_network_unverified", bool(missing)),
        ("connectivity_network_chosen", True),
    ]
    code = next(code for code, applies in codes if applies)
    return message(code, language, network=entry["network"], hosts=names(missing, language))


def network_lines(check: Connectivity, language: str = "en") -> list[str]:
    """The connectivity check of one deployment for a terminal."""
    lines: list[str] = []
    for entry in check.get("networks") or ():
        if not entry["paths"]:
            continue
        lines.append(_title(check, entry, language))
        if len(entry["paths"]) < 2 or (entry["network"] != check["network"] and entry["works"]):
            continue  # a matrix of nothing, or of what nobody uses
        if len(entry["paths"]) > _MATRIX_HOSTS:
            lines.append("  " + _summary(entry, language))
            continue
        rows = [[row["sender"], *(cell["text"] for cell in row["cells"])] for row in _rows(entry, language)]
        lines += ["  " + line for line in aligned([_header(entry, language), *rows])]
    return lines + ["  " + note for note in check.get("notes") or ()]


def _network_view(check: Connectivity, entry: Checked, language: str) -> dict[str, object]:
    return {
        "title": _title(check, entry, language),
        "header": _header(entry, language),
        "rows": _rows(entry, language) if len(entry["paths"]) > 1 else [],
        "problems": entry["problems"],
        "warnings": entry["warnings"],
    }


def _deployment_view(name: str, check: Connectivity, language: str) -> dict[str, object]:
    """The warnings of the network in use are among the notes: they stand below the network only."""
    networks = check.get("networks") or []
    warnings = [warning for entry in networks for warning in entry["warnings"]]
    return {
        "name": name,
        "networks": [_network_view(check, entry, language) for entry in networks],
        "notes": [note for note in check.get("notes") or () if note not in warnings],
    }


def network_html(checks: Mapping[str, Connectivity], language: str = "en") -> str:
    """The checks of all deployments as a page that needs nothing else."""
    return render_page(
        "network",
        language,
        title=message("network_page_title", language),
        deployments=[_deployment_view(name, check, language) for name, check in sorted(checks.items())],
    )
