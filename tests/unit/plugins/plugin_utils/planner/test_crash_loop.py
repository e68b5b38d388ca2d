"""A server that ends at each start for the same reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.start_phases import PHASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.crash_loop import SAME_ENDS, CrashLoop
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import diagnose_log

DAMAGED = "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"
MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 15.77 GiB"
)
ALONE = "RuntimeError: NCCL error: unhandled system error, Bootstrap : no socket interface found"


def log(*errors: str) -> str:
    """Starts that ended with these, and one that goes on."""
    begins = (
        f"INFO 11-25 00:{number:02}:25 [api_server.py:1] vLLM API server version 0.11.0\n" for number in range(99)
    )
    return "".join(next(begins) + f"Traceback (most recent call last):\n{error}\n" for error in errors) + next(begins)


def test_the_errors_are_known() -> None:
    assert [diagnose_log(error)[0]["kind"] for error in (DAMAGED, MEMORY, ALONE)] == ["root", "symptom", "root"]


def test_three_ends_for_the_same_reason_end_the_wait() -> None:
    loop = CrashLoop(PHASES)
    assert loop.cause(log()) == ""
    for count in range(1, SAME_ENDS):
        assert loop.cause(log(*[DAMAGED] * count)) == ""
    assert loop.cause(log(*[DAMAGED] * SAME_ENDS)) == diagnose_log(DAMAGED)[0]["code"]


@pytest.mark.parametrize("errors", [[DAMAGED, MEMORY, DAMAGED], [ALONE] * 3, ["ValueError: of no table"] * 3])
def test_other_reasons_and_those_that_heal_do_not(errors: list[str]) -> None:
    loop = CrashLoop(PHASES)
    loop.cause(log())
    assert loop.cause(log(*errors)) == ""


def test_what_ended_before_this_run_does_not_count() -> None:
    loop = CrashLoop(PHASES)
    assert [loop.cause(log(*[MEMORY] * count)) for count in (3, 4, 5)] == [""] * 3
    assert loop.cause(log(*[MEMORY] * 6))


def test_a_healthy_start_has_no_end() -> None:
    for path in sorted(Path("tests/data/vllm/starts").glob("*.log")):
        loop = CrashLoop(PHASES)
        loop.cause("")
        assert loop.cause(path.read_text() * 4) == ""
