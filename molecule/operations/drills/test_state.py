"""status.yml and doctor.yml on hosts that serve: all of it is known; a server that stopped and a container that nobody names are found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab.config import STATE
from tests.support.drills import connect, play

REPORTS = STATE / "reports"
HEADS = {"tiny_split": "node1", "tiny_single": "node3"}


def look(*arguments: str, status: int = 0) -> str:
    """What a playbook prints that changes nothing."""
    said = play(*arguments, status=status)
    assert "changed=0" in said or status
    return said


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((REPORTS / name).read_text())
    return found


def test_everything_of_hosts_that_serve_is_known() -> None:
    said = look("playbooks/status.yml")
    assert "All deployments serve (2)." in said
    rows = {row["host"]: row for row in read("status.json")["rows"]}
    assert list(rows) == ["node1", "node2", "node3"]
    for name, row in rows.items():
        assert row["grade"] == "good", row
        unknown = [key for key in ("driver", "engine", "toolkit", "image_id", "memory_mib") if row[key] is None]
        assert unknown == []
        assert row["since_seconds"] > 0
        assert row["changed"] == []
        if name in HEADS.values():
            assert 0 <= row["last_token_seconds"] < 180
            assert [row[key] for key in ("running", "waiting")] == [0, 0]
            assert row["kv_use"] is not None
    assert read("status.json")["leftovers"] == []
    page = (REPORTS / "status.html").read_text()
    assert "http" not in page.replace("http-equiv", ""), "a page that asks nobody"


def test_the_doctor_finds_nothing_broken() -> None:
    look("playbooks/doctor.yml")
    found = read("doctor.json")
    assert (found["exit_code"], found["counts"]["bad"]) == (0, 0)
    well = {each["check"] for each in found["findings"] if each["grade"] == "good"}
    assert well >= {"answers", "states", "restart_loops", "placement", "networks", "changed", "left_over"}


@pytest.fixture
def stopped() -> Iterator[Any]:
    """node3 without its server, and with a container that belongs to no deployment."""
    host = connect("node3")
    image = host.check_output("docker inspect --format '{{.Image}}' llm-vllm")
    host.check_output(f"docker create --name llm-vllm-old --label baremetal.llm.deployment=old {image}")
    host.check_output("docker stop --time 2 llm-vllm")
    yield host
    host.check_output("docker start llm-vllm && docker rm llm-vllm-old")


def test_a_stopped_server_and_what_nobody_names(stopped: Any) -> None:
    said = look("playbooks/status.yml")
    assert "1 of 2 deployments serve. tiny_single: stopped." in said
    assert "node3: container llm-vllm-old (does not run)" in said
    said = look("playbooks/doctor.yml", status=1)
    assert "docker start llm-vllm on node3" in said
    codes = {(each["code"], *each["hosts"]) for each in read("doctor.json")["findings"] if each["grade"] != "good"}
    assert {("stopped", "node3"), ("leftover", "node3")} <= codes
    assert not any("node1" in each for each in codes if each[0] == "stopped")
