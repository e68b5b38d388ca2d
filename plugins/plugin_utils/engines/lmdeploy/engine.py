# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LMDeploy with its engine TurboMind, as the rest of the collection sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.filtered import environment
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import is_open
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine, Metric
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy.arguments import (
    RELEASE_FORM,
    TITLE,
    image_suffix,
    table,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy.inputs import PLANNER, SETTINGS
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy.server import (
    CACHES,
    launch,
    sections,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import since

# What computes and names its model in a body, by the first release that has it: routes of lmdeploy/serve in the wheels of data.yml. /v1/embeddings is there
# and says that it is not supported.
_PATHS = {
    "/v1/chat/completions": "-",
    "/v1/completions": "-",
    "/v1/messages": "0.13.0",
    "/v1/messages/count_tokens": "0.13.0",
    "/v1/responses": "0.14.0",
}
# What the log says when a part of a start begins: roles/lmdeploy/files/start_lmdeploy.py, then bars of lmdeploy/turbomind/checkpoint.py and, up to 0.13.0,
# of lmdeploy/turbomind/deploy/target_model/base.py, and lmdeploy/serve/openai/api_server.py.
_PHASES = (
    ("server", r"^start_lmdeploy\.py: "),
    ("weights", r"\bLoading: +\d|Convert to turbomind format: +\d"),
    ("api", r"^HINT: +Please open|Started server process|Uvicorn running on"),
)
# Names and kinds: lmdeploy/metrics/loggers.py of the wheels. The Python client appends _bucket to the names of histograms.
_METRICS: Mapping[str, Metric] = {
    "requests_running": {"kind": "gauge", "fold": "sum", "names": [{"name": "lmdeploy:num_requests_running"}]},
    "requests_waiting": {"kind": "gauge", "fold": "sum", "names": [{"name": "lmdeploy:num_requests_waiting"}]},
    "kv_cache_usage_ratio": {"kind": "gauge", "fold": "max", "names": [{"name": "lmdeploy:gpu_cache_usage_perc"}]},
    "prompt_tokens": {"kind": "counter", "names": [{"name": "lmdeploy:prompt_tokens_total"}]},
    "generation_tokens": {"kind": "counter", "names": [{"name": "lmdeploy:generation_tokens_total"}]},
    "requests_finished": {"kind": "counter", "names": [{"name": "lmdeploy:request_success_total"}]},
    "prefix_cache_hits": {"kind": "counter", "names": [{"name": "lmdeploy:cached_tokens_total"}]},
    "time_to_first_token_seconds": {
        "kind": "histogram",
        "names": [{"name": "lmdeploy:time_to_first_token_seconds_bucket"}],
    },
    "inter_token_latency_seconds": {
        "kind": "histogram",
        "names": [{"name": "lmdeploy:time_per_output_token_seconds_bucket"}],
    },
    "request_latency_seconds": {
        "kind": "histogram",
        "names": [{"name": "lmdeploy:e2e_request_latency_seconds_bucket"}],
    },
    "queue_seconds": {"kind": "histogram", "names": [{"name": "lmdeploy:request_queue_time_seconds_bucket"}]},
}


def _image(release: str) -> str:
    """With CUDA 12, whose build of TurboMind has code for Volta and Turing; that of CUDA 13 begins at Ampere."""
    return f"openmmlab/lmdeploy:v{release}-{image_suffix(release)}"


def _paths(releases: Iterable[str]) -> list[str]:
    asked = list(releases)
    return [path for path, first in _PATHS.items() if all(since(release, first) for release in asked)]


ENGINE = Engine(
    name="lmdeploy",
    title=TITLE,
    example_release="0.18.0",
    release_form=RELEASE_FORM,
    image=_image,
    inputs=PLANNER.inputs,
    plan=PLANNER.plan,
    plan_warnings=lambda *asked: table().warnings(*asked),
    launch=launch,
    sections=sections,
    settings=SETTINGS,
    shared=SETTINGS,
    context="session_len",
    environment=environment,
    # The latter are those of the collection's own programs, which paths are open among them.
    owned_variables={"LLM_*": "lmdeploy_api_key_enabled", "SSL_*": "lmdeploy_port"},
    caches=CACHES,
    module="lmdeploy",
    start_phases=_PHASES,
    # The collection's own filter of paths answers at the first (roles/common/files/llm_api_paths.py).
    ready="/ready",
    alive="/health",
    paths=_paths,
    middleware=True,
    is_local=is_open,
    on_request=True,
    alike_settings={"session_len": "gateway_differs_length", "quant_policy": "gateway_differs_answers"},
    alike_options={
        **dict.fromkeys(("chat_template", "generation_config"), "gateway_differs_answers"),
        **dict.fromkeys(("tool_call_parser", "reasoning_parser"), "gateway_differs_tools"),
    },
    metrics=lambda: _METRICS,
)
