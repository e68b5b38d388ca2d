"""What the record of images keeps of those before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._evidence import write_record

from tests.support.modules import answer_of


def recorded(folder: Path, role: str) -> dict[str, Any]:
    """The record that the module writes, of paths that are there wherever it runs."""
    options = {
        "role": role,
        "records_dir": str(folder),
        "subjects": {"paths": ["/"]},
        "made_from": "d",
        "collection": "c",
    }
    assert answer_of("record", options).get("failed") is None
    found: dict[str, Any] = json.loads((folder / f"{role}.json").read_text())
    return found


def test_images_of_earlier_records_are_remembered_and_nothing_of_other_roles(tmp_path: Path) -> None:
    before = {"digest": "d", "collection": "c", "subjects": {}, "evidence": {"images": {"vllm:1": "sha256:a"}}}
    for role in ("images", "vllm"):
        write_record(str(tmp_path), role, before)
    assert recorded(tmp_path, "images")["earlier"] == {"sha256:a": "vllm:1"}
    assert recorded(tmp_path, "images")["earlier"] == {"sha256:a": "vllm:1"}, "the record after that knows, too"
    assert "earlier" not in recorded(tmp_path, "vllm")
