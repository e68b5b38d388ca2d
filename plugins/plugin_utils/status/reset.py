# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reset does to a host, and how the host differs afterwards from what it was, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

# Signs of what came, what went, and what is there in another version or state.
SIGNS = (("more", "+"), ("less", "-"), ("other", "~"))
# Why something stays, as plugins/module_utils/_reset.py has it.
WHY = {
    "before": "reset_why_before",
    "unknown": "reset_why_unknown",
    "foreign": "reset_why_foreign",
    "secret": "reset_why_secret",
    "rules": "reset_why_rules",
}


class Thing(TypedDict):
    """Something that a record names, and why it stays."""

    role: str
    kind: str
    name: str
    why: str


class Reset(TypedDict):
    """What baremetal.llm.host_reset returned."""

    # What goes, or went.
    steps: list[Thing]
    stays: list[Thing]
    failed_steps: list[Thing]
    # By kind what differs from before the first change, with the signs below; None where nobody looked then.
    differs: dict[str, dict[str, list[str]]] | None


def plan_lines(host: str, found: Reset, language: str) -> list[str]:
    """Before anything is removed; ``found`` is what baremetal.llm.host_reset returned in check mode."""
    steps = [step for step in found["steps"] if step["kind"] != "record"]
    lines = []
    for role in dict.fromkeys(step["role"] for step in steps):
        names = [f"{step['kind']} {step['name']}" for step in steps if step["role"] == role]
        lines.append(message("reset_remove", language, host=host, role=role, count=len(names), names=", ".join(names)))
    if not steps:
        lines.append(message("reset_clean", language, host=host))
    for each in found["stays"]:
        why = message(WHY[each["why"]], language)
        lines.append(message("reset_stays", language, host=host, **{**each, "why": why}))
    if found["differs"] is None:
        lines.append(message("reset_no_picture", language, host=host))
    return lines


def result_lines(host: str, found: Reset, language: str) -> list[str]:
    """Afterwards: what could not be removed, and in what the host is another one than before the first change."""
    lines = [message("reset_failed", language, host=host, **each) for each in found["failed_steps"]]
    if found["differs"] is None:
        return lines
    if not found["differs"]:
        return [*lines, message("reset_as_before", language, host=host)]
    for kind, parts in found["differs"].items():
        names = ", ".join(_named(parts))
        lines.append(message("reset_differs", language, host=host, kind=kind, names=names))
    return lines


def _named(parts: Mapping[str, list[str]]) -> Iterator[str]:
    for part, sign in SIGNS:
        yield from (f"{sign}{name}" for name in parts[part])
