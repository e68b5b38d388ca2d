"""What a user installs: README.md, `make env` and the controller kit name the same packages."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements"


def packages(text: str) -> set[str]:
    """Names of packages without their versions."""
    lines = [line for line in text.splitlines() if re.match(r"\w", line)]
    return {re.split(r"[=<>\[]", line)[0].lower() for line in lines}


def test_the_readme_installs_what_the_environment_of_users_holds() -> None:
    [line] = re.findall(r"^pip install (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert packages("\n".join(line.replace('"', "").split())) == packages((REQUIREMENTS / "user.txt").read_text()) - {
        "pip"
    }


def test_contributors_have_what_users_have_and_all_of_it_is_pinned() -> None:
    lines = (REQUIREMENTS / "core-2.19.txt").read_text().splitlines()
    assert "--requirement user.txt" in lines
    locked = (REQUIREMENTS / "core-2.19.lock").read_text().lower().replace("_", "-").splitlines()
    wanted = [line for line in (REQUIREMENTS / "user.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in wanted if line not in locked] == []


def test_make_shows_users_their_targets_first() -> None:
    said = subprocess.run(["make", "-s", "-C", ROOT, "help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    first, second = said.split("To use it\n", 1)[1].split("To change it\n", 1)
    assert re.findall(r"^  make (\S+)", first, re.MULTILINE) == ["env", "demo", "demo-down", "build", "controller-kit"]
    assert {"test", "lint", "unit", "lock", "clean"} <= set(re.findall(r"^  make (\S+)", second, re.MULTILINE))
