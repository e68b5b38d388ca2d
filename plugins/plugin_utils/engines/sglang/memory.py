# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model takes of GPUs with SGLang: an estimate, which nobody compared with a start. The rules and their sources are in data.yml.

SGLang gives weights and cache a share of each GPU, which it chooses by the GPU's size, and keeps the rest for what it computes. The plan chooses the share as
the newest release does, and tells it the server, so that both agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.estimates import GIB, MARGIN, Estimate, weights_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang.arguments import facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.kv import token_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model

MIB = 1024**2


def share_of(total: int, spread: int, said: Mapping[str, object]) -> float:
    """mem_fraction_static: of a GPU of ``total`` bytes the share of weights and cache, three places. ``said`` are options of the inventory."""
    known = facts()["memory"]
    size = next((row for row in known["sizes"] if total < row["below_gib"] * GIB), known["sizes"][-1])
    tokens = whole(said.get("chunked_prefill_size") or size["tokens"])
    asked = said.get("cuda_graph_max_bs") or said.get("cuda_graph_max_bs_decode")
    graphs = whole(asked or size["graphs"][spread >= 4])
    graphs = min(graphs, whole(said.get("max_running_requests") or graphs))
    kept = known["constant"] + known["each_token"] * max(tokens, known["fewest_tokens"]) + known["each_gpu"] * spread
    kept += known["each_graph"] * graphs + known["prompts"]
    if total > known["large"]["above_gib"] * GIB:
        kept = max(kept, known["large"]["least"])
    return round(max(0.0, 1 - kept * MIB / total), 3)


def estimate(model: Model, gpus: Sequence[Gpu], spread: int, share: float, kv_dtype: str) -> Estimate:
    """The first ``spread`` of these GPUs with a model, mem_fraction_static and kv_cache_dtype."""
    weights = weights_of(model, spread)
    before = min(gpu.total for gpu in gpus[:spread]) - MARGIN
    width = 1 if kv_dtype.startswith("fp8") else 2
    token = max(1, sum(token_bytes(layer.attention, spread, width, True) for layer in model.layers))
    left = int(before * share) - weights
    cache = max(0, left)
    return Estimate(spread, weights, left, cache, cache // token, token, share)


def needed(found: Estimate, length: int) -> int:
    """Bytes of each GPU, without the margin, for a context of ``length`` tokens."""
    return int((found.weights + length * found.token) / found.share) if found.share else 0
