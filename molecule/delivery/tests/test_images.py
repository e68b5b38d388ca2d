"""The image of the bundle is in the engine of the host, with the id that the manifest names, and its archive is gone."""

from __future__ import annotations

from typing import Any

import yaml

from lab.config import STATE

testinfra_hosts = ["ssh://node2"]
MANIFEST = STATE / "bundle/manifest.yml"


def archives() -> list[dict[str, Any]]:
    return [record for record in yaml.safe_load(MANIFEST.read_text())["files"] if record["kind"] == "image"]


def test_it_is_this_host(host: Any) -> None:
    assert host.check_output("hostname") == "node2"


def test_the_engine_has_every_image_of_the_bundle(host: Any) -> None:
    images = [image for archive in archives() for image in archive["images"]]
    assert images
    for image in images:
        assert host.check_output(f"docker image inspect --format '{{{{.Id}}}}' {image['reference']}") == image["id"]


def test_no_transfer_is_left_over(host: Any) -> None:
    assert archives()
    for archive in archives():
        assert not host.file(f"/opt/llm/bundle/{archive['path']}").exists
    assert host.check_output("find /opt/llm/bundle/.incoming -type f") == ""
