"""What hosts lack of a bundle's images."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record, make_record
from ansible_collections.baremetal.llm.plugins.module_utils._image_layers import read_images
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import excerpt, files
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused
from hypothesis import given
from hypothesis import strategies as st

from tests.support import binaries as make

BASE, OLD, NEW, PANELS = (make.layer({name: name.encode() * 50000}) for name in ("base", "old", "new", "panels"))
IMAGES = {"vllm:1": [BASE, OLD], "vllm:2": [BASE, NEW], "grafana:1": [PANELS]}


def contents(*layers: bytes) -> list[str]:
    return ["sha256:" + hashlib.sha256(one).hexdigest() for one in layers]


def bundle(folder: Path, **archives: list[str]) -> list[Record]:
    records: list[Record] = []
    for name, references in archives.items():
        path = f"images/{name}.tar"
        (folder / "images").mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(make.saved({one: IMAGES[one] for one in references}))
        fields = {"images": [{"reference": one} for one in references]}
        records.append(make_record(str(folder), path, "image", fields))
    wheel = folder / "python/libtorrent.whl"
    wheel.parent.mkdir(exist_ok=True)
    wheel.write_text("wheel")
    records.append(make_record(str(folder), "python/libtorrent.whl", "python", {"fanout_python": "3.11"}))
    return records


def made(folder: Path, records: list[Record], *hosts: excerpt.Lacking) -> tuple[Path, list[Record]]:
    found = excerpt.make(str(folder), records, excerpt.parts(str(folder), records, hosts), lambda size: None)
    return Path(found), load_records(found)


def test_hosts_get_the_layers_that_not_all_of_them_have(tmp_path: Path) -> None:
    records = bundle(tmp_path, images=list(IMAGES))
    old = contents(BASE, OLD)
    both: list[excerpt.Lacking] = [
        {"references": ["vllm:2"], "layers": [old, contents(PANELS)]},
        {"references": ["vllm:2"], "layers": [old]},
    ]
    folder, (archive, wheel) = made(tmp_path, records, *both)
    assert archive["path"] == "images/images.tar"
    assert [one["reference"] for one in archive["images"]] == ["vllm:2"]
    assert archive["size"] == os.path.getsize(archive["local"]) < records[0]["size"] / 3
    assert archive["sha256"] == hashlib.sha256(Path(archive["local"]).read_bytes()).hexdigest()
    assert Path(wheel["local"]).read_text() == "wheel"
    assert folder.parent == tmp_path / ".state"
    # A bare host among them makes all layers travel, and still no other image.
    bare: excerpt.Lacking = {"references": ["vllm:2"], "layers": []}
    _folder, (more, _wheel) = made(tmp_path, records, *both, bare)
    (image,) = read_images(more["local"])
    assert len(image.layers) == 2


def test_the_same_hosts_get_the_same_bytes_so_that_a_transfer_goes_on(tmp_path: Path) -> None:
    records = bundle(tmp_path, images=list(IMAGES))
    host: excerpt.Lacking = {"references": ["grafana:1"], "layers": []}
    first, second = (made(tmp_path, records, host) for _each in range(2))
    assert first[1][0]["sha256"] == second[1][0]["sha256"]


def test_an_archive_without_wanted_images_stays_and_others_travel_as_they_are(tmp_path: Path) -> None:
    records = bundle(tmp_path, images=["vllm:1"], grafana=["grafana:1"])
    host: excerpt.Lacking = {"references": ["vllm:1"], "layers": []}
    found = excerpt.parts(str(tmp_path), records, [host])
    assert found == [records[0]]
    assert excerpt.size_on_disk(found) == 0
    _folder, (archive, _wheel) = made(tmp_path, records, host)
    assert archive["local"] == str(tmp_path / "images/images.tar")


@pytest.mark.parametrize("content", [b"", b"\x1f\x8bpacked", make.archive([BASE], reference="vllm:1", layout="oci")])
def test_what_cannot_be_taken_apart_travels_as_it_is(content: bytes, tmp_path: Path) -> None:
    records = bundle(tmp_path, images=["vllm:1", "grafana:1"])
    (tmp_path / "images/images.tar").write_bytes(content)
    assert excerpt.parts(str(tmp_path), records, [{"references": ["vllm:1"], "layers": []}]) == [records[0]]


def test_a_reference_that_the_archive_does_not_name_travels_with_all_of_it(tmp_path: Path) -> None:
    records = bundle(tmp_path, images=["vllm:1", "grafana:1"])
    records[0]["images"] = [{"reference": "registry.example/vllm:1"}, {"reference": "grafana:1"}]
    host: excerpt.Lacking = {"references": ["registry.example/vllm:1"], "layers": []}
    assert excerpt.parts(str(tmp_path), records, [host]) == [records[0]]


def test_what_a_killed_run_left_goes_after_a_day(tmp_path: Path) -> None:
    state = tmp_path / ".state"
    for name, age in (("excerpt-old", 2 * 86400), ("excerpt-new", 60), ("pieces", 2 * 86400)):
        (state / name).mkdir(parents=True)
        os.utime(state / name, (time.time() - age,) * 2)
    excerpt.sweep(str(tmp_path))
    assert sorted(one.name for one in state.iterdir()) == ["excerpt-new", "pieces"]


def test_only_what_was_written_is_removed(tmp_path: Path) -> None:
    records = bundle(tmp_path, images=list(IMAGES))
    folder, _records = made(tmp_path, records, {"references": ["vllm:1"], "layers": []})
    for other in ("", str(tmp_path), str(tmp_path / "images"), str(tmp_path / "excerpt-x"), "/"):
        excerpt.remove(str(tmp_path), other)
    assert folder.exists()
    assert (tmp_path / "images/images.tar").exists()
    excerpt.remove(str(tmp_path), str(folder))
    assert not folder.exists()


def test_without_room_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = bundle(tmp_path, images=list(IMAGES))
    found = excerpt.parts(str(tmp_path), records, [{"references": ["vllm:1"], "layers": []}])

    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(Refused):
        excerpt.make(str(tmp_path), records, found, lambda size: None)
    assert list((tmp_path / ".state").iterdir()) == []


LAYERS = st.lists(st.lists(st.sampled_from(["sha256:a", "sha256:b", "sha256:c"]), min_size=1, max_size=3), max_size=3)


@given(st.lists(LAYERS, min_size=1, max_size=4))
def test_what_is_left_out_can_be_opened_on_every_host(layers: list[list[list[str]]]) -> None:
    """A layer is left out only where each host has it upon the same layers."""
    hosts: list[excerpt.Lacking] = [{"references": [], "layers": one} for one in layers]
    for chain in excerpt.there_everywhere(hosts):
        for host in hosts:
            assert any(chain in excerpt.chains(one) for one in host["layers"])
