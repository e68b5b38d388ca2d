"""How long starts took whose cache was empty."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.start_history import first_start


def test_the_first_start_with_a_cache_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "reports/starts.json"
    assert first_start(path, "gpu1", "v1-7.0-0", 118.24) is None
    assert first_start(path, "gpu1", "v1-7.0-0", 62.0) == 118.2
    assert first_start(path, "gpu1", "v2-7.0-0", 90.0) is None, "another image compiles anew"
    assert first_start(path, "gpu2", "v1-7.0-0", 100.0) is None
    assert json.loads(path.read_text())["gpu1"] == {"v1-7.0-0": 118.2, "v2-7.0-0": 90.0}


def test_a_file_that_cannot_be_read_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "starts.json"
    path.write_text("{")
    assert first_start(path, "gpu1", "v1", 5.0) is None
    assert first_start(path, "gpu1", "v1", 4.0) == 5.0
