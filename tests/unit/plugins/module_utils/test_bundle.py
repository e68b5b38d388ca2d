"""The bundle's manifest: what is accepted, what is picked, what counts as unchanged."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle as bundle
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import reason
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import refused

DIGEST = "a" * 64


def record(**changes: Any) -> dict[str, Any]:
    return {"path": "driver/x.run", "kind": "driver", "size": 1, "sha256": DIGEST, "version": "570.1", **changes}


def test_a_good_manifest_is_returned_as_it_is() -> None:
    assert bundle.check_manifest({"schema": 1, "files": [record()]}) == [record()]


@pytest.mark.parametrize("manifest", [None, [], {}, {"schema": 2, "files": []}, {"schema": "1"}])
def test_an_unknown_schema_is_refused(manifest: Any) -> None:
    with refused(bundle.BundleError, r"schema .* is not known; allowed: 1"):
        bundle.check_manifest(manifest)


@pytest.mark.parametrize("path", ["", ".", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/..", "a/"])
def test_a_path_outside_the_bundle_is_refused(path: str) -> None:
    with refused(bundle.BundleError, "does not stay inside the bundle"):
        bundle.safe_path(path)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=6).map("/".join))
def test_an_accepted_path_never_leaves_the_bundle(path: str) -> None:
    try:
        accepted = bundle.safe_path(path)
    except bundle.BundleError:
        return
    assert os.path.normpath(os.path.join("/bundle", accepted)).startswith("/bundle/")


def test_all_problems_come_at_once() -> None:
    wrong = [
        record(kind="drivr"),
        record(path="/x"),
        record(size="1"),
        record(sha256="A" * 64),
        record(),
        record(),
        "x",
    ]
    with pytest.raises(bundle.BundleError) as caught:
        bundle.check_manifest({"schema": 1, "files": wrong})
    text = reason(caught.value)
    assert len(text.splitlines()) == 6
    assert "driver/x.run is listed twice" in text


def test_files_are_picked_by_kind_and_fields_as_text() -> None:
    records = [record(release=12), record(path="b", release="11"), record(path="c", kind="docker", release=12)]
    assert bundle.select(records, "driver", {"release": "12"}) == [records[0]]
    assert bundle.select(records, "driver") == records[:2]
    assert bundle.select(records, "model") == []


def test_a_file_is_read_again_only_when_it_may_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    wanted = record(path="file", size=10, sha256=hashlib.sha256(b"x" * 10).hexdigest())
    assert bundle.is_right(str(path), wanted, {})
    known = {"file": {"sha256": wanted["sha256"], "stamp": bundle.stamp(str(path))}}
    monkeypatch.setattr(bundle, "sha256_of", lambda path: pytest.fail("it was read"))
    assert bundle.is_right(str(path), wanted, known)
    assert not bundle.is_right(str(path), {**wanted, "size": 11}, known)
    assert not bundle.is_right(str(path), {**wanted, "sha256": DIGEST}, known)
    monkeypatch.undo()
    path.write_bytes(b"y" * 10)
    os.utime(path, ns=(1, 1))
    assert not bundle.is_right(str(path), wanted, known)


def test_a_link_is_never_taken_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert bundle.stamp(str(tmp_path / "link")) is None
    assert not bundle.is_right(str(tmp_path / "link"), record(size=1), {})


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1 << 20, "1.0 MiB"), (5 << 40, "5.0 TiB")])
def test_sizes_for_people(size: int, text: str) -> None:
    assert bundle.human_bytes(size) == text


def test_a_folder_is_walked_in_order_and_a_file_is_itself(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2").touch()
    (tmp_path / "a").touch()
    assert [below for _full, below in bundle.walk(str(tmp_path))] == ["a", "b/2"]
    assert [below for _full, below in bundle.walk(str(tmp_path / "a"))] == ["a"]
    assert bundle.walk(str(tmp_path / "absent")) == []
