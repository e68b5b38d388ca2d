# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Alternatives: plans next to the chosen one, with what each costs and gains."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.quantization import NAMES, SCHEMES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import CONTEXTS, Prediction
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.quantization import NONE, Quantization
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, within

GIB = 1024**3


class Alternative(NamedTuple):
    """A change to the plan: settings to set, and what it costs and gains in words."""

    change: str | Text
    settings: dict[str, object]
    cost: Text
    gain: Text
    quantization: Quantization | None = None


# What the planner tries, in this order, when a plan does not fit and the user left these open.
MEMORY_STEPS: tuple[dict[str, object], ...] = (
    {},
    {"max_num_seqs": 64},
    {"max_num_seqs": 64, "gpu_memory_utilization": 0.95},
    {"max_num_seqs": 16, "gpu_memory_utilization": 0.95, "max_num_batched_tokens": 2048},
    {"max_num_seqs": 16, "gpu_memory_utilization": 0.95, "max_num_batched_tokens": 2048, "enforce_eager": True},
    {"max_num_seqs": 8, "gpu_memory_utilization": 0.98, "max_num_batched_tokens": 1024, "enforce_eager": True},
)
# A plan with less context than this is not called a fit while another step is left to try.
WANTED_CONTEXT = 4096


def checkpoints(model: Model, key: tuple[int, ...], capability: tuple[int, int]) -> list[tuple[Text, Quantization]]:
    """Quantised checkpoints of this model that the GPU could run: as if someone had published them."""
    if model.quantization.method != "none":
        return []
    candidates = [
        (Text("change_awq"), NONE._replace(method="awq", scheme="int4", bits=4, group=128, zeros=True)),
        (Text("change_gptq"), NONE._replace(method="gptq", scheme="int4", bits=4, group=128)),
        (Text("change_fp8"), NONE._replace(method="compressed-tensors", scheme="fp8_channel", bits=8)),
    ]
    found = []
    for name, scheme in candidates:
        row = NAMES[scheme.method]
        least = at(row.capability, key)
        if scheme.method == "compressed-tensors":
            least = max(least, at(SCHEMES[scheme.scheme], key))
        if within(key, row.since, row.last) and capability[0] * 10 + capability[1] >= least:
            found.append((name, scheme))
    return found


def nearby(
    model: Model, prediction: Prediction, key: tuple[int, ...], capability: tuple[int, int]
) -> list[Alternative]:
    """Changes worth a look beside a plan."""
    resolved = prediction.settings
    found: list[Alternative] = []
    length = resolved.max_model_len
    longest = prediction.longest or 0
    for context in CONTEXTS:
        if context < length and (prediction.ok or context <= max(longest, 512)):
            found.append(
                Alternative(
                    f"max_model_len {context}",
                    {"max_model_len": context},
                    Text("cost_context"),
                    Text("gain_context"),
                )
            )
            break
    if not resolved.eager:
        found.append(Alternative("enforce_eager", {"enforce_eager": True}, Text("cost_eager"), Text("gain_eager")))
    if resolved.sequences > 16:
        fewer = max(16, resolved.sequences // 4)
        found.append(
            Alternative(
                f"max_num_seqs {fewer}",
                {"max_num_seqs": fewer},
                Text("cost_sequences"),
                Text("gain_sequences"),
            )
        )
    chunked = resolved.chunked_prefill
    if resolved.batched_tokens > 1024 and chunked:
        fewer = max(1024, resolved.batched_tokens // 4)
        found.append(
            Alternative(
                f"max_num_batched_tokens {fewer}",
                {"max_num_batched_tokens": fewer},
                Text("cost_batch"),
                Text("gain_batch"),
            )
        )
    if resolved.utilization < 0.95:
        found.append(
            Alternative(
                "gpu_memory_utilization 0.95",
                {"gpu_memory_utilization": 0.95},
                Text("cost_utilization"),
                Text("gain_utilization"),
            )
        )
    if not resolved.kv_dtype.startswith("fp8") and capability >= (8, 9):
        found.append(
            Alternative("kv_cache_dtype fp8", {"kv_cache_dtype": "fp8"}, Text("cost_fp8_cache"), Text("gain_fp8_cache"))
        )
    for name, scheme in checkpoints(model, key, capability):
        found.append(
            Alternative(name, {"quantization": None}, Text("cost_checkpoint"), Text("gain_checkpoint"), scheme)
        )
    if within(key, "0.5.3", None) and not resolved.cpu_offload and prediction.ranks:
        short = -min(rank.available for rank in prediction.ranks)
        size = max(2, -(-short // GIB) + 2)
        found.append(
            Alternative(
                f"cpu_offload_gb {size}",
                {"cpu_offload_gb": size},
                Text("cost_offload", size=size),
                Text("gain_offload"),
            )
        )
    return found
