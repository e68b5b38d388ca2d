# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The activation peak of the profile run: what the release executes before it sizes the KV cache."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.module_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.module_utils.planner.parallel import Shard
from ansible_collections.baremetal.llm.plugins.module_utils.planner.settings import Settings
from ansible_collections.baremetal.llm.plugins.module_utils.planner.weights import DTYPE_BYTES, padded_vocabulary

MIB = 1024**2
CUBLAS_WORKSPACE = {True: 32 * MIB, False: 8 * MIB + 128 * 1024}


def forward_elements(model: Model, shard: Shard) -> float:
    """Elements of the model's dtype that live for each token at the fullest moment of a layer."""
    held = int(model.traits.get("hidden_held", 3))
    if held == 4:
        held = 3 + int(shard.first) + int(shard.tp > 1)
    worst = 0.0
    for layer in set(model.layers[shard.first_layer : shard.last_layer]):
        mlp = layer.mlp
        if mlp.kind == "moe":
            inner = mlp.expert_intermediate / shard.tp
            own = mlp.per_token * (model.hidden + max(3 * inner, model.hidden)) + 3 * mlp.shared_intermediate / shard.tp
        else:
            own = (3 if mlp.kind == "gated" else 2) * mlp.intermediate / shard.tp
        worst = max(worst, own + held * model.hidden)
    return worst


def peak(model: Model, shard: Shard, settings: Settings, dtype: str, capability: tuple[int, int]) -> int:
    """Bytes of the profile run's peak on one rank."""
    width = DTYPE_BYTES[dtype]
    workspace = CUBLAS_WORKSPACE[capability >= (9, 0)]
    tokens = settings.batched_tokens
    forward = int(tokens * width * forward_elements(model, shard)) + workspace
    if not shard.last:
        return forward
    rows = min(settings.sequences, tokens)
    logits = rows * padded_vocabulary(model.vocabulary)
    if settings.engine == "V1":
        sampler = logits * (width + 4) + tokens * model.hidden * width + rows * model.hidden * width + workspace
    else:
        sampler = logits * (width + 4 + 4 + 8 + 4) + tokens * model.hidden * width + workspace
    return max(forward, sampler)
