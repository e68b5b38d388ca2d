#!/usr/bin/env python3
"""Runs the commands that README.md and docs/ show, word by word.

Before each block of shell commands, and before a program in Python that is run, stands a comment that says what runs it:

    <!-- run: SCENARIO -->        molecule/SCENARIO runs it through this program; `unit`: the unit tests do
    <!-- run: SCENARIO A=x -->    with x for A, which the block leaves to its reader: A=${A:?what it is}
    <!-- example: reason -->      nothing can run it, and why

All blocks of a file for one scenario are one script for bash, which stops at the first command that fails:

    docs_commands.py day_two docs/runbooks/rebuild-a-node.md --set NODE=node1

--set changes an assignment in the first of these blocks, as the text tells its reader to do, and goes before what its comment says. Pages name
the folder and the addresses of the first lab; on the second one (LLM_LAB=2) its own stand in their place. Nothing else is changed.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHELLS = ("bash", "console", "sh", "shell")
MARKER = re.compile(r"^<!-- (run|example): (.+?) -->$")
# What make, molecule and pytest leave to their children would not be in a user's shell.
NOT_A_USERS = re.compile(r"^(ANSIBLE_|MOLECULE_|PYTEST_|MAKE|MFLAGS$|ARGS$|PYTHONPATH$)")


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of shell commands: where it stands, what it says and what runs it."""

    path: Path
    line: int
    text: str
    # "run" with the scenario's name, "example" with the reason, or two empty strings.
    kind: str
    argument: str
    # What stands for the assignments that a reader fills in.
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)


def files() -> list[Path]:
    """Every page that shows commands to users."""
    return [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path) -> list[Block]:
    """The blocks of shell commands of a page."""
    found: list[Block] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        fence = re.match(r"^\s*(`{3,}|~{3,})\s*(\w*)", lines[number])
        if fence:
            end = number + 1
            while end < len(lines) and lines[end].strip() != fence.group(1):
                end += 1
            marker = MARKER.match(lines[number - 1].strip() if number else "")
            kind, argument = marker.groups() if marker else ("", "")
            values = {}
            if kind == "run":
                argument, *said = argument.split()
                values = dict(each.split("=", 1) for each in said)
            text = "\n".join(lines[number + 1 : end]) + "\n"
            if fence.group(2) in SHELLS:
                found.append(Block(path, number + 1, text, kind, argument, values))
            elif fence.group(2) == "python" and kind:
                found.append(
                    Block(path, number + 1, f"python - <<'END_OF_PYTHON'\n{text}END_OF_PYTHON\n", kind, argument)
                )
            number = end
        number += 1
    return found


def script(found: Iterable[Block], values: Mapping[str, str]) -> str:
    """The blocks as one script, with these values in the assignments of the first, besides those of its comment."""
    picked = list(found)
    texts = [block.text for block in picked]
    if not texts:
        raise ValueError("there is no such block")
    for name, value in {**picked[0].values, **values}.items():
        # What follows the value, a comment, stays.
        new = f"{name}={value}".replace("\\", r"\\")
        texts[0], count = re.subn(rf"^{re.escape(name)}=(\$\{{[^}}]*\}}|\S*)", new, texts[0], flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"the first block sets {name} {count} times, not once")
    return in_this_lab("\n".join(texts))


def in_this_lab(commands: str) -> str:
    """The commands with the folder and the addresses of the lab that LLM_LAB names."""
    number = os.environ.get("LLM_LAB") or ""
    if number:
        commands = re.sub(r"(?<![\w.])\.lab/", f".lab{number}/", commands)
        commands = re.sub(
            r"\b172\.31\.(240|241)\.", lambda found: f"172.31.{int(found[1]) + 2 * (int(number) - 1)}.", commands
        )
    return commands


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("page", nargs="+", help="relative to the checkout")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="values")
    parser.add_argument("--packages", metavar="FOLDER", help="with packages for the programs in Python")
    parser.add_argument("--blocks", type=int, metavar="N", help="only the first N of them")
    parser.add_argument(
        "--from", type=int, default=2, metavar="N", dest="first", help="the first of them, and those from the Nth on"
    )
    parser.add_argument("--without", type=int, metavar="N", help="all of them but the Nth")
    parser.add_argument("--show", action="store_true", help="print the script instead of running it")
    arguments = parser.parse_args()
    values = dict(value.split("=", 1) for value in arguments.values)
    environment = {name: value for name, value in os.environ.items() if not NOT_A_USERS.match(name)}
    if arguments.packages:
        environment["PYTHONPATH"] = arguments.packages
    for page in arguments.page:
        wanted = [block for block in blocks(ROOT / page) if (block.kind, block.argument) == ("run", arguments.scenario)]
        picked = [
            block
            for number, block in enumerate(wanted[: arguments.blocks], 1)
            if number != arguments.without and (number == 1 or number >= arguments.first)
        ]
        try:
            commands = script(picked, values)
        except ValueError as error:
            sys.exit(f"{page}: {error}")
        if arguments.show:
            print(commands)
            continue
        print(f"== {page}, {len(picked)} of {len(wanted)} blocks", flush=True)
        status = subprocess.run(
            ["bash", "-x", "-euo", "pipefail", "-c", commands], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL
        ).returncode
        if status:
            print(f"== {page}: exit status {status}", flush=True)
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
