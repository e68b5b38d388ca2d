"""What the role images leaves on a host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.tasks import run_tasks

# Playbooks in processes.
pytestmark = pytest.mark.slow

REFERENCE, IDENTIFIER, ARCHIVE = "registry.example/vllm:1", "sha256:" + "1" * 64, "images/images.tar"


@pytest.mark.parametrize("kept", [False, True])
def test_an_archive_of_a_run_that_ended_before_its_finish_is_removed(kept: bool, tmp_path: Path) -> None:
    """Its engine has the images, so nothing is left to wait for."""
    record = {"kind": "image", "path": ARCHIVE, "sha256": "0" * 64, "size": 1}
    record["images"] = [{"reference": REFERENCE, "id": IDENTIFIER}]
    bundle, host = tmp_path / "bundle", tmp_path / "host"
    bundle.mkdir()
    (bundle / "manifest.yml").write_text(yaml.safe_dump({"schema": 1, "files": [record]}))
    archive = host / "bundle" / ARCHIVE
    archive.parent.mkdir(parents=True)
    archive.write_text("x")
    known: dict[str, Any] = {
        "llm_bundle_dir": str(bundle),
        "llm_host_dir": str(host),
        "images_references": [REFERENCE],
        "images_keep_archive_enabled": kept,
        "__images_found": {"images": [{"Id": IDENTIFIER}]},
    }
    status, said, _calls = run_tasks(tmp_path, "images", "finish.yml", f"echo {IDENTIFIER}", known)
    assert status == 0, said
    assert archive.exists() == kept
