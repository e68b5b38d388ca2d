# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM, as the rest of the collection sees it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine


def table(name: str) -> Any:
    """The content of a data file of this folder."""
    return yaml.load(Path(__file__).with_name(name).read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def metrics() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = table("metrics.yml")["metrics"]
    return found


ENGINE = Engine(
    name="vllm",
    title="vLLM",
    example_release="0.8.5.post1",
    shared=(
        *("max_model_len", "tensor_parallel_size", "pipeline_parallel_size", "executor", "tokenizer"),
        *("speculative_model", "lora_adapters", "chat_template", "generation_config", "tool_call_parser"),
        *("tool_parser_plugin", "reasoning_parser"),
    ),
    spans_hosts=True,
    metrics=metrics,
)
