"""After a rotation of the secrets by the runbook: the newest API key is the only one, and Ray was started anew for its token."""

from __future__ import annotations

from typing import Any

import pytest
import testinfra

from lab.config import STATE

HEADS = {"tiny_split": "node1", "tiny_single": "node3"}


def connect(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


@pytest.mark.parametrize("deployment", HEADS)
def test_the_newest_key_is_the_only_one(deployment: str) -> None:
    newest = (STATE / f"secrets/{deployment}_api_key").read_text().strip()
    host = connect(HEADS[deployment])
    folder = host.file("/opt/llm/secrets")
    assert (folder.user, folder.group, folder.mode) == ("root", "root", 0o750)
    assert "vllm_api_key.previous" not in folder.listdir()
    key = host.file("/opt/llm/secrets/vllm_api_key")
    assert (key.content_string, key.user, key.group, key.mode) == (newest, "root", "root", 0o640)


@pytest.mark.parametrize("name", ["node1", "node2"])
def test_the_session_of_the_former_ray_is_not_kept(name: str) -> None:
    assert len(connect(name).check_output("ls -d /opt/llm/tmp-70000/ray/session_2*").splitlines()) == 1
