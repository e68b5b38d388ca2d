# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known failures in a log: the cause, the line that shows it, and what to change. An error that nothing knows is quoted as such."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import LANGUAGES, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.failures import (
    CONSEQUENCE,
    FAILURES,
    FAMILIES,
    ROOT,
    SYMPTOM,
    Failure,
    Family,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.log_text import (
    Flat,
    Line,
    Said,
    errors,
    read_lines,
    read_log,
    readings,
)

EVIDENCE_LENGTH = 400
QUOTED_LENGTH = 300
LAST_LINES = 15
# The code of an error that no entry knows.
UNKNOWN = "unknown"
# Where a text with the beginning of a signature occurs more often, it is none.
CANDIDATES = 2000
# A log of so few lines is one that somebody cut: each line may be the error.
FEW_LINES = 3
# Exceptions with which a program refuses what it was told. Others are its own mistakes, and their words tell little.
MEANT = ("ValueError", "NotImplementedError", "AssertionError", "RuntimeError", "ValidationError", "Exception")
_LITERAL = re.compile(r"(?:[^\\.^$*+?{}\[\]|()]|\\[^A-Za-z0-9])+")
_TOKENS = re.compile(r"\bhf_[A-Za-z0-9]{20,}|(?<=Bearer )\S+|(?<=api[_-]key[= ])\S+")
# What a signature has a group for and did not catch.
_NOTHING = "\x00"


class Finding(TypedDict):
    """What a log shows of a failure."""

    code: str
    layer: str
    # root, symptom, consequence or note
    kind: str
    cause: str
    remedy: str
    evidence: str
    # From 1 on.
    line: int


class _Signature(NamedTuple):
    key: str
    pattern: re.Pattern[str]


def signature(text: str) -> _Signature:
    """A signature of the table: the text that it begins with is looked for, and the expression tried there."""
    match = _LITERAL.match(text)
    beginning = match.group() if match else ""
    if match and text[match.end() : match.end() + 1] in "?*+{|":
        beginning = re.sub(r"\\?.$", "", beginning)
    return _Signature(re.sub(r"\\(.)", r"\1", beginning), re.compile(text))


@functools.cache
def _signatures() -> list[tuple[Failure, list[_Signature]]]:
    """The table, made ready when the first log is read: the planner is imported for other work as well."""
    return [(failure, [signature(each) for each in failure.signatures]) for failure in FAILURES]


@functools.cache
def _families() -> list[tuple[Family, re.Pattern[str]]]:
    return [(family, re.compile("|".join(family.signatures), re.IGNORECASE)) for family in FAMILIES]


class _Found(NamedTuple):
    code: str
    layer: str
    kind: str
    line: Line
    values: dict[str, str]


def diagnose_log(text: object, lang: object = "en") -> list[Finding]:
    """Findings: root causes first, then what they lead to, each kind once. Without a root cause the first error is quoted as unknown."""
    language = str(lang or "en")
    if language not in LANGUAGES:
        raise InputError("lang", "input_one_of", allowed=", ".join(LANGUAGES), found=language)
    lines = read_lines(str(text or ""))
    found = list(_known(lines))
    if not any(each.kind in (ROOT, SYMPTOM) and each.layer != "client" for each in found):
        found += _unexplained(lines, {each.line.number for each in found})
    kinds = (ROOT, SYMPTOM, CONSEQUENCE)
    found.sort(key=lambda each: kinds.index(each.kind) if each.kind in kinds else len(kinds))
    return [_finding(each, language) for each in found]


def saved_log(path: str) -> str:
    """The text of a saved log. InputError where the file is not there, cannot be read, or is no text."""
    if not path:
        raise InputError("llm_log", "input_log_missing")
    try:
        text = read_log(path)
    except OSError as error:
        why = {"found": path, "reason": error.strerror or str(error)}
        raise InputError("llm_log", "input_log_unreadable", **why) from None
    except ValueError:
        raise InputError("llm_log", "input_log_binary", found=path) from None
    if not text.strip():
        raise InputError("llm_log", "input_log_empty", found=path)
    return text


def explain_log(text: object, lang: object = "en", plan: Mapping[str, object] | None = None) -> str:
    """The findings as a text for people, with the nearest plan that would start; the last lines of a log that holds no known failure."""
    findings = diagnose_log(text, lang)
    texts = [
        message("start_finding", str(lang), cause=each["cause"], evidence=each["evidence"], remedy=each["remedy"])
        for each in findings
    ]
    if all(each["code"] == UNKNOWN or each["kind"] not in (ROOT, SYMPTOM) for each in findings):
        lines = "\n".join(f"    {line}" for line in str(text or "").splitlines()[-LAST_LINES:])
        texts.append(message("start_nothing_known", str(lang), lines=lines))
    other = next((each for each in mappings(mapping(plan).get("alternatives")) if each["ok"]), None)
    if other and findings:
        values = {"change": other["change"], "cost": other["cost"] or "-", "tokens": other["max_model_len"]}
        texts.append(message("start_other_plan", str(lang), **values))
    return "\n".join(texts).replace("\n", "\n  ")


def _known(lines: list[Line]) -> Iterator[_Found]:
    """Each entry of the table that the log shows, in the table's order, with the place where it does so first."""
    flats = list(readings(lines))
    for failure, signatures in _signatures():
        for flat in flats:
            places = [place for each in signatures if (place := _place(flat, each))]
            if places:
                place = min(places, key=lambda match: match.start())
                values = dict.fromkeys(_names(failure.code), _NOTHING)
                values.update((name, value) for name, value in place.groupdict().items() if value is not None)
                yield _Found(failure.code, failure.layer, failure.kind, flat.line_at(place.start()), values)
                break


def _names(code: str) -> set[str]:
    """What the texts of a code may hold."""
    return {
        name
        for failure, signatures in _signatures()
        if failure.code == code
        for each in signatures
        for name in each.pattern.groupindex
    }


def _place(flat: Flat, wanted: _Signature) -> re.Match[str] | None:
    offset = -1
    for _dummy in range(CANDIDATES):
        offset = flat.text.find(wanted.key, offset + 1)
        if offset < 0:
            return None
        if match := wanted.pattern.match(flat.text, offset):
            return match
    return None


def _unexplained(lines: list[Line], explained: set[int]) -> Iterator[_Found]:
    """The first error that is no consequence: of the family that its words tell, else unknown."""
    every = errors(lines)
    if not every and sum(bool(line.text) for line in lines) <= FEW_LINES:
        guesses = [Said(line, "", line.text) for line in lines if line.text and not line.level]
        every = [each for each in guesses if _family(each)]
    said = [each for each in every if each.line.number not in explained and not _follows(each.text)]
    if said:
        first = said[0]
        code, layer = _family(first) or (UNKNOWN, "")
        what = _TOKENS.sub("***", first.text)
        short = what if len(what) <= QUOTED_LENGTH else what[: QUOTED_LENGTH - 3] + "..."
        yield _Found(code, layer, ROOT, first.line, {**dict.fromkeys(_names(code), _NOTHING), "what": short})


def _follows(text: str) -> bool:
    return any(
        each.key in text and each.pattern.search(text)
        for failure, signatures in _signatures()
        if failure.kind not in (ROOT, SYMPTOM)
        for each in signatures
    )


def _family(said: Said) -> tuple[str, str] | None:
    """Code and layer of the family of an error, if it is one that a program raises on purpose."""
    if said.kind and said.kind.rsplit(".", 1)[-1] not in MEANT:
        return None
    return next(((family.code, family.layer) for family, pattern in _families() if pattern.search(said.text)), None)


def _finding(found: _Found, language: str) -> Finding:
    return {
        "code": found.code,
        "layer": found.layer,
        "kind": found.kind,
        "cause": _tidy(message("failure_" + found.code, language, **found.values)),
        "remedy": _tidy(message("failure_" + found.code + "_remedy", language, **found.values)),
        "evidence": _TOKENS.sub("***", found.line.raw)[:EVIDENCE_LENGTH],
        "line": found.line.number,
    }


def _tidy(text: str) -> str:
    """A bracket around something that the signature did not catch is left out."""
    text = re.sub(r" ?[(（][^()（）]*" + _NOTHING + r"[^()（）]*[)）]", "", text)
    return text.replace(_NOTHING, "?")
