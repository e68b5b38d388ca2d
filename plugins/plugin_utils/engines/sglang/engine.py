# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang, as the rest of the collection sees it: one container on one host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.filtered import environment
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import is_open
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine, Metric
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import since
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang.arguments import (
    NAME,
    RELEASE_FORM,
    SETTINGS,
    TITLE,
    facts,
    image,
    table,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang.inputs import PLANNER
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang.server import (
    CACHES,
    launch,
    sections,
)

# What the log says when a part of a start begins: roles/sglang/files/start_sglang.py, then sglang/srt/model_executor/model_runner.py, bars of
# sglang/srt/model_loader/weight_utils.py, and uvicorn with sglang/srt/entrypoints/http_server.py.
_PHASES = (
    ("server", r"^start_sglang\.py: "),
    ("weights", r"Load weight begin\.|Loading safetensors checkpoint shards: +\d"),
    ("api", r"Started server process|Uvicorn running on|The server is fired up"),
)
# Names and kinds: sglang/srt/observability/metrics_collector.py of 0.5.23, sglang/srt/metrics/collector.py of 0.5.3.post3. The Python client appends _bucket to
# the names of histograms.
_METRICS: Mapping[str, Metric] = {
    "requests_running": {"kind": "gauge", "fold": "sum", "names": [{"name": "sglang:num_running_reqs"}]},
    "requests_waiting": {"kind": "gauge", "fold": "sum", "names": [{"name": "sglang:num_queue_reqs"}]},
    "kv_cache_usage_ratio": {"kind": "gauge", "fold": "max", "names": [{"name": "sglang:token_usage"}]},
    "prompt_tokens": {"kind": "counter", "names": [{"name": "sglang:prompt_tokens_total"}]},
    "generation_tokens": {"kind": "counter", "names": [{"name": "sglang:generation_tokens_total"}]},
    "requests_finished": {"kind": "counter", "names": [{"name": "sglang:num_requests_total"}]},
    "prefix_cache_hits": {"kind": "counter", "names": [{"name": "sglang:cached_tokens_total"}]},
    "time_to_first_token_seconds": {
        "kind": "histogram",
        "names": [{"name": "sglang:time_to_first_token_seconds_bucket"}],
    },
    "inter_token_latency_seconds": {
        "kind": "histogram",
        "names": [{"name": "sglang:inter_token_latency_seconds_bucket"}],
    },
    "request_latency_seconds": {
        "kind": "histogram",
        "names": [{"name": "sglang:e2e_request_latency_seconds_bucket"}],
    },
    "queue_seconds": {"kind": "histogram", "names": [{"name": "sglang:queue_time_seconds_bucket"}]},
}


def _paths(releases: Iterable[str]) -> list[str]:
    asked = list(releases)
    return [path for path, first in facts()["paths"].items() if all(since(one, str(first)) for one in asked)]


ENGINE = Engine(
    name=NAME,
    title=TITLE,
    example_release="0.5.23",
    release_form=RELEASE_FORM,
    image=image,
    inputs=PLANNER.inputs,
    plan=PLANNER.plan,
    plan_warnings=lambda *asked: table().warnings(*asked),
    launch=launch,
    sections=sections,
    settings=SETTINGS,
    shared=SETTINGS,
    context="context_length",
    answers_with=lambda options, config: "embedding" if options.get("is_embedding") else "token",
    environment=environment,
    # The first are those of the collection's own programs, which paths are open among them; the last would let uvicorn have an application of its own choice.
    owned_variables={
        "LLM_*": "sglang_api_key_enabled",
        "SSL_*": "sglang_port",
        "SGLANG_HTTP_SERVER_APP_PATH": "sglang_api_key_enabled",
    },
    caches=CACHES,
    module="sglang",
    start_phases=_PHASES,
    # The collection's own filter of paths answers at the first (roles/common/files/llm_api_paths.py).
    ready="/ready",
    alive="/health",
    paths=_paths,
    middleware=True,
    is_local=is_open,
    on_request=True,
    alike_settings={"context_length": "gateway_differs_length", "kv_cache_dtype": "gateway_differs_answers"},
    alike_options={
        **dict.fromkeys(("chat_template", "quantization", "sampling_defaults"), "gateway_differs_answers"),
        **dict.fromkeys(("tool_call_parser", "reasoning_parser"), "gateway_differs_tools"),
    },
    metrics=lambda: _METRICS,
)
