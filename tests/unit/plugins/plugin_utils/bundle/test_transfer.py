"""A bundle onto disks and off them again: split, spread, interrupted, damaged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle as bundle
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle_check as bundle_check
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import transfer
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused
from hypothesis import given
from hypothesis import strategies as st

FILES = {
    "images/images.tar": os.urandom(2500),
    "models/m/w.data": os.urandom(1000),
    "models/m/config.json": b"{}",
}
PARTS = [f"images/images.tar.part-{number:03d}" for number in range(3)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    records = [bundle.make_record(str(folder), name, "model", {}) for name in FILES]
    (folder / "manifest.yml").write_text(yaml.safe_dump({"schema": 1, "files": records}))
    return folder


@pytest.fixture
def records(home: Path) -> list[bundle.Record]:
    return bundle.check_manifest(yaml.safe_load((home / "manifest.yml").read_text()))


@pytest.fixture
def disk(home: Path, records: list[bundle.Record], tmp_path: Path) -> Path:
    send(home, records, tmp_path / "disk")
    return tmp_path / "disk"


def send(
    home: Path, records: list[bundle.Record], disk: Path, seen: dict[str, Any] | None = None, **options: Any
) -> list[str]:
    known = {} if seen is None else seen
    return transfer.export(str(home), records, str(disk), 1000, known, transfer.Reporter(lambda size: None), **options)


def receive(
    records: list[bundle.Record], site: Path, *disks: Path, seen: dict[str, Any] | None = None, **options: Any
) -> list[str]:
    known = {} if seen is None else seen
    return transfer.bring_in(
        [str(one) for one in disks], records, str(site), known, transfer.Reporter(lambda size: None), **options
    )


@given(st.integers(0, 10**6), st.integers(0, 10**5).filter(lambda limit: limit == 0 or limit > 100))
def test_parts_are_small_enough_and_make_up_the_whole(size: int, limit: int) -> None:
    sizes = transfer.part_sizes(size, limit)
    assert sum(sizes) == (size if sizes else 0)
    assert all(0 < one <= limit for one in sizes)
    assert bool(sizes) == bool(limit and size > limit)


def test_there_and_back(home: Path, records: list[bundle.Record], disk: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in (disk / "images").iterdir()) == [Path(name).name for name in PARTS]
    assert max(path.stat().st_size for path in disk.rglob("*.part-*")) == 1000
    site = tmp_path / "site"
    assert receive(records, site, disk) == list(FILES)
    assert {name: (site / name).read_bytes() for name in FILES} == FILES
    assert bundle_check.verify(str(site), records, {}) == {}


def test_people_without_ansible_can_put_it_together(disk: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=disk, check=True)
    subprocess.run("cat images.tar.part-* > images.tar", shell=True, cwd=disk / "images", check=True)
    assert (disk / "images/images.tar").read_bytes() == FILES["images/images.tar"]


def test_a_second_time_copies_nothing_either_way(home: Path, records: list[bundle.Record], tmp_path: Path) -> None:
    sent: dict[str, Any] = {}
    got: dict[str, Any] = {}
    assert len(send(home, records, tmp_path / "d", sent)) == 5 + 3
    assert send(home, records, tmp_path / "d", sent) == []
    receive(records, tmp_path / "s", tmp_path / "d", seen=got)
    assert receive(records, tmp_path / "s", tmp_path / "d", seen=got) == []
    (tmp_path / "d" / PARTS[1]).write_bytes(b"half")
    assert send(home, records, tmp_path / "d", sent) == [PARTS[1]]


START = """
import json, os, signal, sys
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import transfer
options, last = json.loads(sys.argv[1]), int(sys.argv[2])
transfer.MIB = transfer.NOTED_BYTES = 1
copied, copy = [], transfer._copy

def counted(pieces, target, add):
    if len(copied) == last:
        with open(target + ".new", "wb") as out:
            out.write(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    copied.append(os.path.basename(target))
    return copy(pieces, target, add)

transfer._copy = counted
said = lambda text: None
transfer.send(options, said, False) if options.get("export") else transfer.receive(options, said, said, False)
print(json.dumps(copied))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("way", "count"), [("export", 5), ("sources", 3)])
def test_a_killed_run_is_continued(home: Path, disk: Path, tmp_path: Path, way: str, count: int) -> None:
    if way == "export":
        options: dict[str, Any] = {"bundle": str(home), "export": str(tmp_path / "other"), "split_mib": 1000}
    else:
        options = {"bundle": str(tmp_path / "site"), "sources": [str(disk)]}
    options |= {"checks": str(tmp_path / "checks"), "language": "en"}

    def start(last: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", START, json.dumps(options), str(last)]
        path = os.pathsep.join(sys.path)
        return subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60
        )

    assert start(2).returncode == -9
    second = start(100)
    assert len(json.loads(second.stdout)) == count - 2, second.stderr
    assert json.loads(start(100).stdout) == []


def test_what_is_there_and_not_known_is_read_and_not_copied(
    home: Path, records: list[bundle.Record], disk: Path, tmp_path: Path
) -> None:
    receive(records, tmp_path / "site", disk)
    seen: dict[str, Any] = {}
    assert receive(records, tmp_path / "site", disk, seen=seen) == []
    assert set(seen) == set(FILES)
    (tmp_path / "site/models/m/w.data").write_bytes(bytes(1000))
    assert receive(records, tmp_path / "site", disk) == ["models/m/w.data"]
    assert send(home, records, disk) == PARTS, "what a part has to hold is known from its note alone"


def test_what_an_interrupted_copy_left_is_no_lack_of_room(
    home: Path, records: list[bundle.Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "disk" / (PARTS[0] + ".new")
    left.parent.mkdir(parents=True)
    left.write_bytes(bytes(900))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9000, 6300, 2700))
    send(home, records, tmp_path / "disk")
    assert not left.exists()


def test_check_mode_says_what_and_writes_nothing(
    home: Path, records: list[bundle.Record], tmp_path: Path, disk: Path
) -> None:
    assert len(send(home, records, tmp_path / "d", check=True)) == 5
    assert not (tmp_path / "d").exists()
    assert receive(records, tmp_path / "s", disk, check=True) == list(FILES)
    assert not (tmp_path / "s").exists()


def test_parts_may_be_on_several_disks(records: list[bundle.Record], disk: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    (second / "images").mkdir(parents=True)
    shutil.move(str(disk / PARTS[2]), str(second / PARTS[2]))
    with pytest.raises(Refused, match=PARTS[2]):
        receive(records, tmp_path / "site", disk)
    receive(records, tmp_path / "site", disk, second)
    assert (tmp_path / "site/images/images.tar").read_bytes() == FILES["images/images.tar"]


def test_all_that_is_missing_or_truncated_is_named_before_anything_is_copied(
    records: list[bundle.Record], disk: Path, tmp_path: Path
) -> None:
    (disk / PARTS[0]).unlink()
    (disk / "models/m/w.data").write_bytes(b"short")
    with pytest.raises(Refused) as caught:
        receive(records, tmp_path / "site", disk)
    assert PARTS[0] in str(caught.value)
    assert "models/m/w.data" in str(caught.value)
    assert PARTS[1] not in str(caught.value)
    assert not (tmp_path / "site").exists()


def test_a_damaged_part_is_named_and_the_rest_is_kept(records: list[bundle.Record], disk: Path, tmp_path: Path) -> None:
    (disk / PARTS[1]).write_bytes(bytes(1000))
    seen: dict[str, Any] = {}
    with pytest.raises(Refused) as caught:
        receive(records, tmp_path / "site", disk, seen=seen)
    assert [line.strip() for line in str(caught.value).splitlines() if line.startswith("  ")] == [PARTS[1]]
    assert not (tmp_path / "site/images/images.tar").exists()
    assert (tmp_path / "site/models/m/w.data").exists()
    (disk / PARTS[1]).write_bytes(FILES["images/images.tar"][1000:2000])
    assert receive(records, tmp_path / "site", disk, seen=seen) == ["images/images.tar"]


@pytest.mark.parametrize(
    "listed",
    [
        [],
        {"images/images.tar": [{"path": "../../etc/shadow", "size": 1, "sha256": "0" * 64}]},
        {"/etc/passwd": []},
        {"a": [{"path": "a.part-000", "size": 1, "sha256": "0"}]},
        {"a": [{"path": "a.part-000"}]},
        "x",
    ],
)
def test_a_list_of_parts_that_leads_out_is_refused(
    records: list[bundle.Record], disk: Path, tmp_path: Path, listed: Any
) -> None:
    (disk / "parts.json").write_text(json.dumps(listed))
    if listed == []:
        listed = None
    with pytest.raises(bundle.BundleError):
        receive(records, tmp_path / "site", disk)


def test_links_on_a_disk_are_not_followed(records: list[bundle.Record], disk: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(FILES["models/m/w.data"])
    (disk / "models/m/w.data").unlink()
    (disk / "models/m/w.data").symlink_to(secret)
    with pytest.raises(Refused, match=r"models/m/w\.data"):
        receive(records, tmp_path / "site", disk)


def test_a_damaged_bundle_is_not_sent(home: Path, records: list[bundle.Record], tmp_path: Path) -> None:
    (home / "models/m/w.data").write_bytes(bytes(1000))
    with pytest.raises(Refused, match="not what its manifest says"):
        send(home, records, tmp_path / "disk")
    assert not (tmp_path / "disk/models/m/w.data").exists()


def test_a_disk_that_is_too_small_is_told_first(
    home: Path, records: list[bundle.Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(Refused, match=r"10 B free, and 3\.4 KiB are needed"):
        send(home, records, tmp_path / "disk")


def test_an_action_exports_and_imports_and_remembers(home: Path, tmp_path: Path) -> None:
    said: list[str] = []
    common = {"checks": str(tmp_path / "c"), "language": "en"}
    options = {**common, "bundle": str(home), "export": str(tmp_path / "disk"), "split_mib": 0}
    assert len(transfer.send(options, said.append, check=False)["copied"]) == len(FILES) + 3
    assert transfer.send(options, said.append, check=False)["copied"] == []
    into = {**common, "bundle": str(tmp_path / "site"), "sources": [str(tmp_path / "disk")]}
    found = transfer.receive(into, said.append, said.append, check=False)
    assert found == {"copied": [*FILES, "manifest.yml"], "artefacts": []}
    assert transfer.receive(into, said.append, said.append, check=False)["copied"] == []


def test_a_disk_with_neither_a_bundle_nor_what_the_script_fetched(tmp_path: Path) -> None:
    into = {
        "bundle": str(tmp_path / "site"),
        "sources": [str(tmp_path)],
        "checks": str(tmp_path / "c"),
        "language": "en",
    }
    with pytest.raises(Refused, match=str(tmp_path)):
        transfer.receive(into, print, print, check=False)
