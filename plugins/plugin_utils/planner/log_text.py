# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log as one text in which messages can be found: without colours, without what docker, journald, Ray and vLLM put before a line."""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json

# Of a longer log the beginning and the end are read: what stops a start is in one of them.
HEAD_BYTES = 2**20
TAIL_BYTES = 3 * 2**20
LINE_LENGTH = 4000
BINARY_SHARE = 0.02
_SNIFFED_BYTES = 65536

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][0-9A-Za-z]|\x1b[=>]")
_CONTROLS = dict.fromkeys((*range(9), *range(11, 13), *range(14, 32), 127))
_PID = re.compile(r"\((?P<process>[\w-]+ (?:rank=\d+ )?pid=\d+)[^)]{0,80}\)")
_PREFIX = re.compile(
    r"\s*(?:"
    # docker compose, Kubernetes, and the frame that Python draws around groups of exceptions
    r"[\w.-]{1,60}\s*\| |[|│] |(?:stdout|stderr) [FP] "
    # journald and docker logs --timestamps
    r"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S{1,64} [\w.@/-]{1,64}(?:\[\d+\])?: "
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?(?: \S{1,64} [\w.@/-]{1,64}\[\d+\]:)?(?: -)? "
    # Ray, torch and the processes of vLLM
    r"|\([\w-]+ (?:rank=\d+ )?(?:pid|ip)=[^)]{1,120}\)|\((?:raylet|autoscaler|gcs_server)[^)]{0,80}\)|\[rank\d+\]:"
    r"|\[[\dTZ :,.+-]{19,40}(?:\w{1,9} ?){0,4}\]|\[[IWEF]\d{3,4} [\d:.]{8,20} [\w.]{1,60}:\d+\]|\[c10d\]|\[[TDPE]P\d+[^\]]{0,20}\]"
    r"|(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)(?::?\s+\d\d-\d\d \d\d:\d\d:\d\d|:| |(?=\[))"
    r"(?:\s*\[?[\w./-]{1,60}\.(?:py|cc|cpp):\d+\])?"
    r")\s*"
)
_ERRORS = {"ERROR", "CRITICAL", "FATAL"}
_PREFIXES = 8
# A column at which a terminal or an editor broke lines.
_LEAST_WIDTH = 60
_LEAST_FULL_LINES = 3


class Line(NamedTuple):
    number: int
    raw: str
    text: str
    # The process that wrote the line, "" if none is named; and how grave the line says that it is.
    process: str
    level: str

    @property
    def is_error(self) -> bool:
        return self.level in _ERRORS


class Flat(NamedTuple):
    """Lines as one text with single spaces, so that a message is found wherever it is broken."""

    text: str
    starts: list[int]
    lines: list[Line]

    def line_at(self, offset: int) -> Line:
        return self.lines[bisect.bisect_right(self.starts, offset) - 1]


def read_log(path: str) -> str:
    """A file as a text: of a long one the beginning and the end. OSError where it cannot be read; ValueError where it is no text."""
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        raise ValueError(path)  # a device or a pipe, which may never end
    with Path(path).open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        if size <= HEAD_BYTES + TAIL_BYTES:
            data = file.read(HEAD_BYTES + TAIL_BYTES)
        else:
            data = file.read(HEAD_BYTES) + b"\n"
            file.seek(-TAIL_BYTES, 2)
            data += file.read(TAIL_BYTES)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    sniffed = data[:_SNIFFED_BYTES]
    strange = sum(sniffed.count(byte) for byte in (*range(7), *range(14, 27), 28, 29, 30, 31))
    if strange > BINARY_SHARE * len(sniffed) or sniffed[:2] in (b"\x1f\x8b", b"PK", b"BZ"):
        raise ValueError(path)
    return data.decode("utf-8", errors="replace")


def read_lines(text: str) -> list[Line]:
    """The lines of a log, each with what it says, without what stands before."""
    if len(text) > HEAD_BYTES + TAIL_BYTES:
        text = text[:HEAD_BYTES] + "\n" + text[-TAIL_BYTES:]
    return [_line(number, raw) for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), 1)]


def _line(number: int, raw: str) -> Line:
    text = raw[:LINE_LENGTH]
    if text.startswith('{"log":'):
        text = _of_docker(text)
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    text = text.translate(_CONTROLS)
    process = level = ""
    position = 0
    for _dummy in range(_PREFIXES):
        match = _PREFIX.match(text, position)
        if not match:
            break
        if found := _PID.match(match.group().strip()):
            process = process or found.group("process")
        level = level or match.group("level") or ""
        position = match.end()
    return Line(number, raw.strip(), " ".join(text[position:].rstrip(" │").split()), process, level)


def _of_docker(text: str) -> str:
    """A line of docker's own file of a container."""
    try:
        return str(read_json(text)["log"]).rstrip("\n")
    except (ValueError, KeyError, TypeError):
        return text


def readings(lines: list[Line]) -> Iterator[Flat]:
    """The log as it stands; then process by process, if several write at once; then with lines joined that were broken at a column."""
    yield _flat(lines, " ")
    if len({line.process for line in lines if line.process}) > 1:
        yield _flat(sorted(lines, key=lambda line: line.process), " ")
    joined = list(_joined(lines))
    if len(joined) < len(lines):
        yield _flat(joined, " ")


def _flat(lines: list[Line], between: str) -> Flat:
    said = [line for line in lines if line.text]
    starts = list(itertools.accumulate((len(line.text) + len(between) for line in said[:-1]), initial=0))
    return Flat(between.join(line.text for line in said), starts, said)


def _joined(lines: list[Line]) -> Iterator[Line]:
    lengths = Counter(len(line.raw) for line in lines)
    width = max(lengths, default=0)
    broken = width >= _LEAST_WIDTH and lengths[width] >= _LEAST_FULL_LINES
    for _dummy, group in itertools.groupby(lines, key=_Run(width if broken else 0)):
        first, *rest = group
        yield first._replace(text="".join([first.text, *(line.raw for line in rest)]))


class _Run:
    """Counts up after each line that is not full, so that full lines and the one after them are a group."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.number = 0
        self.ended = False

    def __call__(self, line: Line) -> int:
        self.number += self.ended
        self.ended = not self.width or len(line.raw) != self.width
        return self.number


# What Python, Rust and C programs write where they end.
_EXCEPTION = re.compile(
    r"(?P<kind>(?:[A-Za-z_][\w]{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Failure|Timeout|Unauthorized|Interrupt))(?::|\(|$) ?"
)
_GRAVE = re.compile(r"(?:\w+ ){0,3}(?:ERROR|FATAL|error|fatal|panic|Fatal|Error)\b[: ]")
_FRAME = re.compile(r'File "|Traceback |During handling|The above exception|[\^~ ]+$|raise \w|return ')


class Said(NamedTuple):
    """What a program said where it failed."""

    line: Line
    # The exception, "" if the line is none.
    kind: str
    text: str


def errors(lines: list[Line]) -> list[Said]:
    """The exceptions of a log in their order; without any, the lines that are errors."""
    found = []
    graves = []
    for line, following in itertools.zip_longest(lines, lines[1:]):
        if not line.text or _FRAME.match(line.text):
            continue
        if match := _EXCEPTION.match(line.text):
            rest = line.text[match.end() :]
            # Some texts begin on the next line.
            if following and (not rest or rest.endswith(":")):
                rest = f"{rest} {following.text}".strip()
            found.append(Said(line, match.group("kind"), f"{match.group('kind')}: {rest}".rstrip(": ")))
        elif line.is_error or (not line.level and _GRAVE.match(line.text)):
            graves.append(Said(line, "", line.text))
    return found or graves
