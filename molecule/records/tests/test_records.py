"""Records after a whole run: for root only, and whatever is altered by hand is noticed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import testinfra

from lab.config import CHECKOUT, STATE

NAMES = ["node1", "node2", "node3"]
SSH_CONFIG = STATE / "ssh/config"
HERE = Path(__file__).parent
UTILS = "/root/records/ansible_collections/baremetal/llm/plugins/module_utils"
RECORDS = "/opt/llm/records"
ROLES = ["docker", "images", "models", "network", "nvidia_container_toolkit", "nvidia_driver", "ray", "vllm"]


@cache
def connect(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(SSH_CONFIG))


def altering(host: Any, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        host.check_output(f"python3 /root/records/alter.py /root/records {RECORDS} {' '.join(arguments)}")
    )
    return answer


@pytest.fixture(scope="module", autouse=True)
def tools() -> Iterator[None]:
    """What looks at records, on each host."""
    for name in NAMES:
        copy = (
            f"tar --create --directory {CHECKOUT}/plugins module_utils | "
            f"ssh -F {SSH_CONFIG} {name} 'mkdir -p {UTILS} && tar --extract --directory {UTILS}/..'"
        )
        subprocess.run(copy, shell=True, check=True)
        program = (HERE / "alter.py").read_bytes()
        subprocess.run(["ssh", "-F", SSH_CONFIG, name, "cat > /root/records/alter.py"], input=program, check=True)
    yield
    for name in NAMES:
        connect(name).check_output("rm -r /root/records")


@pytest.mark.parametrize("name", NAMES)
def test_records_are_for_root_only(name: str) -> None:
    folder = connect(name).file(RECORDS)
    assert (folder.user, folder.mode, sorted(folder.listdir())) == ("root", 0o700, [f"{role}.json" for role in ROLES])
    assert {connect(name).file(f"{RECORDS}/{role}.json").mode for role in ROLES} == {0o600}


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_altered_is_noticed(name: str) -> None:
    found = altering(connect(name), "alter")
    assert found["before"] == []
    assert len(found["altered"]) > 40
    assert found["unseen"] == []
    assert found["left"] == []


def test_a_record_that_somebody_else_can_write_counts_as_none() -> None:
    connect("node2").check_output(f"chmod 0666 {RECORDS}/models.json")
    assert "models" not in altering(connect("node2"), "look")["roles"]
    connect("node2").check_output(f"chmod 0600 {RECORDS}/models.json")
    assert "models" in altering(connect("node2"), "look")["roles"]
