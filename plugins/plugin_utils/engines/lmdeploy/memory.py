# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model takes of GPUs with TurboMind: an estimate, which nobody compared with a start. The rules and their sources are in data.yml.

After the weights TurboMind fills a share of what is free on the fullest GPU with its cache; what it computes takes of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.estimates import MARGIN, Estimate, weights_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy.arguments import facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.kv import token_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Attention, Model


def estimate(model: Model, gpus: Sequence[Gpu], spread: int, share: float, policy: int) -> Estimate:
    """The first ``spread`` of these GPUs with a model, the cache's ``share`` of what is left, and quant_policy."""
    weights = weights_of(model, spread)
    left = min(gpu.total - MARGIN for gpu in gpus[:spread]) - weights
    token = max(1, sum(_token(layer.attention, spread, policy) for layer in model.layers))
    cache = int(max(0, left) * share)
    return Estimate(spread, weights, left, cache, cache // token, token, share)


def needed(found: Estimate, length: int) -> int:
    """Bytes of each GPU, without the margin, for a context of ``length`` tokens."""
    return found.weights + int(length * found.token / found.share)


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
