"""What converters make of a checkpoint, compared with files that people published (tests/data/llama_cpp/sizes.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.converted import convert
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.memory import Settings, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import config_of, entries
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model

from tests.support.each import check_each

DATA = Path(__file__).parents[5] / "data/llama_cpp/sizes.json"


def test_files_have_the_size_of_published_ones() -> None:
    """Within 1 %; pages print two or three digits."""

    def check(row: dict[str, Any]) -> None:
        model = read_model(config_of(row["model"]))
        for quantization, gigabytes in row["sizes"].items():
            converted = convert(model, quantization)
            assert converted is not None
            assert converted.size / 1e9 == pytest.approx(gigabytes, rel=0.01), quantization

    rows = json.loads(DATA.read_text(encoding="utf-8"))["rows"]
    check_each({row["source"]: row for row in rows}, check)


@pytest.mark.slow
def test_every_model_of_the_catalogue_is_converted_or_said_to_be_unknown() -> None:
    converted = {}
    for entry in entries():
        model = read_model(entry.config)
        found = convert(model, "Q4_K_M")
        if found is not None:
            memory = whole(found, Settings(4096))
            assert min(memory.cache, memory.compute) > 0, entry.model
            assert 4 < found.bits < 9, entry.model
            converted[entry.model] = found.architecture
    assert len(converted) > 40
    assert "deepseek-ai/DeepSeek-V3" not in converted
    assert convert(read_model(config_of("Qwen/Qwen3-8B")), "Q9") is None
