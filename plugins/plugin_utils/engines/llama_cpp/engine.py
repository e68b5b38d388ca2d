# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""llama.cpp, as the rest of the collection sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import is_open
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine, Metric
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.arguments import SETTINGS, build_of, table
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.inputs import inputs, plan
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.server import (
    CACHES,
    environment,
    launch,
    sections,
)

# All of b6327 (tools/server/README.md) answer the first ones; the others were seen in b11549, and which build had them first was not looked up.
_PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank"]
_LATER_PATHS = ["/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/audio/transcriptions"]
_SEEN = 11549
# What the log says when a part of a start begins: tools/server/server.cpp and server-context.cpp, and the log of b11549.
_PHASES = (
    ("server", r"build_info:|\binit: initializing|build: \d+"),
    ("weights", r"load_model: loading model|llama_model_load"),
    ("cache", r"llama_kv_cache|load_model: initializing, n_slots"),
    ("api", r"model loaded|listening on http"),
)
# Names and kinds: tools/server/server-context.cpp, and /metrics of b11549. A server that generates counts n_decode_total up all the time.
_METRICS: Mapping[str, Metric] = {
    "requests_running": {"kind": "gauge", "fold": "sum", "names": [{"name": "llamacpp:requests_processing"}]},
    "requests_waiting": {"kind": "gauge", "fold": "sum", "names": [{"name": "llamacpp:requests_deferred"}]},
    "prompt_tokens": {"kind": "counter", "names": [{"name": "llamacpp:prompt_tokens_total"}]},
    "generation_tokens": {"kind": "counter", "names": [{"name": "llamacpp:tokens_predicted_total"}]},
    "prefix_cache_hits": {"kind": "counter", "names": [{"name": "llamacpp:prompt_tokens_cached_total"}]},
}


def _image(release: str) -> str:
    """With CUDA 12, which has code for GPUs since Maxwell; that of CUDA 13 begins at Turing. A build may be said by its number alone."""
    return f"ghcr.io/ggml-org/llama.cpp:server-cuda12-b{release.removeprefix('b')}"


def _paths(releases: Iterable[str]) -> list[str]:
    is_late = all(build_of(release) >= _SEEN for release in releases)
    return [*_PATHS, *(_LATER_PATHS if is_late else ())]


def _answers_with(options: Mapping[str, object], config: Mapping[str, object]) -> str:
    return "embedding" if options.get("embedding") else "token"


ENGINE = Engine(
    name="llama_cpp",
    title="llama.cpp",
    example_release="b9603",
    image=_image,
    inputs=inputs,
    plan=plan,
    plan_warnings=lambda *asked: table().warnings(*asked),
    launch=launch,
    sections=sections,
    settings=SETTINGS,
    shared=SETTINGS,
    context="ctx_size",
    reads_config=False,
    models=("model", "draft_model"),
    answers_with=_answers_with,
    environment=environment,
    # llama-server reads each of its options there, too (common/arg.cpp).
    owned_variables={"LLAMA_ARG_*": "llama_cpp_options", "LLAMA_API_KEY": "llama_cpp_api_key"},
    caches=CACHES,
    start_phases=_PHASES,
    paths=_paths,
    is_local=is_open,
    on_request=True,
    alike_settings={"ctx_size": "gateway_differs_length", "file": "gateway_differs_answers"},
    metrics_by_probe=True,
    metrics=lambda: _METRICS,
)
