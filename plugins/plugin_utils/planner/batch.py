# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much an engine computes at once: tokens and sequences of a step, and whether a prompt may come in chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key


class Batch(NamedTuple):
    tokens: int
    sequences: int
    chunked_prefill: bool


def v1_batch(raw: Mapping[str, object], gpus: Sequence[Gpu], key: tuple[int, ...], max_model_len: int) -> Batch:
    """By the memory of the weakest GPU."""
    sequences, tokens = _asked(raw)
    usual_tokens, usual_sequences = _v1_usual(raw, gpus, key)
    chunked = fields.truth(raw.get("enable_chunked_prefill"), "settings.enable_chunked_prefill", True)
    final_sequences = sequences or usual_sequences
    final_tokens = tokens or (usual_tokens if chunked else max(usual_tokens, max_model_len))
    if not tokens:
        final_tokens = max(min(final_tokens, final_sequences * max_model_len), 1)
    if not sequences and at(changes.V1_SEQS_WITHIN_BATCH, key):
        final_sequences = min(final_sequences, final_tokens)
    return Batch(final_tokens, final_sequences, chunked)


def _v1_usual(raw: Mapping[str, object], gpus: Sequence[Gpu], key: tuple[int, ...]) -> tuple[int, int]:
    """Tokens and sequences where nobody says how many."""
    weakest = min(gpu.total for gpu in gpus)
    small = any(name in gpu.name for gpu in gpus for name in at(changes.V1_TIERS_SMALL_NAMES, key))
    found = 2048, 256
    for least, tokens, sequences in at(
        changes.V1_TIERS_OFFLINE if raw.get("usage") == "offline" else changes.V1_TIERS, key
    ):
        if weakest >= least * changes.GIB and not (small and least):
            found = tokens, sequences
    return found


def v0_batch(raw: Mapping[str, object], model: Model, key: tuple[int, ...], max_model_len: int, latent: bool) -> Batch:
    """By the length of the context. ``latent`` is whether MLA keeps one vector for each token.

    vllm/engine/arg_utils.py, create_engine_config and _set_default_args_v0 of 0.5.4 to 0.10.2.
    """
    sequences, tokens = _asked(raw)
    above = at(changes.V0_AUTO_CHUNKED_ABOVE, key)
    lora = fields.truth(raw.get("enable_lora"), "settings.enable_lora")
    caching = key < release_key("0.6.0") and fields.truth(raw.get("enable_prefix_caching"), "settings")
    # 0.7 turns chunked prefill on, sizes the batch by it, and only then off for MLA.
    latent = latent and key >= release_key("0.8.0") and any(layer.attention.kind == "mla" for layer in model.layers)
    steady = not (lora or model.slides or caching or latent or model.traits.get("vision"))
    automatic = above is not None and max_model_len > above and steady
    chunked = fields.truth(raw.get("enable_chunked_prefill"), "settings.enable_chunked_prefill", automatic)
    with_chunks, floor = at(changes.V0_BATCHED_TOKENS, key)
    usual_tokens = with_chunks if chunked and with_chunks else max(max_model_len, floor)
    return Batch(tokens or usual_tokens, sequences or changes.V0_SEQS, chunked)


def _asked(raw: Mapping[str, object]) -> tuple[int | None, int | None]:
    sequences = fields.whole(raw, ("max_num_seqs",), "settings")
    return sequences, fields.whole(raw, ("max_num_batched_tokens",), "settings")
