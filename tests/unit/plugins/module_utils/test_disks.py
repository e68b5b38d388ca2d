"""What is free on a host's disks, and what of a bundle is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.module_utils._disks import measure_disks

CONTENT = "{docker_root}/image/overlay2/imagedb/content/sha256"


def test_what_is_there_is_not_needed_again(tmp_path: Path) -> None:
    host_dir, docker_root = str(tmp_path / "llm"), str(tmp_path / "docker")
    marks = [[f"{CONTENT}/{digest}", f"/nowhere/{digest}"] for digest in ("aa", "bb")]
    needs: list[dict[str, Any]] = [
        {"directory": "{docker_root}", "name": "", "bytes": 2000, "marks": marks},
        {"directory": host_dir, "name": "images.tar", "bytes": 1000, "marks": marks},
        {"directory": host_dir, "name": "w.safetensors", "bytes": 50, "marks": []},
        {"directory": host_dir, "name": "docker.tgz", "bytes": 5, "marks": []},
    ]
    (disk,) = measure_disks(needs, docker_root)
    assert disk["needed_bytes"] == 2000 + 1055
    assert disk["needs"] == {docker_root: 2000, host_dir: 1055}
    assert 0 < disk["available_bytes"] <= disk["total_bytes"]
    assert tmp_path.is_relative_to(disk["mount"])

    model = tmp_path / "llm/models/org--a/w.safetensors"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"x" * 49)  # half copied
    assert measure_disks(needs, docker_root)[0]["needed_bytes"] == 2000 + 1055
    model.write_bytes(b"x" * 50)
    assert measure_disks(needs, docker_root)[0]["needed_bytes"] == 2000 + 1005

    content = tmp_path / "docker/image/overlay2/imagedb/content/sha256"
    content.mkdir(parents=True)
    (content / "aa").touch()
    assert measure_disks(needs, docker_root)[0]["needed_bytes"] == 2000 + 1005, "one of two images is not enough"
    (content / "bb").touch()
    assert measure_disks(needs, docker_root)[0]["needed_bytes"] == 5, "neither loaded images nor their archive"
    assert measure_disks(needs, f"{docker_root}/")[0]["needs"] == {docker_root: 0, host_dir: 5}


def test_what_an_interrupted_transfer_left_is_room_for_the_rest(tmp_path: Path) -> None:
    host_dir, docker_root = tmp_path / "llm", str(tmp_path / "docker")
    needs: list[dict[str, Any]] = [
        {"directory": str(host_dir), "name": "a.safetensors", "bytes": 1000, "marks": []},
        {"directory": "{docker_root}", "name": "", "bytes": 2000, "marks": []},
    ]
    incoming = host_dir / "models" / ".incoming"
    incoming.mkdir(parents=True)
    (incoming / "half").write_bytes(b"x" * 400)
    (disk,) = measure_disks(needs, docker_root)
    assert disk["needs"] == {str(host_dir): 600, docker_root: 2000}
    assert disk["needed_bytes"] == 2600
    (incoming / "old").write_bytes(b"x" * 5000)
    (disk,) = measure_disks(needs, docker_root)
    assert disk["needs"] == {str(host_dir): 0, docker_root: 2000}, "nothing else may count on it"


def test_nothing_needed() -> None:
    assert measure_disks([], "/var/lib/docker") == []


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 B"), (2048, "2.0 KiB"), (3 << 30, "3.0 GiB"), (5 << 50, "5120.0 TiB")]
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert human_bytes(size) == text
