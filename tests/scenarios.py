"""The molecule scenarios, as molecule/scenarios.yml names them: the table of molecule/README.md, and which of them a change concerns.

python -m tests.scenarios     writes the table
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "molecule" / "scenarios.yml"
PAGE = ROOT / "molecule" / "README.md"
TIERS = ("gate", "full")
HEAD = "| Scenario | Tier | Begins | What it covers |\n| --- | --- | --- | --- |\n"


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A folder of molecule/. Its hosts begin in a state of the lab; it guards paths of the checkout: files, folders, patterns of either."""

    name: str
    tier: str
    begins: str
    covers: str
    guards: tuple[str, ...]

    def is_concerned(self, changed: Iterable[str]) -> bool:
        """Whether one of these files is guarded, or is the scenario's own."""
        own = (*self.guards, f"molecule/{self.name}")
        return any(fnmatch(path, pattern) for path in changed for guard in own for pattern in (guard, f"{guard}/*"))


def load(path: Path = FILE) -> dict[str, Scenario]:
    """All scenarios, in the order of the file."""
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    shared = tuple(content["guarded_by_all"])
    return {
        name: Scenario(name, said["tier"], said["begins"], said["covers"].strip(), (*said["guards"], *shared))
        for name, said in content["scenarios"].items()
    }


def table(scenarios: Mapping[str, Scenario]) -> str:
    """The table of molecule/README.md."""
    rows = (f"| `{one.name}` | {one.tier} | {one.begins} | {one.covers} |\n" for one in scenarios.values())
    return HEAD + "".join(rows)


def with_table(page: str, scenarios: Mapping[str, Scenario]) -> str:
    """The page with the table of today in the place of the one that it has."""
    before, _, rest = page.partition(HEAD)
    after = rest.split("\n\n", 1)[1]
    return f"{before}{table(scenarios)}\n{after}"


def changed_files(since: str, root: Path = ROOT) -> list[str] | None:
    """The files that differ from this commit, new ones included; None if the checkout does not know the commit."""

    def git(*command: str) -> list[str]:
        done = subprocess.run(("git", *command), cwd=root, capture_output=True, text=True, check=True)
        return [name for name in done.stdout.split("\0") if name]

    try:
        changed = git("diff", "--name-only", "-z", since, "--")
        return sorted({*changed, *git("ls-files", "--others", "--exclude-standard", "-z")})
    except (OSError, subprocess.CalledProcessError):
        return None


@dataclasses.dataclass(frozen=True)
class Pass:
    """When a stage has passed last, on which commit and what machine, and what it took."""

    commit: str
    date: str
    machine: str
    seconds: int


@dataclasses.dataclass
class Passes:
    """The last pass of each stage of the tier full, as tests/full_run.json holds them: a full run may be made in pieces, on several days."""

    path: Path
    stages: dict[str, Pass]

    @staticmethod
    def load(path: Path) -> Passes:
        found = json.loads(path.read_text()) if path.exists() else {}
        return Passes(path, {name: Pass(**one) for name, one in found.items()})

    def save(self) -> None:
        content = {name: dataclasses.asdict(one) for name, one in sorted(self.stages.items())}
        self.path.write_text(json.dumps(content, indent=2) + "\n")

    def sentence(self, names: Collection[str]) -> str:
        """What README.md says of these stages."""
        found = {name: self.stages[name] for name in names if name in self.stages}
        missing = sorted(set(names) - set(found))
        if missing:
            return f"The last full run: {len(found)} stages have passed, not yet {', '.join(missing)}."
        first = min(found.values(), key=lambda one: one.date)
        return f"The last full run: every stage has passed, the earliest on {first.date} (commit {first.commit[:12]}), on {first.machine}."


def main() -> None:
    PAGE.write_text(with_table(PAGE.read_text(), load()))


if __name__ == "__main__":
    main()
