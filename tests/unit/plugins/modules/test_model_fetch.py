"""A host fetches a model from a hub, and another one from that host; both run as Ansible runs them."""

from __future__ import annotations

import urllib.error
import urllib.request
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


def fetch(dest: Path, files: list[dict[str, Any]], share: str = "", **more: Any) -> dict[str, Any]:
    """Both questions that the controller's part asks."""
    said = {"model": MODEL, "dest": str(dest), "share": share, **more}
    found = answer_of("model_fetch", {**said, "files": files})
    missing = [file for file in files if file["path"] in found["missing"] and file["path"] not in found["taken"]]
    return {**found, **(answer_of("model_fetch", {**said, "files": missing, "phase": "fetch"}) if missing else {})}


def content(dest: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (dest / FOLDER).iterdir()}


def share(dest: Path, **more: Any) -> dict[str, Any]:
    return answer_of(
        "model_share", {"dest": str(dest), "folder": FOLDER, "addresses": ["192.0.2.1", "gpu01", "127.0.0.1"], **more}
    )


def end(url: str) -> None:
    answer_of("model_share", {"state": "absent", "url": url})


def test_the_others_get_it_from_that_host(tmp_path: Path, hub: Hub) -> None:
    fetch(tmp_path / "one", records(hub, MODEL))
    hub.asked.clear()
    offered = share(tmp_path / "one")
    try:
        answer = fetch(tmp_path / "two", records(hub, MODEL), offered["url"])
        assert (answer["wrong"], answer["from_hub"], hub.asked) == ([], [], [])
        # What no controller knows is known by the host that hands it on.
        given = [{**file, "urls": []} for file in offered["files"]]
        assert fetch(tmp_path / "three", given, offered["url"])["wrong"] == []
    finally:
        end(offered["url"])
    assert content(tmp_path / "two") == content(tmp_path / "three") == content(tmp_path / "one")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(offered["url"], timeout=5)


def test_nothing_else_is_handed_on(tmp_path: Path, hub: Hub) -> None:
    fetch(tmp_path / "one", records(hub, MODEL))
    (tmp_path / "one" / FOLDER / "config.json").write_text("changed since it came")
    (tmp_path / "one" / "secret").write_text("no model")
    offered = share(tmp_path / "one")
    base = offered["url"]
    try:
        assert f"{FOLDER}/config.json" not in [file["path"] for file in offered["files"]]
        root = base.rsplit("/", 2)[0]
        for url in (
            f"{base}secret",
            f"{base}../secret",
            f"{base}{FOLDER}/config.json",
            f"{root}/wrong/{FOLDER}/README.md",
        ):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url, timeout=5)
    finally:
        end(base)


def test_it_ends_by_itself(tmp_path: Path, hub: Hub) -> None:
    fetch(tmp_path / "one", records(hub, MODEL))
    url = share(tmp_path / "one", idle_seconds=0)["url"]
    for _attempt in range(100):
        try:
            urllib.request.urlopen(url, timeout=5)
        except urllib.error.HTTPError:
            continue
        except OSError:
            return
    pytest.fail("it still answers")


def test_where_nobody_can_listen_nothing_is_handed_on(tmp_path: Path, hub: Hub) -> None:
    fetch(tmp_path / "one", records(hub, MODEL))
    assert share(tmp_path / "one", addresses=["192.0.2.1"])["url"] == ""
    assert share(tmp_path / "none") == {**share(tmp_path / "none"), "url": "", "files": []}


def test_no_room_is_said_before_anything_is_fetched(tmp_path: Path, hub: Hub) -> None:
    files = [{**file, "size": 1 << 60} for file in records(hub, MODEL)[:1]]
    answer = answer_of("model_fetch", {"model": MODEL, "dest": str(tmp_path), "files": files})
    assert (answer["failed"], answer["code"], answer["values"]["variable"]) == (True, "no_room", "models_dir")
