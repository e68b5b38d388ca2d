"""Every file of the model is on the host, byte for byte as the manifest describes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lab.config import STATE

testinfra_hosts = ["ssh://node3"]
MANIFEST = STATE / "bundle/manifest.yml"


def test_it_is_this_host(host: Any) -> None:
    assert host.check_output("hostname") == "node3"


def test_every_file_has_the_checksum_of_the_manifest(host: Any) -> None:
    records = [record for record in yaml.safe_load(MANIFEST.read_text())["files"] if record["kind"] == "model"]
    assert {Path(record["path"]).name for record in records} >= {"config.json", "model.safetensors", "tokenizer.json"}
    for record in records:
        file = host.file(f"/opt/llm/{record['path']}")
        assert file.sha256sum == record["sha256"]
        assert (file.user, file.mode) == ("root", 0o644)
