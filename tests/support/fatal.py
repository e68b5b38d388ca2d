"""What matters of the errors in a log: of a failed task its message and the ends of what its command said, not a line of JSON."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

# A task that will be tried again has not failed yet.
ERROR = re.compile(r"^(ERROR|FAILED(?! - RETRYING)|FATAL|fatal:|failed: \[)")
# Ansible writes a failed task so, the JSON on one line or on many.
TASK = re.compile(r"^((?:fatal|failed): \[.*?) => (\{.*)$", re.DOTALL)
# In this order; of a message the beginning says most, of what a command wrote the end.
FIELDS = {"msg": 10, "censored": 2, "stderr": -8, "stdout": -8, "module_stderr": -8, "module_stdout": -8}
COLUMNS = 300
LINES = 40
# A result on many lines has no more of them.
RESULT_LINES = 2000


def errors(lines: list[str]) -> list[list[str]]:
    """Each error of a log, in short. A failed task that is ignored is none."""
    found, task = [], ""
    for number, line in enumerate(lines):
        if line.startswith("TASK ["):
            task = line.rstrip(" *")
        if not ERROR.match(line):
            continue
        known = TASK.match(line)
        result, after = (
            _result("\n".join([known.group(2), *lines[number + 1 : number + RESULT_LINES]])) if known else (None, "")
        )
        if known is None or result is None:
            found.append([line[:COLUMNS]])
        elif not _is_ignored(after):
            found.append([*([task] if task else []), known.group(1)[:COLUMNS], *_fields(result)])
    return found


def shown(lines: list[str]) -> list[str]:
    """The last errors of a log, as many as there is room for, and one at least."""
    picked: list[list[str]] = []
    for error in reversed(errors(lines)):
        if picked and sum(map(len, picked)) + len(error) > LINES:
            break
        picked.append(error)
    return [line for error in reversed(picked) for line in error]


def _result(text: str) -> tuple[dict[str, Any] | None, str]:
    """The result that a text begins with, and what comes after it."""
    with contextlib.suppress(ValueError):
        result, end = json.JSONDecoder().raw_decode(text)
        return result, text[end:]
    return None, ""


def _is_ignored(after: str) -> bool:
    """Of a loop the other items that failed come first."""
    following = (line for line in after.split("\n")[1:] if line and not line.startswith("failed: ["))
    return next(following, "") == "...ignoring"


def _fields(result: dict[str, Any]) -> list[str]:
    said = []
    for name, most in FIELDS.items():
        value = result.get(name)
        text = value if isinstance(value, str) else "\n".join(map(str, value)) if isinstance(value, list) else ""
        pieces = [line[at : at + COLUMNS] for line in text.splitlines() for at in range(0, len(line), COLUMNS)]
        kept = pieces[:most] if most > 0 else pieces[most:]
        left_out = f" ({len(kept)} of {len(pieces)} lines)" if len(kept) < len(pieces) else ""
        if len(pieces) == 1:
            said.append(f"  {name}: {pieces[0]}")
        elif pieces:
            said += [f"  {name}{left_out}:", *(f"    {piece}" for piece in kept)]
    return said
