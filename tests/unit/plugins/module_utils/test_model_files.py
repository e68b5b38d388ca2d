"""A host fetches a model from a hub."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _model_files as model_files
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING, incoming_name, look
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._download import PART, make_opener

from tests.support.hub import Hub, records
from tests.support.models import write_model
from tests.support.servers import running

MODEL, FOLDER = "lab/tiny", "lab--tiny"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    write_model(tmp_path / "hub" / MODEL, size=400_000)
    with running(Hub(str(tmp_path / "hub"))) as found:
        yield found


def fetch(dest: Path, files: list[dict[str, Any]], attempts: int = 5) -> dict[str, Any]:
    """What the module does in its two phases."""
    dest.mkdir(exist_ok=True)
    found = look(str(dest), files, False, False, "models_dir")
    missing = [file for file in files if file["path"] in found["missing"] and file["path"] not in found["taken"]]
    return {**found, "wrong": model_files.fetch(str(dest), missing, {}, make_opener(), attempts)}


def content(dest: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (dest / FOLDER).iterdir()}


def test_a_model_comes_from_the_hub_and_then_is_there(tmp_path: Path, hub: Hub) -> None:
    answer = fetch(tmp_path / "one", records(hub, MODEL))
    assert answer["wrong"] == []
    assert content(tmp_path / "one") == {name: path.read_bytes() for name, path in hub.files(MODEL).items()}
    assert os.listdir(tmp_path / "one" / INCOMING) == []
    asked = len(hub.asked)
    assert fetch(tmp_path / "one", records(hub, MODEL))["missing"] == []
    assert len(hub.asked) == asked


def test_a_killed_download_goes_on(tmp_path: Path, hub: Hub) -> None:
    weights = [file for file in records(hub, MODEL) if file["path"].endswith("00001-of-00002.safetensors")]
    hub.cut_after = 200_000
    assert fetch(tmp_path, weights, attempts=1)["wrong"][0]["code"] == "fetch_failed"
    [part] = [path for path in (tmp_path / INCOMING).iterdir() if path.name.endswith(PART)]
    there = part.stat().st_size
    assert 0 < there < weights[0]["size"]
    hub.cut_after = None
    hub.asked.clear()
    assert fetch(tmp_path, weights)["wrong"] == []
    assert [asked[2] for asked in hub.asked] == [f"bytes={there}-"]


def test_all_that_is_wrong_is_said(tmp_path: Path, hub: Hub) -> None:
    files = [{**file, "urls": [f"{hub.url}/{MODEL}/resolve/main/none"]} for file in records(hub, MODEL)]
    answer = fetch(tmp_path, files)
    assert [wrong["code"] for wrong in answer["wrong"]] == ["fetch_failed"] * len(files)
    assert not (tmp_path / FOLDER).exists()


def test_room_is_counted_without_what_came_already(tmp_path: Path, hub: Hub) -> None:
    files = [{**file, "size": 1 << 60} for file in records(hub, MODEL)[:1]]
    (tmp_path / INCOMING).mkdir()
    (tmp_path / INCOMING / (incoming_name(files[0]) + PART)).write_bytes(b"begun")
    with pytest.raises(CodedError) as raised:
        fetch(tmp_path, files)
    assert (raised.value.code, raised.value.values["variable"]) == ("no_room", "models_dir")
    assert (tmp_path / INCOMING / (incoming_name(files[0]) + PART)).exists()
