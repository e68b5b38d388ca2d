"""Shares whose server does not answer."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _discover as discover
from ansible_collections.baremetal.llm.plugins.module_utils import _shares as shares


def test_who_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    errors = {"/denied": errno.EACCES, "/hidden": errno.ENOENT, "/stale": errno.ESTALE, "/gone": errno.ENOTCONN}

    def statvfs(place: str) -> None:
        assert place != "/disk"
        if place == "/mnt/hangs":
            never.wait(30)
        if place in errors:
            raise OSError(errors[place], place)

    monkeypatch.setattr(shares.os, "statvfs", statvfs)
    types = {"/disk": "ext4", "/mnt/hangs": "nfs4", "/fine": "cifs", "/gone": "fuse.sshfs"}
    begun = time.monotonic()
    found = shares.silent({**types, **dict.fromkeys(("/denied", "/hidden", "/stale"), "nfs")}, seconds=0.2)
    assert found == ["/gone", "/mnt/hangs", "/stale"]
    assert time.monotonic() - begun < 10
    never.set()


def test_nobody_is_asked_for_disks() -> None:
    assert shares.silent({"/": "ext4", "/tmp": "tmpfs", "/net": "autofs"}, seconds=0.0) == []


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/mnt/x", True),
        ("/mnt/x/", True),
        ("/mnt/x/models/a", True),
        ("/mnt/a/../x/b", True),
        ("/mnt/xy", False),
        ("/mnt", False),
        ("/", False),
    ],
)
def test_what_is_on_a_share(path: str, below: bool) -> None:
    assert shares.is_below(path, ["/mnt/x"]) is below
    assert not shares.is_below(path, [])


def test_links_that_lead_to_a_share(tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to("data/models")
    (tmp_path / "data").symlink_to("/mnt/x")
    (tmp_path / "loop").symlink_to("loop")
    assert shares.apart([str(tmp_path / name) for name in ("data", "loop", "none")], ["/mnt/x"]) == [
        str(tmp_path / "loop"),
        str(tmp_path / "none"),
    ]
    assert shares.is_below(str(tmp_path / "models"), [str(tmp_path / "data/models")])


def test_discover_does_not_look_at_them(tmp_path: Path) -> None:
    for name in ("share", "disk"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.gguf").write_bytes(b"GGUF")
    silent = [str(tmp_path / "share")]
    found = discover.weights([str(tmp_path)], shares_silent=silent)
    assert [model["path"] for model in found["models"]] == [str(tmp_path / "disk/a.gguf")]
    assert not found["complete"]
    assert discover.weights(silent, shares_silent=silent)["models"] == []
    assert discover.disks(silent, silent) == []
