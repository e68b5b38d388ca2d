# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model takes of GPUs with TurboMind: an estimate, which nobody compared with a start. The rules and their sources are in data.yml.

After the weights TurboMind fills a share of what is free on the fullest GPU with its cache; what it computes takes of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy.arguments import facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.kv import token_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Attention, Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.parallel import Shard
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import NEWEST, release_key
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.weights import Loading, rank_weights

GIB = 1024**3
# Of each GPU, for CUDA's context, the libraries and the collectives: not measured.
MARGIN = GIB
# Over how many GPUs a layer is spread where nobody says it.
SPREADS = (1, 2, 4, 8)


class Estimate(NamedTuple):
    """Bytes on each GPU, and for how many tokens of all requests together its cache has room."""

    spread: int
    weights: int
    # What is left of the smallest GPU after the margin and the weights; below nothing where these do not fit. The cache is a share of it.
    left: int
    cache: int
    tokens: int
    token: int


def spread_of(model: Model, count: int) -> int:
    """Over how many of a host's GPUs a layer is spread: as many as divide its heads of keys and values."""
    return max(size for size in SPREADS if size <= max(1, count) and divides(model, size))


def divides(model: Model, spread: int) -> bool:
    """Whether the heads of every layer can be spread: TurboMind repeats heads of keys and values where it has more GPUs than heads."""
    attentions = [layer.attention for layer in model.layers if layer.attention.kind != "linear"]
    return all(
        one.heads % spread == 0 and (one.kv_heads % spread == 0 or spread % max(1, one.kv_heads) == 0)
        for one in attentions
    )


def estimate(model: Model, gpus: Sequence[Gpu], spread: int, share: float, policy: int) -> Estimate:
    """The first ``spread`` of these GPUs with a model, the cache's ``share`` of what is left, and quant_policy."""
    whole = Shard(1, 1, 0, 0, len(model.layers))
    weights = rank_weights(model, whole, "float16", release_key(NEWEST), Loading(capability=(9, 0))) // spread
    left = min(gpu.total - MARGIN for gpu in gpus[:spread]) - weights
    token = max(1, sum(_token(layer.attention, spread, policy) for layer in model.layers))
    cache = int(max(0, left) * share)
    return Estimate(spread, weights, left, cache, cache // token, token)


def _token(attention: Attention, spread: int, policy: int) -> int:
    """Bytes of a token in one layer on a GPU."""
    bits = facts()["caches"]["bits"].get(policy, 0)
    if not bits:
        return token_bytes(attention, spread, 2, False)
    heads = max(1, attention.kv_heads // spread)
    return int(heads * ((attention.head_dim + attention.value_dim) * bits // 8 + 2 * facts()["memory"]["scales"]))


def most_requests(gpus: Sequence[Gpu]) -> int:
    """How many requests LMDeploy computes at once where nobody says it."""
    known = facts()["batch"]
    name = gpus[0].name.lower()
    return next((count for word, count in known["by_name"].items() if word in name), known["others"])
