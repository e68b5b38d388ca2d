"""What the files of roles say, read as YAML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).resolve().parents[2] / "roles"


def tasks_of(path: Path) -> Iterator[dict[str, Any]]:
    """The tasks or handlers of a file, those of blocks included."""
    yield from _tasks(yaml.safe_load(path.read_text(encoding="utf-8")))


def _tasks(entries: list[dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    for entry in entries or []:
        yield entry
        for part in ("block", "rescue", "always"):
            yield from _tasks(entry.get(part))


def defaults(role: str) -> dict[str, Any]:
    """The defaults of a role, templates as they are written."""
    found: dict[str, Any] = yaml.safe_load((ROLES / role / "defaults/main.yml").read_text(encoding="utf-8"))
    return found
