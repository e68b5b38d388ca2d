# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How simple the house is: `make bench-house`. Lines, types that say nothing, names of tasks, engines outside of their rooms, and files a task.

The files of a task are those of an example change, which is kept in benchmarks/house and still has to fit the tree. A changelog fragment comes with
each of them and is not counted; pages that benchmarks/pages.py prints are counted apart, because nobody writes in them. A further engine is counted by
those that are there.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import yaml

from benchmarks.pages import PAGES
from tests.unit.test_engine_rooms import ALLOWED, naming
from tests.unit.test_task_names import offenders

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("plugins", "roles", "playbooks", "lab", "tests", "molecule", "docs")
PATCHES = Path(__file__).with_suffix("")
# What the issue asks for, by example.
MOST = {"flag": 2, "distribution": 3, "alert": 4, "message": 2}
MOST_OF_ENGINE = 14
# Where somebody would have to say the name of an engine beside its rooms.
CODE = ("plugins", "roles", "playbooks")


def lines_of(paths: Iterable[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def tracked(folder: str) -> list[Path]:
    """Files of the folder that git knows."""
    said = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for name in said.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def words(paths: Iterable[Path], word: str) -> dict[str, int]:
    """How often a word stands in each file."""
    counts = {path.relative_to(ROOT).as_posix(): len(re.findall(rf"\b{word}\b", path.read_text())) for path in paths}
    return {name: count for name, count in counts.items() if count}


def task_names() -> list[str]:
    paths = [path for folder in ("roles", "playbooks", "molecule") for path in tracked(folder) if path.suffix == ".yml"]
    read = {path: yaml.load(path.read_text().replace("!unsafe", ""), yaml.CSafeLoader) for path in paths}
    return [name for path in paths for name in offenders(path.relative_to(ROOT).as_posix(), read[path])]


def touched(patch: str) -> list[str]:
    """The files that a patch changes."""
    return re.findall(r"^\+\+\+ b/(\S+)", patch, re.MULTILINE)


def fits(patch: Path) -> bool:
    """Whether it can be applied to the tree as it is."""
    return subprocess.run(["git", "apply", "--check", patch], cwd=ROOT, capture_output=True).returncode == 0


def files_of_engine(name: str) -> tuple[list[str], list[str]]:
    """The files of an engine's two rooms, and code elsewhere that says its name."""
    rooms = [*tracked(f"plugins/plugin_utils/engines/{name}"), *tracked(f"roles/{name}")]
    code = [path for folder in CODE for path in tracked(folder) if path.suffix in (".py", ".yml") and path not in rooms]
    elsewhere = [path for path in code if "/messages/" not in str(path) and name in path.read_text()]
    return [str(path.relative_to(ROOT)) for path in rooms], [str(path.relative_to(ROOT)) for path in elsewhere]


def main() -> None:
    """Print the figures."""
    print("lines:", ", ".join(f"{folder} {lines_of(tracked(folder))}" for folder in FOLDERS))
    untyped = words((path for path in tracked("plugins") if path.suffix == ".py"), "Any")
    most = sorted(untyped.items(), key=lambda each: -each[1])[:10]
    print(f"Any: {sum(untyped.values())} words in {len(untyped)} files of plugins (below 300 is asked for)")
    print("  most: " + ", ".join(f"{name.removeprefix('plugins/')} {count}" for name, count in most))
    print(f"task names that break the rule: {len(task_names())} (0)")
    found = list(naming(ROOT))
    print(f"files that name vLLM outside of its rooms: {len(found)}")
    for why, allowed in ALLOWED.items():
        print(f"  {sum(bool(re.fullmatch(allowed, name)) for name in found):3} {why}")
    print("files that an example task touches, without the changelog fragment:")
    for name, limit in MOST.items():
        patch = PATCHES / f"{name}.patch"
        files = touched(patch.read_text())
        printed = [file for file in files if file in PAGES]
        more = f", and {len(printed)} pages are printed" if printed else ""
        said = (
            f"{len(files) - len(printed)} (at most {limit}){more}"
            if fits(patch)
            else "the example does not fit any more"
        )
        print(f"  {name}: {said}")
    for folder in sorted(path.name for path in (ROOT / "plugins/plugin_utils/engines").iterdir() if path.is_dir()):
        if folder not in ("vllm", "__pycache__"):
            rooms, elsewhere = files_of_engine(folder)
            print(f"  {folder}: {len(rooms)} in its rooms (at most {MOST_OF_ENGINE}), {len(elsewhere)} elsewhere")
            print("    " + ", ".join(elsewhere))


if __name__ == "__main__":
    main()
