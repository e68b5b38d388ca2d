"""What a reset says before and after."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.reset import plan_lines, result_lines

STEPS = [
    {"role": "vllm", "kind": "container", "name": "llm-vllm"},
    {"role": "vllm", "kind": "record", "name": "/opt/llm/records/vllm.json"},
    {"role": "gateway", "kind": "package", "name": "keepalived"},
]
STAYS = [
    {"role": "gateway", "kind": kind, "name": f"{kind}-name", "why": why}
    for kind, why in (
        ("package", "before"),
        ("file", "unknown"),
        ("container", "foreign"),
        ("file", "secret"),
        ("firewall", "rules"),
    )
]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_all_that_goes_and_all_that_stays_is_named(language: str) -> None:
    lines = plan_lines("gpu01", {"steps": STEPS, "stays": STAYS, "differs": {}}, language)
    assert ["container llm-vllm" in lines[0], "package keepalived" in lines[1]] == [True, True]
    assert all(each["name"] in line for each, line in zip(STAYS, lines[2:], strict=True))
    assert len(plan_lines("gpu01", {"steps": [], "stays": [], "differs": None}, language)) == 2


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_differs_afterwards_has_a_sign(language: str) -> None:
    parts = {"more": ["a"], "less": ["b"], "other": ["c"]}
    failed: list[dict[str, Any]] = [{**STEPS[0], "why": "no answer"}]
    lines = result_lines("gpu01", {"failed_steps": failed, "differs": {"packages": parts}}, language)
    assert "no answer" in lines[0]
    assert "+a, -b, ~c" in lines[1]
    assert len(result_lines("gpu01", {"failed_steps": [], "differs": {}}, language)) == 1
    assert result_lines("gpu01", {"failed_steps": [], "differs": None}, language) == []
