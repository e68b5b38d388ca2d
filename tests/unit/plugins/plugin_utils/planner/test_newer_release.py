"""A release that is newer than all that are known, and options that nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.arguments import vllm_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.command import launch
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import NEWEST

NEWER = "99.1.0"
GPU = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}
NODES = [{"host": "a", "gpus": [GPU]}]
Model = Callable[[str], dict[str, Any]]


def test_it_is_refused_unless_somebody_accepts_it(model: Model) -> None:
    config = model("Qwen__Qwen3-8B")
    for ask in (
        lambda: predict_start(config, [GPU], {"vllm_version": NEWER}),
        lambda: plan_deployment(config, NODES, {"vllm_version": NEWER}),
        lambda: vllm_arguments({}, NEWER),
    ):
        with pytest.raises(InputError, match="newer than all releases") as error:
            ask()
        assert NEWEST in str(error.value)
    assert "99.1.0" not in str(plan_deployment(config, NODES, {"vllm_version": NEWEST}))


def test_it_is_planned_with_the_facts_of_the_newest_known_and_says_so(model: Model) -> None:
    config = model("Qwen__Qwen3-8B")
    wish = {"accept_unknown_release": True}
    newer = plan_deployment(config, NODES, {"vllm_version": NEWER, **wish})
    newest = plan_deployment(config, NODES, {"vllm_version": NEWEST})
    assert newer["vllm_version"] == NEWER
    assert newer["predicted"]["ranks"] == newest["predicted"]["ranks"]
    assert [each["argv"] for each in newer["launch"].values()] == [each["argv"] for each in newest["launch"].values()]
    (said,) = [text for text in newer["predicted"]["warnings"] if NEWER in text]
    assert NEWEST in said
    assert vllm_arguments({"max_model_len": 4096, **wish}, NEWER) == ["--max-model-len", "4096"]


@pytest.mark.parametrize("version", ["0.8.5.post1", NEWEST])
def test_extra_words_come_last_in_both_forms_of_the_command(version: str) -> None:
    words = ["--brand-new", "1"]
    nodes = [{"host": "a", "ranks": [0]}]
    asked = launch({"seed": 1}, version, "uni", nodes, {"extra_arguments": words})["a"]
    assert asked["argv"][-2:] == words
    if "config" in asked:
        assert asked["config"]["argv"][-2:] == words
        assert "brand-new" not in asked["config"]["content"]
