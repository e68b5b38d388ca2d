"""Whatever writes texts for people gets the language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
SPEAKING = {
    f"baremetal.llm.{path.stem}"
    for path in (ROOT / "plugins/modules").glob("*.py")
    if "- baremetal.llm.language\n" in path.read_text(encoding="utf-8")
}


def calls(node: Any) -> Iterator[tuple[str, Any]]:
    """Modules and their arguments, in tasks and blocks of any depth."""
    if isinstance(node, list):
        for entry in node:
            yield from calls(entry)
    elif isinstance(node, dict):
        yield from ((name, node[name]) for name in SPEAKING & set(node))
        for entry in node.values():
            yield from calls(entry)


def test_roles_and_playbooks_say_in_which_language() -> None:
    found = [
        (path.relative_to(ROOT), name, (arguments or {}).get("language"))
        for folder in ("roles", "playbooks")
        for path in sorted((ROOT / folder).rglob("*.yml"))
        for name, arguments in calls(yaml.safe_load(path.read_text(encoding="utf-8")))
    ]
    assert {name for _path, name, _said in found} == SPEAKING
    assert [entry for entry in found if "llm_language" not in str(entry[2])] == []
