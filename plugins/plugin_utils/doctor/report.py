# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings of the doctor as one document, and as lines for a terminal: the verdict, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.finding import Finding
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.columns import width
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import BAD, GOOD, UNKNOWN, WARNING

SCHEMA = 1
ORDER = (BAD, UNKNOWN, WARNING, GOOD)
# The exit codes of doctor.yml.
WELL, BROKEN, BLIND = 0, 1, 2


class DoctorDocument(TypedDict):
    """What the doctor found, as it is written."""

    schema: int
    # As reports write moments.
    time: str
    # Well, broken or not known.
    exit_code: int
    # Of each grade.
    counts: dict[str, int]
    # The fields of Finding, the worst first.
    findings: list[dict[str, Any]]


def doctor_document(found: Sequence[Finding], time: str) -> DoctorDocument:
    """The findings, how many of each grade, and the code: 0 well, 1 something is broken, 2 a host could not be looked at and nothing else is broken."""
    counts = Counter(each.grade for each in found)
    code = BROKEN if counts[BAD] else BLIND if any(each.blind for each in found) else WELL
    order = sorted(found, key=lambda each: ORDER.index(each.grade))
    return {
        "schema": SCHEMA,
        "time": time,
        "exit_code": code,
        "counts": {grade: counts[grade] for grade in ORDER},
        "findings": [asdict(each) for each in order],
    }


def verdict(document: DoctorDocument, lang: str = "en") -> str:
    """Well, broken or not known, in one line."""
    code = ("doctor_well", "doctor_broken", "doctor_blind")[document["exit_code"]]
    return message(code, lang, **document["counts"])


def doctor_lines(document: DoctorDocument, lang: str = "en", written: str = "") -> list[str]:
    """The verdict, then a line for each finding with what shows it and what to do below, then a line for each check that is well."""
    words = {grade: message("doctor_grade_" + grade, lang) for grade in ORDER}
    wide = max(map(width, words.values()))
    lines = [verdict(document, lang), *([message("status_written", lang, path=written)] if written else []), ""]
    for each in document["findings"]:
        word = words[each["grade"]]
        lines.append(word + " " * (wide - width(word) + 2) + " ".join(each["what"].split()))
        for name in ("evidence", "remedy"):
            if each[name]:
                lines.append(" " * (wide + 2) + message("doctor_" + name, lang, text=" ".join(each[name].split())))
    return lines
