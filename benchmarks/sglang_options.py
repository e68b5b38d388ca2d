# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether command lines for SGLang are taken by the option parsers of its releases, and what options they have.

usage: sglang_options.py [--facts] PLACE...

A place is a wheel of sglang, or a folder into which one was unpacked (`pip download --no-deps sglang==0.5.23`, `uv pip install --no-deps --target`). msgspec
has to be importable, since newer releases declare their options with it; nothing else of what SGLang needs has to be there: whatever is not the parser, or
names of choices, is a stub. Each release is looked at by a process of its own.

For each release and each option that the collection knows, its parser is given the command line that the collection makes: what the collection takes the
parser has to take, with the same value, and what the collection says is missing in the release the parser has to refuse. Ends with 1 where it differs, or
where the release has an option of which the collection knows nothing.

--facts prints for data.yml in which releases there is which option, by kind, and which method of quantisation.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import io
import itertools
import json
import re
import subprocess
import sys
import types
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))
# The modules that are read as they are: the parser, and lists of choices.
REAL = re.compile(
    r"sglang(\.srt(\.server_args"
    r"|\.arg_groups(\.(arg_utils|argparse_actions|choices|field_order|fields(\..*)?|namespaces?))?"
    r"|\.parser(\.reasoning_parser_names)?|\.function_call(\.parser_names)?)?)?"
)
BASE = {"host": "127.0.0.1", "port": 8000, "tp_size": 2}


class Anything:
    """In place of what is no parser: it can be called, named, entered and read, and has nothing in it."""

    def __call__(self, *given: Any, **more: Any) -> Any:
        if len(given) == 1 and not more and isinstance(given[0], (types.FunctionType, type)):
            return given[0]  # as a decorator
        return given[0] if len(given) == 1 and isinstance(given[0], str) else Anything()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Anything()

    def __mro_entries__(self, bases: Any) -> tuple[()]:
        return ()

    def __getitem__(self, name: Any) -> Any:
        return Anything()

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return Anything()

    __ror__ = __or__
    __sub__ = __or__
    __add__ = __or__
    __radd__ = __or__


class StubModule(types.ModuleType):
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = {"json_list_type": json.loads, "nullable_str": str, "A": None}
        return known.get(name) or Anything()


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what is no part of the parser."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.startswith("sglang") and REAL.fullmatch(name):
            return None
        if not name.startswith("sglang") and (
            name.split(".")[0] in sys.stdlib_module_names or name in ("msgspec", "yaml")
        ):
            return None
        if name.split(".")[0] in ("msgspec", "yaml", "ansible_collections", "ansible", "_yaml", "jinja2"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return StubModule(spec.name)

    def exec_module(self, module: Any) -> None:
        return None


def release_of(place: Path) -> str:
    """By the name of the wheel, or of its folder of metadata."""
    names = [place.name] if place.suffix == ".whl" else [each.name for each in place.glob("sglang-*.dist-info")]
    return re.sub(r"^sglang-(\d+(?:\.\d+)*(?:\.post\d+)?).*", r"\1", names[0])


def source(place: Path, name: str) -> str:
    if place.suffix == ".whl":
        with zipfile.ZipFile(place) as archive:
            return archive.read(name).decode()
    return (place / name).read_text(encoding="utf-8")


def parser_of(place: Path) -> argparse.ArgumentParser:
    """The parser of a release."""
    sys.path.insert(0, str(place))
    for package in ("sglang", "sglang.srt", "sglang.srt.parser", "sglang.srt.function_call"):
        module = StubModule(package)  # without what the package itself would import
        module.__path__ = [str(place / package.replace(".", "/"))]
        sys.modules[package] = module
    sys.meta_path.insert(0, Stubs())
    server_args = importlib.import_module("sglang.srt.server_args")
    parser = argparse.ArgumentParser(allow_abbrev=True)
    server_args.ServerArgs.add_cli_args(parser)
    for action in parser._actions:
        if action.choices is not None and not list(action.choices):
            action.choices = None  # names that a stub would have
    return parser


def options_of(parser: argparse.ArgumentParser) -> dict[str, dict[str, Any]]:
    """By name with underscores, all names that it has: the kind of an option, a value that it takes, and whether the name is an alias."""
    found: dict[str, dict[str, Any]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or type(action).__name__ == "DeprecatedAction":
            continue
        kind = "values"
        if isinstance(action, argparse.BooleanOptionalAction):
            kind = "pairs"
        elif action.nargs == 0:
            kind = "switches"
        elif action.nargs in ("+", "*") or isinstance(action.nargs, int):
            kind = "lists"
        names = [each[2:].replace("-", "_") for each in action.option_strings if each.startswith("--")]
        own = action.dest if action.dest in names else names[0]
        for name in names:
            if not (kind == "pairs" and name.startswith("no_")):
                found[name] = {"kind": kind, "sample": sample_of(action), "dest": action.dest, "alias": name != own}
    return found


def sample_of(action: argparse.Action) -> Any:
    if isinstance(action, argparse.BooleanOptionalAction) or action.nargs == 0:
        return True
    if action.choices is not None:
        return sorted(map(str, action.choices))[0] if action.type is not int else next(iter(action.choices))
    tried: tuple[Any, ...] = (1, 0.5, "[1]", "{}", "word", "a=1")
    for value in tried:
        try:
            if action.type is not None:
                action.type(str(value))  # type: ignore[operator]
        except (ValueError, TypeError, argparse.ArgumentTypeError, KeyError):
            continue
        return [value] if action.nargs in ("+", "*") else value
    return "word"


def taken(parser: argparse.ArgumentParser, words: Iterable[str]) -> argparse.Namespace | None:
    try:
        with redirect_stderr(io.StringIO()):
            return parser.parse_args(list(words))
    except (SystemExit, ValueError, TypeError, AssertionError):
        return None


def judged(place: Path) -> dict[str, Any]:
    """What a release has, and where the collection's command lines differ from what its parser takes."""
    from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang import arguments

    release, table = release_of(place), arguments.table()
    parser = parser_of(place)
    options = options_of(parser)
    known = {*table.names(), *table.own, *table.never}
    wrong = []
    for name in sorted(known):
        why = table.refusal(name, release)
        if why is None:
            sample = options.get(name, {}).get("sample", 1)
            words = arguments.sglang_arguments("/models/m", {**BASE, name: sample}, release)[len(arguments.PROGRAM) :]
            read = taken(parser, words)
            got = None if read is None else getattr(read, options.get(name, {}).get("dest", name), None)
            # One that went into another may have another value there.
            moved = name in options and options[name]["dest"] != name and got is not None
            if read is None or not (moved or same(got, sample)):
                wrong.append(f"{name}: {words} gives {got!r}")
        elif (
            why.code in ("engine_option_later", "engine_option_gone")
            and not options.get(name, {"alias": True})["alias"]
        ):
            wrong.append(f"{name}: refused, and the release has it")
    # An option may have had a longer name in front, and has the known one beside it.
    named = {options[name]["dest"] for name in known if name in options}
    missing = sorted(name for name, row in options.items() if not row["alias"] and row["dest"] not in named)
    return {"release": release, "count": len(known), "wrong": wrong, "missing": missing}


def same(got: Any, sample: Any) -> bool:
    if isinstance(sample, list):
        return isinstance(got, list) and len(got) == len(sample)
    if isinstance(got, (bool, int, float, str)):
        return str(got) == str(sample) or (isinstance(got, float) and float(got) == float(sample))
    return got is not None


def methods_of(place: Path) -> list[str]:
    """The methods of quantisation that a release computes on CUDA."""
    tree = ast.parse(source(place, "sglang/srt/layers/quantization/__init__.py"))
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id == "BASE_QUANTIZATION_METHODS":
                found |= {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
        if isinstance(node, ast.If) and "is_cuda" in ast.unparse(node.test):
            keys = [key for each in ast.walk(node) if isinstance(each, ast.Dict) for key in each.keys]
            found |= {key.value for key in keys if isinstance(key, ast.Constant)}
    return sorted(found)


def facts_of(place: Path) -> dict[str, Any]:
    found = options_of(parser_of(place))
    options = {name: row["kind"] for name, row in found.items()}
    aliases = [name for name, row in found.items() if row["alias"]]
    return {"release": release_of(place), "options": options, "aliases": aliases, "methods": methods_of(place)}


def spans(rows: list[Mapping[str, Any]], of: str) -> dict[str, tuple[str, str, str]]:
    """By name: its kind, the first release that has it, - for the oldest, and the last one, empty for the newest."""
    found = {}
    for name in sorted({name for row in rows for name in row[of]}):
        having = [row["release"] for row in rows if name in row[of]]
        if name in next(row for row in rows if row["release"] == having[-1])["aliases"]:
            continue  # the option has another name now, which older releases take, too
        kind = rows[[row["release"] for row in rows].index(having[-1])][of]
        first = "-" if having[0] == rows[0]["release"] else having[0]
        last = "" if having[-1] == rows[-1]["release"] else having[-1]
        found[name] = (kind[name] if isinstance(kind, dict) else "method", first, last)
    return found


def print_facts(rows: list[Mapping[str, Any]]) -> None:
    options = spans(rows, "options")
    for kind in ("values", "lists", "switches", "pairs"):
        print(f"  {kind}:")
        of_kind = [(first, name) for name, (its, first, _last) in options.items() if its == kind]
        for first, group in itertools.groupby(
            sorted(of_kind, key=lambda row: (key_of(row[0]), row[1])), lambda row: row[0]
        ):
            print_row(first, [name for _first, name in group])
    print("  until:")
    gone = sorted(
        ((last, name) for name, (_kind, _first, last) in options.items() if last),
        key=lambda row: (key_of(row[0]), row[1]),
    )
    for last, group in itertools.groupby(gone, lambda row: row[0]):
        print_row(last, [name for _last, name in group])
    for name, (_kind, first, last) in spans(rows, "methods").items():
        print(f"  {name}: [{first!r}, {last!r}]")


def print_row(release: str, names: list[str]) -> None:
    said = '"-"' if release == "-" else release
    print(f"    {said}:")
    line = "      ["
    for name in names:
        if len(line) + len(name) > 156:
            print(line.rstrip())
            line = "       "
        line += f"{name}, "
    print(line.rstrip(", ") + "]")


def key_of(release: str) -> list[int]:
    return [0] if release == "-" else [int(part) for part in re.findall(r"\d+", release)]


def main(words: list[str]) -> int:
    if words and words[0] in ("--judge-one", "--facts-one"):
        print(json.dumps((judged if words[0] == "--judge-one" else facts_of)(Path(words[1]))))
        return 0
    facts = "--facts" in words
    places = sorted(
        (Path(word) for word in words if not word.startswith("--")), key=lambda place: key_of(release_of(place))
    )
    rows = []
    for place in places:
        how = "--facts-one" if facts else "--judge-one"
        done = subprocess.run([sys.executable, __file__, how, str(place)], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{place}: {done.stderr[-2000:]}", file=sys.stderr)
            return 1
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    if facts:
        print_facts(rows)
        return 0
    for row in rows:
        print(f"{row['release']}: {row['count']} judged, {len(row['wrong'])} wrong, {len(row['missing'])} not known")
        for line in [*row["wrong"], *row["missing"]]:
            print(f"  {line}")
    total = {what: sum(len(row[what]) for row in rows) for what in ("wrong", "missing")}
    print(
        f"{sum(row['count'] for row in rows)} judged, {total['wrong']} wrong, {total['missing']} not known, {len(rows)} releases"
    )
    return 1 if sum(total.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
