# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known failures in a log: the cause, the line that shows it, and what to change."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.failures import FAILURES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

LANGUAGES = ("en", "zh")
EVIDENCE_LENGTH = 400
_COMPILED = [(code, re.compile(pattern, re.I), cause, remedy) for code, pattern, cause, remedy in FAILURES]


def diagnose_log(text: Any, lang: Any = "en") -> list[dict[str, Any]]:
    """Findings in the order of the table (root causes before what follows from them), each kind once."""
    language = str(lang or "en")
    if language not in LANGUAGES:
        raise InputError("lang", f"must be one of {', '.join(LANGUAGES)}, not {language!r}")
    lines = str(text or "").splitlines()
    found = []
    for code, pattern, cause, remedy in _COMPILED:
        for number, line in enumerate(lines, 1):
            match = pattern.search(line)
            if match:
                values = {
                    name.rstrip("0123456789"): value for name, value in match.groupdict().items() if value is not None
                }
                found.append(
                    {
                        "code": code,
                        "cause": _fill(cause[language], values),
                        "remedy": _fill(remedy[language], values),
                        "evidence": line.strip()[:EVIDENCE_LENGTH],
                        "line": number,
                    }
                )
                break
    return found


def _fill(text: str, values: dict[str, str]) -> str:
    """Put what the pattern caught into the sentence; a bracket around something that it did not catch is left out."""
    filled = re.sub(r"\{(\w+)\}", lambda found: values.get(found.group(1), UNKNOWN), text)
    filled = re.sub(r" ?[(（][^()（）]*" + UNKNOWN + r"[^()（）]*[)）]", "", filled)
    return filled.replace(UNKNOWN, "?")


UNKNOWN = "\x00"
