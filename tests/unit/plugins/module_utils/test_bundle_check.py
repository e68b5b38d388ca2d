"""A bundle against its manifest: every kind of damage is found and named, and nothing is read twice."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle as bundle
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle_check as bundle_check
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.faults import fault_names
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.messages import refused

NAMES = ["driver/x.run", "images/images.tar", "models/m/config.json", "models/m/w.safetensors"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    for name in NAMES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode().ljust(30) * 100)
    return folder


@pytest.fixture
def records(root: Path) -> list[bundle.Record]:
    return [bundle.make_record(str(root), name, "model", {}) for name in NAMES]


def check(root: Path, records: list[bundle.Record], seen: dict[str, Any] | None = None, **options: Any) -> Any:
    return fault_names(bundle_check.verify(str(root), records, {} if seen is None else seen, **options))


def test_a_good_bundle_has_no_fault_and_every_byte_is_counted(root: Path, records: list[bundle.Record]) -> None:
    counted: list[int] = []
    assert check(root, records, add=counted.append) == {}
    assert sum(counted) == sum(record["size"] for record in records) == 12000


def test_every_kind_of_damage_is_named_at_once(root: Path, records: list[bundle.Record]) -> None:
    (root / NAMES[0]).unlink()
    (root / NAMES[1]).write_bytes(b"half of it")
    (root / NAMES[2]).write_bytes(bytes(3000))
    (root / NAMES[3]).rename(root / "w")
    (root / NAMES[3]).symlink_to(root / "w")
    assert check(root, records) == {
        "missing": ["driver/x.run"],
        "size": ["images/images.tar (10 instead of 3000 bytes)"],
        "corrupt": ["models/m/config.json"],
        "link": ["models/m/w.safetensors"],
        "extra": ["w"],
    }


def test_swapped_files_are_told_from_corrupt_ones(root: Path, records: list[bundle.Record]) -> None:
    first, second = root / NAMES[2], root / NAMES[3]
    first.rename(root / "aside")
    second.rename(first)
    (root / "aside").rename(second)
    assert check(root, records) == {
        "swapped": [
            f"{NAMES[2]} (holds what belongs to {NAMES[3]})",
            f"{NAMES[3]} (holds what belongs to {NAMES[2]})",
        ]
    }


def test_a_folder_that_is_a_link_does_not_lead_out(root: Path, records: list[bundle.Record], tmp_path: Path) -> None:
    shutil.move(str(root / "models"), str(tmp_path / "elsewhere"))
    (root / "models").symlink_to(tmp_path / "elsewhere")
    assert check(root, records) == {"link": NAMES[2:]}


def test_the_folder_itself_may_be_a_link(root: Path, records: list[bundle.Record], tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(root)
    assert check(tmp_path / "current", records) == {}


def test_only_what_was_touched_is_read_again(
    root: Path, records: list[bundle.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    assert check(root, records, seen) == {}
    read: list[str] = []
    real = bundle_check.sha256_of
    monkeypatch.setattr(bundle_check, "sha256_of", lambda path, add: read.append(path) or real(path, add))
    assert check(root, records, seen) == {}
    assert read == []
    before = (root / NAMES[1]).stat()
    with (root / NAMES[1]).open("r+b") as stream:
        stream.write(b"!")
    os.utime(root / NAMES[1], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert check(root, records, seen) == {"corrupt": [NAMES[1]]}
    assert check(root, records, seen) == {"corrupt": [NAMES[1]]}  # a fault is never remembered as right
    assert read == [str(root / NAMES[1])] * 2


def test_a_copy_is_read_although_it_has_the_same_times(
    root: Path, records: list[bundle.Record], tmp_path: Path
) -> None:
    """What travelled may have been damaged on the way: checks of the place where it was made prove nothing."""
    seen: dict[str, Any] = {}
    assert check(root, records, seen) == {}
    shutil.copytree(root, tmp_path / "carried")
    damaged = tmp_path / "carried" / NAMES[3]
    status = damaged.stat()
    damaged.write_bytes(b"?" * status.st_size)
    os.utime(damaged, ns=(status.st_atime_ns, (root / NAMES[3]).stat().st_mtime_ns))
    assert check(tmp_path / "carried", records, seen) == {"corrupt": [NAMES[3]]}


def test_names_and_sizes_alone(root: Path, records: list[bundle.Record]) -> None:
    (root / NAMES[2]).write_bytes(bytes(3000))
    (root / NAMES[3]).write_bytes(b"")
    assert list(check(root, records, content=False)) == ["size"]


def test_what_the_making_keeps_for_itself_is_not_extra(root: Path, records: list[bundle.Record]) -> None:
    (root / bundle.STATE_DIR).mkdir()
    (root / bundle.STATE_DIR / "x.part").touch()
    (root / bundle.MANIFEST_NAME).touch()
    (root / "notes.txt").touch()
    assert check(root, records) == {"extra": ["notes.txt"]}


@examples(30)
@given(st.data())
def test_any_changed_byte_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    root = tmp_path_factory.mktemp("any")
    content = data.draw(st.binary(min_size=1, max_size=50))
    place = data.draw(st.integers(0, len(content) - 1))
    flip = data.draw(st.integers(1, 255))
    (root / "f").write_bytes(content)
    record = bundle.make_record(str(root), "f", "model", {})
    (root / "f").write_bytes(content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :])
    assert check(root, [record]) == {"corrupt": ["f"]}


def test_checks_of_several_bundles_live_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "checks.json"
    one, two = tmp_path / "one", tmp_path / "two"
    bundle_check.write_checks(str(path), str(one), {"a": {"sha256": "1", "mark": [1]}})
    bundle_check.write_checks(str(path), str(two), {"b": {"sha256": "2", "mark": [2]}})
    assert bundle_check.read_checks(str(path), str(one)) == {"a": {"sha256": "1", "mark": [1]}}
    path.write_text("{")
    assert bundle_check.read_checks(str(path), str(one)) == {}


def test_a_record_of_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    with refused(bundle.BundleError, "link"):
        bundle.make_record(str(tmp_path), "link", "model", {})


def test_a_record_is_made_without_reading_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"x")
    seen: dict[str, Any] = {}
    first = bundle.make_record(str(tmp_path), "f", "model", {}, seen)
    assert first["sha256"] == hashlib.sha256(b"x").hexdigest()
    monkeypatch.setattr(bundle, "sha256_of", lambda path: pytest.fail("it was read"))
    assert bundle.make_record(str(tmp_path), "f", "model", {}, seen) == first
