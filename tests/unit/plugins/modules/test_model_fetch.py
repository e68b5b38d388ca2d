"""A host fetches a model from a hub, as Ansible runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.hub import Hub, records
from tests.support.models import write_model
from tests.support.modules import answer_of
from tests.support.servers import running

pytestmark = pytest.mark.slow
MODEL, FOLDER = "lab/tiny", "lab--tiny"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    write_model(tmp_path / "hub" / MODEL, size=400_000)
    with running(Hub(str(tmp_path / "hub"))) as found:
        yield found


def fetch(dest: Path, files: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Both questions that the controller's part asks."""
    said = {"bundle": str(dest), "model": MODEL, "dest": str(dest), **more}
    found = answer_of("model_fetch", {**said, "files": files})
    missing = [file for file in files if file["path"] in found["missing"] and file["path"] not in found["taken"]]
    return {**found, **(answer_of("model_fetch", {**said, "files": missing, "phase": "fetch"}) if missing else {})}


def content(dest: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (dest / FOLDER).iterdir()}


def test_a_model_comes_from_the_hub(tmp_path: Path, hub: Hub) -> None:
    assert fetch(tmp_path, records(hub, MODEL))["wrong"] == []
    assert content(tmp_path) == {name: path.read_bytes() for name, path in hub.files(MODEL).items()}


def test_no_room_is_said_before_anything_is_fetched(tmp_path: Path, hub: Hub) -> None:
    files = [{**file, "size": 1 << 60} for file in records(hub, MODEL)[:1]]
    said = {"bundle": str(tmp_path), "model": MODEL, "dest": str(tmp_path)}
    answer = answer_of("model_fetch", {**said, "files": files})
    assert (answer["failed"], answer["code"], answer["values"]["variable"]) == (True, "no_room", "models_dir")
