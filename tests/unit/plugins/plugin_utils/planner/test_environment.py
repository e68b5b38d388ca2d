# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables that nobody reads, and those that do harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.environment import warnings
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import resolve_release

Model = Callable[[str], dict[str, Any]]
GPU = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("VLLM_SWAP_SPACE", "0.8.5.post1", "it is the option swap_space"),
        ("VLLM_TENSOR_PARALLEL_SIZE", "0.8.5.post1", "it is the option tensor_parallel_size"),
        ("VLLM_ATTENTION_BACKENDS", "0.8.5.post1", "the nearest is VLLM_ATTENTION_BACKEND"),
        ("VLLM_USE_V1", "0.33.0", "does not read it any more"),
        ("VLLM_HOST_IP", "0.3.3", "the first examined release that does is 0.4.2"),
        ("RAY_NODE_TYPE", "0.8.5.post1", "the nearest is RAY_NODE_TYPE_NAME"),
        ("RAY_USE_IPV4", "0.8.5.post1", "RAY reads no variable of that name"),
        ("NCCL_SOCKET_IFNAMES", "0.8.5.post1", "the nearest is NCCL_SOCKET_IFNAME"),
    ],
)
def test_what_nobody_reads_is_named(name: str, version: str, said: str) -> None:
    (warning,) = warnings({name: "1"}, resolve_release(version))
    assert said in warning.say()


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("VLLM_USE_V1", "0.8.5.post1"),
        ("VLLM_HOST_IP", "0.8.5.post1"),
        ("VLLM_CPU_KVCACHE_SPACE", "0.32.0"),
        ("RAY_memory_monitor_refresh_ms", "0.8.5.post1"),
        ("RAY_ADDRESS", "0.8.5.post1"),
        ("NCCL_DEBUG", "0.3.0"),
        ("NCCL_IB_HCA", "0.8.5.post1"),
        ("HF_HOME", "0.8.5.post1"),
    ],
)
def test_what_is_read_is_not(name: str, version: str) -> None:
    assert warnings({name: "1"}, resolve_release(version)) == []


def test_a_port_that_is_a_url_stops_the_start(model: Model) -> None:
    settings = {
        "vllm_version": "0.8.5.post1",
        "environment": {"VLLM_PORT": "tcp://10.0.0.1:8000", "NCCL_DEBUG": "WARN"},
    }
    predicted = predict_start(model("Qwen__Qwen2-0.5B"), [GPU], settings)
    assert predicted["error"]["code"] == "value_not_allowed"
    assert predicted["change"] == {"environment": {"NCCL_DEBUG": "WARN"}}


def test_old_releases_want_a_default_route(model: Model) -> None:
    settings = {"tensor_parallel_size": 2, "nodes": [1, 1], "dtype": "half", "max_model_len": 2048}
    for version, warned in (("0.3.0", True), ("0.3.3", False), ("0.8.5.post1", False)):
        predicted = predict_start(model("Qwen__Qwen2-0.5B"), [GPU] * 2, {**settings, "vllm_version": version})
        assert any("default route" in warning for warning in predicted["warnings"]) is warned
