"""What a bundle needs on a host's disks, and what is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.module_utils._disks import disk_needs, measure_disks

MANIFEST: dict[str, Any] = {
    "schema": 1,
    "files": [
        {
            "path": "images/images.tar",
            "kind": "image",
            "size": 1000,
            "images": [{"id": "sha256:aa"}, {"id": "sha256:bb"}],
        },
        {"path": "models/a/w.safetensors", "kind": "model", "size": 50, "model": "org/a"},
        {"path": "models/b/w.safetensors", "kind": "model", "size": 70, "model": "org/b"},
        {"path": "docker/docker.tgz", "kind": "docker", "size": 5},
        {"path": "python/x.whl", "kind": "python", "size": 5},
    ],
}


def test_needs_of_a_deployment() -> None:
    needs = disk_needs(MANIFEST, model="org/a", host_dir="/srv/llm", docker_root="/data/docker/")
    assert [(need["directory"], need["name"], need["bytes"]) for need in needs] == [
        ("/data/docker/", "", 2000),
        ("/srv/llm", "images.tar", 1000),
        ("/srv/llm", "w.safetensors", 50),
        ("/srv/llm", "docker.tgz", 5),
    ]
    assert "/data/docker/image/overlay2/imagedb/content/sha256/aa" in needs[0]["marks"][0]


def test_a_compressed_archive_grows() -> None:
    manifest = {"files": [{"path": "images/a.tar.gz", "kind": "image", "size": 10, "images": []}]}
    assert disk_needs(manifest)[0]["bytes"] == 40


@pytest.mark.parametrize("manifest", [None, {}, {"files": None}, {"files": ["x", {"kind": "image", "path": "a"}]}, []])
def test_a_manifest_without_sizes_needs_nothing(manifest: Any) -> None:
    assert disk_needs(manifest) == []


def test_what_is_there_is_not_needed_again(tmp_path: Path) -> None:
    needs = disk_needs(MANIFEST, "org/a", str(tmp_path / "llm"), str(tmp_path / "docker"))
    (disk,) = measure_disks(needs)
    assert disk["needed_bytes"] == 2000 + 1055
    assert disk["needs"] == {str(tmp_path / "docker"): 2000, str(tmp_path / "llm"): 1055}
    assert 0 < disk["available_bytes"] <= disk["total_bytes"]
    assert tmp_path.is_relative_to(disk["mount"])

    model = tmp_path / "llm/models/org--a/w.safetensors"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"x" * 49)  # half copied
    assert measure_disks(needs)[0]["needed_bytes"] == 2000 + 1055
    model.write_bytes(b"x" * 50)
    assert measure_disks(needs)[0]["needed_bytes"] == 2000 + 1005

    content = tmp_path / "docker/image/overlay2/imagedb/content/sha256"
    content.mkdir(parents=True)
    (content / "aa").touch()
    assert measure_disks(needs)[0]["needed_bytes"] == 2000 + 1005, "one of two images is not enough"
    (content / "bb").touch()
    assert measure_disks(needs)[0]["needed_bytes"] == 5, "neither loaded images nor their archive"


def test_nothing_needed() -> None:
    assert measure_disks([]) == []


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 B"), (2048, "2.0 KiB"), (3 << 30, "3.0 GiB"), (5 << 50, "5120.0 TiB")]
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert human_bytes(size) == text
