"""What a bundle lacks is asked for, announced and brought; what it has stays."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._download import make_opener
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import models
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.fetch import fetch, write_lists
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.sources import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, reason

from tests.support.models import write_model


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    (tmp_path / "www").mkdir()
    (tmp_path / "www/x.run").write_bytes(b"driver")
    handler = functools.partial(Quiet, directory=str(tmp_path / "www"))
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


@pytest.fixture
def options(tmp_path: Path, server: str) -> dict[str, Any]:
    """What the action plugin is asked: a driver of the web, a file of this machine."""
    driver = {"path": "driver/x.run", "kind": "driver", "source": f"{server}/x.run", "fields": {"version": "570.1"}}
    local = {"path": "models/m", "kind": "model", "source": "file:///srv/m"}
    return {
        "bundle": str(tmp_path / "bundle"),
        "checks": str(tmp_path / "checks.json"),
        "items": [driver, local],
        "images": [],
        "hosts": 2,
        "network_gbit_per_second": 10.0,
        "registry_mirrors": {},
        "update": False,
        "lists": str(tmp_path / "lists"),
        "language": "en",
    }


def run(options: dict[str, Any], check: bool = False) -> tuple[dict[str, Any], str]:
    said: list[str] = []
    return fetch(options, Settings(make_opener()), {}, said.append, check), "\n".join(said)


def test_what_is_lacking_is_brought_once(options: dict[str, Any], server: str, tmp_path: Path) -> None:
    wanted = [f"driver/x.run (6 B) from {server}/x.run"]
    artefacts = [
        {"path": "models/m", "kind": "model", "source": "/srv/m"},
        {"path": "driver/x.run", "kind": "driver", "fields": {"version": "570.1"}},
    ]
    found, said = run(options, check=True)
    assert found == {"changed": True, "fetched": wanted, "artefacts": artefacts}
    assert "6 B in 1 files, 6 B of it to fetch" in said
    assert not (tmp_path / "bundle").exists()
    assert run(options)[0]["fetched"] == wanted
    assert (tmp_path / "bundle/driver/x.run").read_bytes() == b"driver"
    found, said = run(options)
    assert found == {"changed": False, "fetched": [], "artefacts": artefacts}
    assert "asking for" not in said
    assert "asking for" in run({**options, "update": True})[1]


def test_a_file_without_a_checksum_must_stay_as_it_came(options: dict[str, Any], tmp_path: Path) -> None:
    run(options)
    (tmp_path / "bundle/driver/x.run").write_bytes(b"DRIVER")
    assert run(options)[0]["changed"]
    assert (tmp_path / "bundle/driver/x.run").read_bytes() == b"driver"


def test_what_nobody_has_is_named(options: dict[str, Any], server: str, tmp_path: Path) -> None:
    run(options, check=False)
    (tmp_path / "www/x.run").unlink()
    (tmp_path / "bundle/driver/x.run").unlink()
    with pytest.raises(Refused, match=r"driver/x\.run"):
        run(options)


def test_everything_that_cannot_be_had_is_named_at_once(options: dict[str, Any], server: str, tmp_path: Path) -> None:
    lost = [
        {**options["items"][0], "source": f"{server}/{name}", "path": f"driver/{name}"} for name in ("a.run", "b.run")
    ]
    options["items"] = [lost[0], *options["items"], lost[1]]
    with pytest.raises(Refused) as refused:
        run(options)
    assert "2 of the sources" in str(refused.value)
    assert all(text in str(refused.value) for text in ("a.run", "b.run", "bundle_url_mirrors", "llm_registry_mirrors"))
    assert not (tmp_path / "bundle" / "driver").exists()


def test_a_mirror_that_does_not_answer_leaves_the_next_address(options: dict[str, Any], server: str) -> None:
    settings = Settings(make_opener(), url_mirrors={server: ["http://127.0.0.1:9"]})
    assert fetch(options, settings, {}, lambda text: None, False)["changed"]


def test_a_disk_without_room_is_refused_first(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 8, 1))
    with pytest.raises(Refused, match="1 B free, and 6 B are needed"):
        run(options)
    assert not (tmp_path / "bundle").exists()


def test_lists_are_written_once_and_say_what_is_not_in_them(options: dict[str, Any], tmp_path: Path) -> None:
    warnings: list[str] = []
    settings = Settings(make_opener())
    found = write_lists(options, settings, warnings.append, check=True)
    assert found["changed"]
    assert not (tmp_path / "lists").exists()
    assert write_lists(options, settings, warnings.append, check=False) == found
    assert not write_lists(options, settings, warnings.append, check=False)["changed"]
    plan = json.loads((tmp_path / "lists/plan.json").read_text())["plan"]
    assert [one["item"]["path"] for one in plan.values()] == ["driver/x.run"]
    assert ["models/m" in warning for warning in warnings] == [True] * 3


def local_model(options: dict[str, Any], folder: Path, **needs: bool) -> dict[str, Any]:
    item = {"path": "models/lab--tiny", "kind": "model", "source": str(folder), "fields": {"model": "lab/tiny"}}
    return {
        **options,
        "items": [*options["items"][:1], {**item, "needs": {"weights": True, "tokenizer": True, **needs}}],
    }


def test_of_a_model_in_a_folder_only_its_files_are_taken(options: dict[str, Any], tmp_path: Path) -> None:
    """A clone, with what an earlier download left: neither the clone's own folder nor weights in a second format travel."""
    folder = write_model(tmp_path / "clone")
    for name in (".git/config", ".cache/huggingface/x.incomplete", "pytorch_model.bin", "notes.part"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    found, _said = run(local_model(options, folder))
    taken = {
        one["path"].removeprefix("models/lab--tiny/"): one["source"]
        for one in found["artefacts"]
        if one["kind"] == "model"
    }
    weights = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    assert sorted(taken) == ["README.md", "config.json", *weights, "model.safetensors.index.json", "tokenizer.json"]
    assert taken["config.json"] == str(folder / "config.json")


def test_a_model_that_is_not_whole_stops_everything_before_a_byte_is_fetched(
    options: dict[str, Any], server: str, tmp_path: Path
) -> None:
    """As a clone without Git LFS has it, and with everything else that is wrong."""
    folder = write_model(tmp_path / "clone")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4000\n"
    for number in (1, 2):
        (folder / f"model-0000{number}-of-00002.safetensors").write_text(pointer)
    (folder / "tokenizer.json").unlink()
    asked = local_model(options, folder)
    asked["items"].append({"path": "driver/y.run", "kind": "driver", "source": f"{server}/y.run", "fields": {}})
    with pytest.raises(Refused) as refused:
        run(asked)
    said = str(refused.value)
    for part in ("model-00001-of-00002", "model-00002-of-00002", "Git LFS", "no tokenizer", "lab/tiny", "y.run"):
        assert part in said
    assert not (tmp_path / "bundle").exists()


def test_a_model_that_a_mirror_has_in_part_is_refused_when_it_has_come(options: dict[str, Any], tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    folder = write_model(bundle / "models/lab--tiny")
    page = folder / "model-00002-of-00002.safetensors"
    page.write_text("<!DOCTYPE html><html>502 Bad Gateway</html>")
    item = {"kind": "model", "path": "models/lab--tiny", "source": "huggingface:lab/tiny"}
    files = [{"path": f"models/lab--tiny/{path.name}"} for path in folder.iterdir()]
    plan = [{"item": item, "files": files}]
    [error] = models.fetched_problems(str(bundle), plan, lambda file: True)
    assert "web page" in reason(error)
    assert models.fetched_problems(str(bundle), plan, lambda file: "00002" not in file["path"]) == []
    records: Any = [{"kind": "model", "model": "lab/tiny", **file} for file in files]
    assert len(models.incomplete_models(str(bundle), records)) == 1
    # On the other disk of an import: what is not all there is looked at when it has arrived.
    assert (
        models.incomplete_models(str(bundle), [*records, {"kind": "model", "path": "models/lab--tiny/more.json"}]) == []
    )
