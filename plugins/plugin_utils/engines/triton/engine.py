# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's Triton Inference Server with vLLM as its backend, as the rest of the collection sees it: one container on one host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import is_open
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine, Metric
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import since
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.triton.arguments import (
    NAME,
    RELEASE_FORM,
    SETTINGS,
    TITLE,
    facts,
    table,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.triton.inputs import inputs, plan
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.triton.server import (
    CACHES,
    environment,
    launch,
    sections,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.serving import answers_with
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.start_phases import PHASES

# Names and kinds: TritonMetrics in src/utils/metrics.py of triton-inference-server/vllm_backend, branches r25.08 to r26.01, and main. Triton tells nothing of
# requests that run or wait, and of the cache.
_METRICS: Mapping[str, Metric] = {
    "prompt_tokens": {"kind": "counter", "names": [{"name": "vllm:prompt_tokens_total"}]},
    "generation_tokens": {"kind": "counter", "names": [{"name": "vllm:generation_tokens_total"}]},
    "time_to_first_token_seconds": {
        "kind": "histogram",
        "names": [{"name": "vllm:time_to_first_token_seconds_bucket"}],
    },
    "inter_token_latency_seconds": {
        "kind": "histogram",
        "names": [{"name": "vllm:time_per_output_token_seconds_bucket"}],
    },
    "request_latency_seconds": {"kind": "histogram", "names": [{"name": "vllm:e2e_request_latency_seconds_bucket"}]},
}
# What the log says when a part of a start begins: roles/triton/files/start_triton.py, then vLLM's engine, then uvicorn.
_OF_VLLMS_SERVER = ("pause", "gpus", "server")
_PHASES = (("server", r"^start_triton\.py: "), *(row for row in PHASES if row[0] not in _OF_VLLMS_SERVER))


def _image(release: str) -> str:
    return f"nvcr.io/nvidia/tritonserver:{release}-vllm-python-py3"


def _paths(releases: Iterable[str]) -> list[str]:
    asked = list(releases)
    return [path for path, first in facts()["paths"]["since"].items() if all(since(one, first) for one in asked)]


ENGINE = Engine(
    name=NAME,
    title=TITLE,
    example_release="26.08",
    release_form=RELEASE_FORM,
    image=_image,
    inputs=inputs,
    plan=plan,
    plan_warnings=lambda *asked: table().warnings(*asked),
    launch=launch,
    sections=sections,
    settings=SETTINGS,
    shared=SETTINGS,
    context="max_model_len",
    answers_with=answers_with,
    address_variables=lambda release: ("VLLM_HOST_IP",),
    all_address_variables=("VLLM_HOST_IP",),
    environment=environment,
    # The first are those of the collection's own programs, which paths are open among them.
    owned_variables={"LLM_*": "triton_api_key_enabled", "SSL_*": "triton_port"},
    caches=CACHES,
    module="tritonserver",
    start_phases=_PHASES,
    # The collection's own filter of paths answers at the first (roles/common/files/llm_api_paths.py).
    ready="/ready",
    alive="/health/ready",
    paths=_paths,
    middleware=True,
    is_local=is_open,
    on_request=True,
    alike_settings={"max_model_len": "gateway_differs_length", "kv_cache_dtype": "gateway_differs_answers"},
    alike_options={
        **dict.fromkeys(("chat_template", "generation_config", "quantization"), "gateway_differs_answers"),
        "tool_call_parser": "gateway_differs_tools",
    },
    metrics=lambda: _METRICS,
)
