"""A playbook that waits for the first token, or tries the all-reduce."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.tasks import ROOT, decision, run_tasks

SLOW = """
echo "$1" >>"$CALLS"
[ "$1" = logs ] && echo "still loading"
[ "$1" = ask ] && sleep 1.5 && echo "no answer" >&2 && exit 1
"""


def test_asking_slowly_does_not_make_the_wait_for_a_token_longer(tmp_path: Path) -> None:
    """A server that hangs takes two minutes to say nothing."""
    known: dict[str, Any] = {
        "vllm_start_seconds": "1",
        "llm_decision": decision("mp"),
    }
    known["llm_decision"]["hosts"]["a"]["vllm"] |= {"ask": ["docker", "ask"], "probe": {"start": ["echo"]}}
    status, said, calls = run_tasks(tmp_path, "vllm", "token.yml", SLOW, known)
    assert status == 2
    assert calls == ["ask", "logs"]
    for part in ("pair generated no token within 1 s (vllm_start_seconds)", "no answer", "still loading"):
        assert part in said


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_all_reduce_is_refused_at_once_where_the_run_lacks_a_rank(language: str, tmp_path: Path) -> None:
    known = {"llm_decision": decision("mp"), "_vllm_collective_again": True, "llm_language": language}
    status, said, calls = run_tasks(tmp_path, "vllm", "collective.yml", SLOW, known)
    assert status == 2
    assert calls == []
    for part in {"en": ("b are not part of this run", "all of a, b"), "zh": ("b 不在本次运行中", "全部 a, b")}[
        language
    ]:
        assert part in said


def test_on_the_way_to_the_service_it_is_left_out(tmp_path: Path) -> None:
    known = {"llm_decision": decision("mp")}
    without_image = 'echo "$1" >>"$CALLS"; [ "$1" != image ]'
    status, said, calls = run_tasks(tmp_path, "vllm", "collective.yml", without_image, known)
    assert status == 0, said
    assert calls == ["container", "image"]
    assert "b are not part of this run" in said


def test_its_environment_comes_as_docker_reads_it(tmp_path: Path) -> None:
    tasks = yaml.safe_load((ROOT / "roles/vllm/tasks/collective_run.yml").read_text())
    (stdin,) = (task["ansible.builtin.command"]["stdin"] for task in tasks if "ansible.builtin.command" in task)
    known = {"llm_decision": decision("mp", vllm_environment={"HF_TOKEN": "secret=1"}, llm_nccl_debug="INFO")}
    status, said, _calls = run_tasks(tmp_path, "common", "lost.yml", "", known, stdin)
    assert status == 0, said
    assert "\\nNCCL_DEBUG=INFO\\n" in said
    assert "\\nHF_TOKEN=secret=1" in said
