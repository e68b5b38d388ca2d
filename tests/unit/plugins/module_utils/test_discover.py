"""What is found of a host that no inventory describes yet."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.module_utils import _discover as discover

from tests.support.models import write_model


class Programs:
    """Prints what programs of a host print."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers

    def answer(self, name: str, *_arguments: str) -> str:
        return self.answers.get(name.replace("-", "_"), "")


def test_versions_of_what_is_installed() -> None:
    found = discover.versions(
        Programs(
            dockerd="Docker version 28.5.1, build f8215cc", nvidia_ctk="NVIDIA Container Toolkit CLI version 1.17.8"
        )
    )
    assert found == {"docker": "28.5.1", "toolkit": "1.17.8"}
    assert discover.versions(Programs()) == {"docker": "", "toolkit": ""}


def test_who_takes_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        began = time.monotonic()
        asked = [f"127.0.0.1:{port}", "127.0.0.1:1", "no-such-name.invalid", "bad:port"]
        assert discover.reached(asked, 1.0) == asked[:1]
        assert time.monotonic() - began < 5


def put(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def test_a_model_that_is_not_whole_is_no_copy_to_use(tmp_path: Path) -> None:
    """Neither a shard that is missing nor a part of a GGUF model that is."""
    for name in ("whole", "part"):
        write_model(tmp_path / name / "m", size=2 << 20)
    (tmp_path / "part/m/model-00002-of-00002.safetensors").unlink()
    put(tmp_path / "x-00001-of-00002.gguf", 100)
    found = {model["path"]: model["whole"] for model in discover.weights([str(tmp_path)])["models"]}
    assert found == {
        str(tmp_path / "whole/m"): True,
        str(tmp_path / "part/m"): False,
        str(tmp_path / "x-00001-of-00002.gguf"): False,
    }


def test_models_below_a_folder(tmp_path: Path) -> None:
    big = 3 << 20
    cached = tmp_path / "hub/models--Qwen--Qwen3-8B/snapshots/abc"
    for folder in (cached, tmp_path / "Qwen/Qwen2___5-7B", tmp_path / "node_modules/x/y", tmp_path / ".hidden/m"):
        put(folder / "config.json", 10)
        put(folder / "model-00001-of-00002.safetensors", big)
        put(folder / "model-00002-of-00002.safetensors", big)
    put(tmp_path / "gguf/qwen-q4-00001-of-00002.gguf", big)
    put(tmp_path / "gguf/qwen-q4-00002-of-00002.gguf", big)
    put(tmp_path / "adapter/config.json", 10)
    put(tmp_path / "adapter/adapter.safetensors", 100)
    found = discover.weights([str(tmp_path)])
    assert found["complete"]
    assert [(model["name"], model["bytes"], model["format"]) for model in found["models"]] == [
        ("Qwen/Qwen2.5-7B", 2 * big, "safetensors"),
        ("qwen-q4-00001-of-00002", big, "gguf"),
        ("Qwen/Qwen3-8B", 2 * big, "safetensors"),
    ]


def test_a_search_ends_in_time(tmp_path: Path) -> None:
    put(tmp_path / "a/config.json", 10)
    found = discover.weights([str(tmp_path)], seconds=0.0)
    assert found == {"models": [], "complete": False}


def test_a_file_system_is_named_once(tmp_path: Path) -> None:
    (first,) = discover.disks([str(tmp_path), str(tmp_path / "nowhere"), str(tmp_path.parent)])
    assert first["path"] == str(tmp_path)
    assert 0 < first["available_bytes"] <= first["total_bytes"]
