"""A host fetches a model from a hub, and another one from that host."""

from __future__ import annotations

import contextlib
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _model_files as model_files
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING, incoming_name, look
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._download import PART, direct_opener, make_opener
from ansible_collections.baremetal.llm.plugins.module_utils._share import DYNAMIC, Share, listening, ports

from tests.support.hub import Hub, records
from tests.support.models import write_model
from tests.support.servers import running

MODEL, FOLDER = "lab/tiny", "lab--tiny"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    write_model(tmp_path / "hub" / MODEL, size=400_000)
    with running(Hub(str(tmp_path / "hub"))) as found:
        yield found


def fetch(dest: Path, files: list[dict[str, Any]], share: str = "", attempts: int = 5) -> dict[str, Any]:
    """What the module does in its two phases."""
    dest.mkdir(exist_ok=True)
    found = look(str(dest), files, False, False, "models_dir")
    missing = [file for file in files if file["path"] in found["missing"] and file["path"] not in found["taken"]]
    from_hub, wrong = model_files.fetch(str(dest), missing, share, {}, make_opener(), direct_opener(), attempts)
    return {**found, "from_hub": from_hub, "wrong": wrong}


def content(dest: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (dest / FOLDER).iterdir()}


@contextlib.contextmanager
def shared(dest: Path) -> Iterator[Share]:
    """The server of a host, in a thread of this process."""
    names = [path.relative_to(dest) for path in (dest / FOLDER).iterdir()]
    with running(Share("127.0.0.1", "token", {str(name): str(dest / name) for name in names})) as found:
        yield found


def test_a_model_comes_from_the_hub_and_then_is_there(tmp_path: Path, hub: Hub) -> None:
    answer = fetch(tmp_path / "one", records(hub, MODEL))
    assert (answer["wrong"], sorted(answer["from_hub"])) == ([], [file["path"] for file in records(hub, MODEL)])
    assert content(tmp_path / "one") == {name: path.read_bytes() for name, path in hub.files(MODEL).items()}
    assert os.listdir(tmp_path / "one" / INCOMING) == []
    asked = len(hub.asked)
    assert fetch(tmp_path / "one", records(hub, MODEL))["missing"] == []
    assert len(hub.asked) == asked


def test_the_others_get_it_from_that_host(tmp_path: Path, hub: Hub) -> None:
    fetch(tmp_path / "one", records(hub, MODEL))
    hub.asked.clear()
    with shared(tmp_path / "one") as offered:
        answer = fetch(tmp_path / "two", records(hub, MODEL), offered.url)
    assert (answer["wrong"], answer["from_hub"], hub.asked) == ([], [], [])
    assert content(tmp_path / "two") == content(tmp_path / "one")


def test_who_listens_does_so_where_a_firewall_of_this_collection_lets_others_in(tmp_path: Path) -> None:
    said = tmp_path / "range"
    said.write_text("32768\t60999\n")
    assert ports(str(said))[:2] == [32767, 32766]
    assert ports(str(said))[-1] == 0
    assert ports(str(tmp_path / "none")) == [0]
    first = int(Path(DYNAMIC).read_text().split()[0])
    with listening("127.0.0.1", "token", {}) as one, listening("127.0.0.1", "token", {}) as other:
        assert other.server_port < one.server_port < first


def test_a_host_that_is_not_reached_costs_no_time_for_each_file(tmp_path: Path, hub: Hub) -> None:
    asked: list[Any] = []
    with listening("127.0.0.1", "token", {}) as closed:
        url = closed.url
    refused = mock.Mock(open=lambda *arguments, **more: asked.append(arguments))
    files = records(hub, MODEL)
    _from_hub, wrong = model_files.fetch(str(tmp_path / "one"), files, url, {}, make_opener(), refused)
    assert (wrong, asked) == ([], [])
    assert content(tmp_path / "one") == {name: path.read_bytes() for name, path in hub.files(MODEL).items()}


def test_nothing_else_is_handed_on(tmp_path: Path, hub: Hub) -> None:
    fetch(tmp_path / "one", records(hub, MODEL))
    (tmp_path / "one" / "secret").write_text("no model")
    with shared(tmp_path / "one") as offered:
        root = offered.url.rsplit("/", 2)[0]
        for url in (f"{offered.url}secret", f"{offered.url}../secret", f"{root}/wrong/{FOLDER}/README.md", f"{root}/"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url, timeout=5)


def test_a_copy_between_hosts_goes_on_too(tmp_path: Path, hub: Hub) -> None:
    fetch(tmp_path / "one", records(hub, MODEL))
    weights = next(file for file in records(hub, MODEL) if file["path"].endswith("00001-of-00002.safetensors"))
    incoming = tmp_path / "two" / INCOMING
    incoming.mkdir(parents=True)
    there = (tmp_path / "one" / weights["path"]).read_bytes()[:1000]
    (incoming / (incoming_name(weights) + PART)).write_bytes(there)
    with shared(tmp_path / "one") as offered:
        request = urllib.request.Request(offered.url + weights["path"], headers={"Range": "bytes=1000-"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert (answer.status, int(answer.headers["Content-Length"])) == (206, weights["size"] - 1000)
        assert fetch(tmp_path / "two", [weights], offered.url)["from_hub"] == []


def test_without_the_host_the_hub_is_asked(tmp_path: Path, hub: Hub) -> None:
    answer = fetch(tmp_path / "two", records(hub, MODEL), "http://127.0.0.1:9/token/")
    assert (answer["wrong"], len(answer["from_hub"])) == ([], len(records(hub, MODEL)))


def test_what_another_host_has_damaged_comes_from_the_hub(tmp_path: Path, hub: Hub) -> None:
    fetch(tmp_path / "one", records(hub, MODEL))
    weights = tmp_path / "one" / FOLDER / "model-00001-of-00002.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))
    with shared(tmp_path / "one") as offered:
        answer = fetch(tmp_path / "two", records(hub, MODEL), offered.url)
    assert answer["from_hub"] == [f"{FOLDER}/model-00001-of-00002.safetensors"]
    assert content(tmp_path / "two") == {name: path.read_bytes() for name, path in hub.files(MODEL).items()}


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
