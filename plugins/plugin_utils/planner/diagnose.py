# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known failures in a log: the cause, the line that shows it, and what to change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import LANGUAGES, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.failures import FAILURES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

EVIDENCE_LENGTH = 400
LAST_LINES = 15
_COMPILED = [(code, re.compile(pattern, re.I)) for code, pattern in FAILURES]
_DIGITS = "0123456789"
# What a pattern has a group for and did not catch.
_UNKNOWN = "\x00"


def diagnose_log(text: Any, lang: Any = "en") -> list[dict[str, Any]]:
    """Findings in the order of the table (root causes before what follows from them), each kind once."""
    language = str(lang or "en")
    if language not in LANGUAGES:
        raise InputError("lang", "input_one_of", allowed=", ".join(LANGUAGES), found=language)
    lines = str(text or "").splitlines()
    found = []
    for code, pattern in _COMPILED:
        for number, line in enumerate(lines, 1):
            match = pattern.search(line)
            if match:
                values = {name.rstrip(_DIGITS): _UNKNOWN for name in pattern.groupindex}
                values.update(
                    (name.rstrip(_DIGITS), value) for name, value in match.groupdict().items() if value is not None
                )
                found.append(
                    {
                        "code": code,
                        "cause": _tidy(message("failure_" + code, language, **values)),
                        "remedy": _tidy(message("failure_" + code + "_remedy", language, **values)),
                        "evidence": line.strip()[:EVIDENCE_LENGTH],
                        "line": number,
                    }
                )
                break
    return found


def explain_log(text: Any, lang: Any = "en", plan: Mapping[str, Any] | None = None) -> str:
    """The findings as a text for people, with the nearest plan that would start; else the last lines of the log."""
    findings = diagnose_log(text, lang)
    if not findings:
        lines = "\n".join(f"    {line}" for line in str(text or "").splitlines()[-LAST_LINES:])
        return message("start_nothing_known", lang, lines=lines)
    texts = [
        message("start_finding", lang, **{key: each[key] for key in ("cause", "evidence", "remedy")})
        for each in findings
    ]
    other = next((each for each in (plan or {}).get("alternatives") or [] if each["ok"]), None)
    if other:
        values = {"change": other["change"], "cost": other["cost"] or "-", "tokens": other["max_model_len"]}
        texts.append(message("start_other_plan", lang, **values))
    return "\n".join(texts).replace("\n", "\n  ")


def _tidy(text: str) -> str:
    """A bracket around something that the pattern did not catch is left out."""
    text = re.sub(r" ?[(（][^()（）]*" + _UNKNOWN + r"[^()（）]*[)）]", "", text)
    return text.replace(_UNKNOWN, "?")
