"""The image of the bundle is in the engine of the host, with the id that the manifest names, and its archive is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

testinfra_hosts = ["ssh://node3"]
MANIFEST = Path(__file__).parents[3] / ".lab/bundle/manifest.yml"


def wanted() -> list[dict[str, Any]]:
    records = yaml.safe_load(MANIFEST.read_text())["files"]
    return [image for record in records if record["kind"] == "image" for image in record["images"]]


def test_one_host_is_looked_at(host: Any) -> None:
    assert len(testinfra_hosts) == 1
    assert host.check_output("hostname") == "node3"


def test_the_engine_has_every_image_of_the_bundle(host: Any) -> None:
    images = wanted()
    assert images
    for image in images:
        assert host.check_output(f"docker image inspect --format '{{{{.Id}}}}' {image['reference']}") == image["id"]


def test_no_transfer_is_left_over(host: Any) -> None:
    assert host.check_output("find /opt/llm/bundle/.incoming -type f") == ""
