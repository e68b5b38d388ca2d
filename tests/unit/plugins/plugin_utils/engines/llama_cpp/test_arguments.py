"""The command line of llama-server, and what is said of options that are none of its own."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.arguments import (
    llama_arguments,
    options_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.data.options import (
    CLOSED,
    FETCHES,
    SWITCHES,
    TURNED,
    VALUES,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.memory import Memory, Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.placement import Placement
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.counterparts import COLUMNS, ROWS, counterpart
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import OPTIONS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

from tests.support.each import check_each

RELEASE = "b9603"


def test_a_plan_is_a_whole_command_line() -> None:
    placement = Placement(65, (40, 25), (Memory(1, 1, 0, 1), Memory(1, 1, 0, 1)), 1, 8192, True)
    options = {
        "model": "/m/a.gguf",
        "alias": "qwen",
        **options_of(placement, Settings(8192, 4, key_type="q8_0", value_type="q8_0")),
    }
    said = " ".join(llama_arguments(options, RELEASE))
    assert said == (
        "--model /m/a.gguf --alias qwen --ctx-size 8192 --parallel 4 --gpu-layers 65 --tensor-split 40,25 --flash-attn on "
        "--cache-type-k q8_0 --cache-type-v q8_0 --fit off --no-kv-unified --ubatch-size 512"
    )


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "vLLM's": ({"max_model_len": 1}, "engine_option_foreign", "ctx_size"),
    "vLLM's with nothing like it": ({"quantization": "awq"}, "engine_option_nothing", "vllm"),
    "LMDeploy's": ({"session_len": 1}, "engine_option_foreign", "ctx_size"),
    "SGLang's": ({"mem_fraction_static": 0.8}, "engine_option_foreign", "fit_target"),
    "Ollama's": ({"OLLAMA_NUM_PARALLEL": 2}, "engine_option_foreign", "parallel"),
    "misspelt": ({"paralel": 2}, "engine_option_near", "parallel"),
    "of nobody": ({"zzz": 2}, "engine_option_unknown", "zzz"),
    "a key": ({"api_key": "s"}, "engine_option_secret", "llama_cpp_api_key"),
    "a shell for all": ({"tools": "all"}, "llama_option_closed", "tools"),
    "other hosts": ({"rpc": "192.0.2.12:50052"}, "llama_option_spans", "rpc"),
    "a download": ({"hf_repo": "a/b"}, "engine_option_fetches", "hf_repo"),
}


def test_options_that_are_not_its_own_are_named_with_what_to_use() -> None:
    def check(case: tuple[dict[str, Any], str, str]) -> None:
        options, code, word = case
        with pytest.raises(InputError) as raised:
            llama_arguments(options, RELEASE)
        [why] = raised.value.why.values["problems"]
        assert why.code == code
        for language in ("en", "zh"):
            assert word in why.say(language)

    check_each(REFUSED, check)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InputError) as raised:
        llama_arguments({"max_model_len": 1, "tools": "all", "zzz": 1}, RELEASE)
    assert len(raised.value.why.values["problems"]) == 3


def test_values_and_releases_are_checked() -> None:
    assert llama_arguments({"warmup": False, "metrics": True, "embedding": False, "seed": None}, "9603") == [
        "--metrics",
        "--no-warmup",
    ]
    for options, release, code in (
        ({"metrics": "yes"}, RELEASE, "engine_option_switch"),
        ({"ctx_size": True}, RELEASE, "engine_option_value"),
        ({}, "b6326", "llama_release"),
        ({}, "latest", "llama_release"),
    ):
        with pytest.raises(InputError) as raised:
            llama_arguments(options, release)
        assert raised.value.why.code == code


def test_lists_of_options_agree() -> None:
    known = VALUES | SWITCHES | TURNED
    assert len(known) == len(VALUES) + len(SWITCHES) + len(TURNED)
    assert not known & (CLOSED | FETCHES)
    assert {row["llama_cpp"] for row in ROWS if "llama_cpp" in row} <= known
    assert {row["vllm"] for row in ROWS if "vllm" in row} <= {
        *OPTIONS,
        "model",
        "port",
        "api_key",
        "tool_call_parser",
        "reasoning_parser",
    }
    for column in COLUMNS:
        names = [row[column] for row in ROWS if column in row]
        assert len(names) == len(set(names)), column
    assert counterpart("context_length", "vllm") == ("sglang", "max_model_len")
    assert counterpart("nothing_of_the_kind", "vllm") is None
