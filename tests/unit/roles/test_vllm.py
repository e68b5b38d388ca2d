"""A playbook that waits for the first token, or tries the all-reduce."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.role_vars import role_variable
from tests.support.tasks import run_tasks

SLOW = """
echo "$1" >>"$CALLS"
[ "$1" = logs ] && echo "still loading"
[ "$1" = ask ] && sleep 1.5 && echo "no answer" >&2 && exit 1
"""


def test_asking_slowly_does_not_make_the_wait_for_a_token_longer(tmp_path: Path) -> None:
    """A server that hangs takes two minutes to say nothing."""
    known = {
        "_vllm_probe_start": ["echo"],
        "vllm_start_seconds": "1",
        "_vllm_ask": ["docker", "ask"],
        "_vllm_key_file": "",
    }
    status, said, calls = run_tasks(tmp_path, "vllm", "token.yml", SLOW, known)
    assert status == 2
    assert calls == ["ask", "logs"]
    for part in ("pair generated no token within 1 s (vllm_start_seconds)", "no answer", "still loading"):
        assert part in said


def test_a_host_whose_gpus_nobody_asked_counts_as_one_that_said_nothing() -> None:
    found = {"GPU0": {"GPU1": False}}
    hosts: dict[str, Any] = {
        "a": {},
        "b": {"ansible_facts": {"llm_gpu_p2p": None}},
        "c": {"ansible_facts": {"llm_gpu_p2p": found}},
    }
    deployment = {"hosts": list(hosts)}
    assert role_variable("vllm", "_vllm_p2p", hostvars=hosts, _llm_deployment=deployment) == [{}, {}, found]


COLLECTIVE = {
    # What the plan and earlier stages would say.
    "_llm_deployment": {"head": "a"},
    "_llm_plan": {"executor": "mp", "nodes": [{"host": "a", "ranks": [0]}, {"host": "b", "ranks": [1]}]},
    "_llm_image": "image",
    "_llm_environment": {"HF_TOKEN": "secret=1", "NCCL_DEBUG": "INFO"},
    "_llm_devices": [],
    "_llm_ulimits": ["nofile:1:1"],
}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_all_reduce_is_refused_at_once_where_the_run_lacks_a_rank(language: str, tmp_path: Path) -> None:
    known = {**COLLECTIVE, "_vllm_collective_again": True, "llm_language": language}
    status, said, calls = run_tasks(tmp_path, "vllm", "collective.yml", SLOW, known)
    assert status == 2
    assert calls == []
    for part in {"en": ("b are not part of this run", "all of a, b"), "zh": ("b 不在本次运行中", "全部 a, b")}[
        language
    ]:
        assert part in said


def test_on_the_way_to_the_service_it_is_left_out_and_has_no_secret_on_its_command_line(tmp_path: Path) -> None:
    shown = "{'command': _vllm_collective_command | join(' '), 'environment': _vllm_collective_environment}"
    status, said, calls = run_tasks(tmp_path, "vllm", "collective.yml", 'echo "$1" >>"$CALLS"', COLLECTIVE, shown)
    assert status == 0
    assert calls == ["container"]
    assert "b are not part of this run" in said
    assert '"environment": "HF_TOKEN=secret=1\\nNCCL_DEBUG=INFO"' in said
    (command,) = (line for line in said.splitlines() if '"command": ' in line)
    assert "--env-file=/dev/stdin" in command
    assert "HF_TOKEN" not in command
