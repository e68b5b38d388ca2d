# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON and YAML that somebody else may have written: a host, a hub, a disk, or whoever damaged a file.

Both formats can say more than a program can walk through: lists within lists until Python has no stack left, and in YAML a list that names another one ten
times, which names another one ten times, and so on. What is read here can be walked through, copied and printed, or it is a ValueError like any other text
that is no JSON. Nothing else of the collection calls json.load or yaml.load on what it did not write itself (tests/unit/test_content.py).
"""

from __future__ import annotations

import json
import re
from types import ModuleType
from typing import Any, Iterable, Mapping, TextIO, TypeVar

from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError

# Nothing that is read has more than 20 levels.
MOST_LEVELS = 100
# A manifest of ten thousand packages has 200,000 parts. What an alias stands for counts each time.
MOST_PARTS = 4_000_000
_BRACKETS = re.compile(r"[\[\]{}]")
_LONG_BEGINNING = re.compile(r"^[ \t?:-]{%d}" % MOST_LEVELS, re.M)
# As any counter of a kernel or a card has them. Python reads a square as a digit and not as a number, and no number of 5000 digits.
_DIGITS = re.compile(r"[0-9]{1,18}")
_HOLDERS = (dict, list, tuple, set, frozenset)
Value = TypeVar("Value")


class ContentError(CodedError, ValueError):
    """What nobody can walk through: a ValueError that has a text of its own."""


def bounded(value: Value) -> Value:
    """The value, if nothing in it lies deeper and it has no more parts than a program can walk through; else ValueError."""
    level: list[object] = [value]
    parts = 0
    for _dummy in range(MOST_LEVELS):
        holders = [each for each in level if isinstance(each, _HOLDERS)]
        parts += sum(map(len, holders))
        if parts > MOST_PARTS:
            raise ContentError("content_large", most=MOST_PARTS)
        level = [part for each in holders for part in (each.values() if isinstance(each, dict) else each)]
        if not level:
            return value
    raise ContentError("content_deep", most=MOST_LEVELS)


def is_integer(value: object) -> bool:
    """Whether what was read is a whole number, which neither true nor false is."""
    return isinstance(value, int) and not isinstance(value, bool)


def digits(text: object) -> int | None:
    """The whole number that somebody wrote, who may have written anything; None where it is none, or one that nobody counts to."""
    return int(text) if isinstance(text, str) and _DIGITS.fullmatch(text) else None


def read_json(text: str | bytes) -> Any:
    """What a text says; ValueError where it is no JSON, or none that can be walked through."""
    try:
        return bounded(json.loads(text))
    except RecursionError as error:
        raise ContentError("content_deep", most=MOST_LEVELS) from error


def load_json(stream: TextIO) -> Any:
    """The same of a file that is open. ValueError also where its bytes are no text."""
    return read_json(stream.read())


def read_object(path: str) -> dict[str, Any]:
    """The object of a file of JSON; empty where the file cannot be read, or holds anything else."""
    try:
        with open(path, encoding="utf-8") as stream:
            found = load_json(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def mapping(value: object) -> Mapping[str, object]:
    """A value that is to be a mapping; empty where it is anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, object]]:
    """The mappings of a value that is to be a list of them."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []


def texts(value: object) -> list[str]:
    """The parts of a value that is to be a list, as text."""
    return [str(one) for one in value] if isinstance(value, (list, tuple)) else []


def read_yaml(text: str | bytes) -> Any:
    """The same of YAML."""
    # Not on every host, and nothing there needs it.
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    try:
        if _may_be_deep(text):
            _refuse_deep(yaml.parse(text, Loader=loader), yaml)
        return bounded(yaml.load(text, Loader=loader))
    except (yaml.YAMLError, RecursionError, TypeError, OverflowError) as error:
        # TypeError: a key that holds itself. OverflowError: a time beyond all years.
        raise ValueError(" ".join(str(error).split())) from error


def _may_be_deep(text: str) -> bool:
    """Whether brackets, or the beginnings of lines, let that be. To ask the parser costs as much as to read it all."""
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth = max(depth + (1 if bracket in "[{" else -1), 0)
        if depth > MOST_LEVELS:
            return True
    return bool(_LONG_BEGINNING.search(text))


def _refuse_deep(events: Iterable[object], yaml: ModuleType) -> None:
    """Before a node is made: libyaml has no limit, and a stack of its own that ends the process."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_LEVELS:
            raise ContentError("content_deep", most=MOST_LEVELS)
