"""What the filters have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils import filters

FOLDER = Path(__file__).parents[3] / "plugins/filter"


def test_all_filters_are_read_before_tasks_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(filters.filter_loader, "get", asked.append)
    monkeypatch.setattr(filters.lookup_loader, "get", asked.append)
    filters.preload()
    last = max(path.stem for path in FOLDER.glob("*.py"))
    assert asked == [f"baremetal.llm.{last}", "baremetal.llm.bundle_files"]
