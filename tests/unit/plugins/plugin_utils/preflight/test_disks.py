"""What a bundle needs on a host's disks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.disks import disk_needs

RECORDS: list[dict[str, Any]] = [
    {"path": "images/images.tar", "kind": "image", "size": 1000, "images": [{"id": "sha256:aa"}, {"id": "sha256:bb"}]},
    {"path": "models/a/w.safetensors", "kind": "model", "size": 50, "model": "org/a"},
    {"path": "models/b/w.safetensors", "kind": "model", "size": 70, "model": "org/b"},
    {"path": "docker/docker.tgz", "kind": "docker", "size": 5},
    {"path": "docker/empty", "kind": "docker", "size": 0},
    {"path": "python/x.whl", "kind": "python", "size": 5},
]


def test_needs_of_a_deployment() -> None:
    needs = disk_needs(RECORDS, models=["org/a"], host_dir="/srv/llm")
    assert [(need["directory"], need["name"], need["bytes"]) for need in needs] == [
        ("{docker_root}", "", 2000),
        ("/srv/llm", "images.tar", 1000),
        ("/srv/llm", "w.safetensors", 50),
        ("/srv/llm", "docker.tgz", 5),
    ]
    assert [len(need["marks"]) for need in needs] == [2, 2, 0, 0]
    assert "{docker_root}/image/overlay2/imagedb/content/sha256/aa" in needs[0]["marks"][0]


def test_a_compressed_archive_grows() -> None:
    assert disk_needs([{"path": "images/a.tar.gz", "kind": "image", "size": 10, "images": []}])[0]["bytes"] == 40


@pytest.mark.parametrize("images", [None, [], [{}], [{"id": "sha256:aa"}, {"id": ""}]])
def test_images_that_cannot_be_recognised_are_always_needed(images: Any) -> None:
    needs = disk_needs([{"path": "images/a.tar", "kind": "image", "size": 10, "images": images}])
    assert [need["marks"] for need in needs] == [[], []]


def test_without_a_model_no_model_comes() -> None:
    assert disk_needs([RECORDS[1]]) == []


def test_a_host_without_an_engine_leaves_out_what_is_for_one() -> None:
    records = [
        {"path": f"{kind}/a", "kind": kind, "size": 10}
        for kind in ("docker", "image", "nvidia_container_toolkit", "driver", "os_packages")
    ]
    assert {need["name"] for need in disk_needs(records, engine=False)} == {"a"}
    assert len(disk_needs(records, engine=False)) == 2
    assert len(disk_needs(records)) == 6


def test_an_environment_needs_its_wheels_and_room_for_itself() -> None:
    wheels = [{"path": f"python/venvs/{name}/x.whl", "kind": "python", "size": 7, "environment": name} for name in "ab"]
    needs = disk_needs(
        [*RECORDS[5:], *wheels], host_dir="/srv/llm", environment={"name": "b", "bytes": 20, "mark": "/srv/llm/m"}
    )
    assert needs == [
        {"directory": "/srv/llm", "name": "x.whl", "bytes": 7, "marks": []},
        {"directory": "/srv/llm", "name": "", "bytes": 20, "marks": [["/srv/llm/m"]]},
    ]
