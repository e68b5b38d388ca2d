"""What the script of the lists has fetched becomes a bundle like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import compatibility, script
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused

from tests.support import binaries as make

OFFICIAL = "vllm/vllm-openai:v0.8.5.post1"  # what tests.support.binaries names the image of its archives


def fetched(tmp_path: Path, *architectures: str) -> tuple[list[str], dict[str, Any]]:
    """What the script of the lists leaves of an image that is built for these."""
    library = make.library(architectures, times=3)
    (tmp_path / "images").mkdir()
    (tmp_path / "images/image-001.tar").write_bytes(make.archive([make.layer(make.vllm_files(library, library))]))
    return [str(tmp_path)], {"plan": {}, "images": [{"reference": OFFICIAL, "vllm_version": "0.8.5.post1"}]}


def problems(found: list[dict[str, Any]], capability: str) -> str:
    hosts = {"gpu1": {"vllm_image": OFFICIAL, "llm_gpus": [{"compute_capability": capability}]}}
    images = [image for one in found for image in one["fields"]["images"]]
    return str(compatibility.check_images({"chat": {"hosts": ["gpu1"], "head": "gpu1"}}, hosts, images))


def test_images_of_a_script_are_looked_into_and_refused_like_any(tmp_path: Path) -> None:
    found = script.fetched_images(*fetched(tmp_path, "sm_75", "sm_80"))
    (image,) = found[0]["fields"]["images"]
    assert (found[0]["path"], found[0]["kind"]) == ("images/image-001.tar", "image")
    assert (image["reference"], image["compute_capabilities"]) == (OFFICIAL, ["7.5", "8.0"])
    assert "ray_version" not in image["contents"], "so Ray is added where a deployment runs with it"
    assert problems(found, "8.0") == "[]"
    refused = problems(found, "7.0")
    assert "no code for its GPUs of compute capability 7.0" in refused
    assert "up to 0.19.1" in refused, "what works is named"


def test_an_image_that_the_script_could_not_save_is_named(tmp_path: Path) -> None:
    folders, plan = fetched(tmp_path, "sm_70")
    plan["images"].append({"reference": "a/b:1"})
    with pytest.raises(Refused, match=r"a/b:1 are in no archive.*bundle_import"):
        script.fetched_images(folders, plan)


def test_an_archive_that_was_cut_off_is_named(tmp_path: Path) -> None:
    folders, plan = fetched(tmp_path, "sm_70")
    archive = tmp_path / "images/image-001.tar"
    archive.write_bytes(archive.read_bytes()[:-20000])
    with pytest.raises(Refused, match=r"image-001\.tar cannot be read"):
        script.fetched_images(folders, plan)


def test_what_the_script_left_is_adopted(tmp_path: Path) -> None:
    disk, bundle = tmp_path / "disk", tmp_path / "bundle"
    (disk / "os_packages/debian-12").mkdir(parents=True)
    (disk / "os_packages/debian-12/a.deb").write_bytes(b"a")
    model = {"path": "models/m", "kind": "model", "fields": {"model": "a/m"}}
    index = [{"path": "models/m/index", "content": "made here\n"}]
    items = {
        "1": {"item": model, "fields": {"revision": "abc"}, "files": index},
        "2": {"item": {"path": "os_packages/debian-12", "kind": "os_packages"}},
        "3": {"item": {"path": "python/wheels", "kind": "python"}},
    }
    warnings: list[str] = []
    plan: dict[str, Any] = {"plan": items, "images": []}
    expected = [
        {"path": "models/m/index", "kind": "model", "fields": {"model": "a/m", "revision": "abc"}},
        {
            "source": str(disk / "os_packages/debian-12"),
            "path": "os_packages/debian-12",
            "kind": "os_packages",
            "fields": {},
        },
    ]
    assert script.adopt([str(disk)], plan, str(bundle), warnings.append, check=True) == expected
    assert not bundle.exists()
    assert script.adopt([str(disk)], plan, str(bundle), warnings.append) == expected
    assert (bundle / "models/m/index").read_text() == "made here\n"
    assert len(warnings) == 2
    assert "python/wheels" in warnings[0]
