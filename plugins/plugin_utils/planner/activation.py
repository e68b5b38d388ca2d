# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The activation peak of the profile run: what the release executes before it sizes the KV cache.

Two moments compete: the fullest moment of a forward over max_num_batched_tokens, and the sampler over max_num_seqs rows of the
vocabulary. What lives at each moment is read from the model code (which Python names still hold a tensor) and from the
runner; it is counted in elements per token, not fitted.
"""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import profile
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Attention, Layer, Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.quantization import kernels
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import Shard, padded_vocabulary
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.weights import DTYPE_BYTES

MIB = 1024**2


class Context(NamedTuple):
    """What the moments of one rank have in common."""

    model: Model
    shard: Shard
    settings: Settings
    width: int
    capability: tuple[int, int]

    @property
    def compiled(self) -> bool:
        """V1 runs the model through torch.compile by default."""
        return self.settings.engine == "V1" and not self.settings.eager

    @property
    def quantises_inputs(self) -> bool:
        """8-bit products: the input of each linear layer is quantised first (not where Marlin reads 8-bit weights)."""
        scheme = self.model.quantization.scheme
        if scheme.startswith("fp8"):
            return self.capability >= (8, 9)
        return scheme == "int8_channel"

    @property
    def method(self) -> str:
        """The name of the quantisation's kernels."""
        asked = str(self.settings.quantization or "").strip().lower() or None
        return kernels(self.model.quantization, asked, self.settings.release.key, self.capability)[0] or "none"

    @property
    def in_turn(self) -> bool:
        """Whether one expert after the other runs over all tokens, whole on one rank."""
        fused = at(profile.MIXTRAL_FUSED, self.settings.release.key)
        return self.model.architecture == "MixtralForCausalLM" and fused is not None and self.method not in fused

    @property
    def shared(self) -> int:
        """1 when a row-parallel layer's sum needs a tensor of its own."""
        return int(self.shard.tp > 1)

    @property
    def held(self) -> int:
        """Tensors of the hidden size that the loop over layers holds: the residual and the layer's input.

        On later stages the residual lies in the buffer that receives it, which is not part of the peak.
        """
        return (2 if self.shard.first else 1) + whole(self.model.traits.get("norm_copies", 0))


def runner(model: Model, settings: Settings) -> str:
    """Which model runner the release chooses: v0, v1 or v2."""
    if settings.engine == "V0":
        return "v0"
    flag = settings.environment.get("VLLM_USE_V2_MODEL_RUNNER")
    key = settings.release.key
    if flag == "0" or key < release_key(profile.V2_RUNNER[0][0]):
        return "v1"
    if flag == "1":
        return "v2"
    rule = at(profile.V2_RUNNER, key)
    if rule.everything or model.architecture in rule.architectures:
        return "v2"
    moe = any(layer.mlp.kind == "moe" for layer in model.layers)
    hybrid = any(layer.attention.kind == "linear" for layer in model.layers)
    if moe or hybrid or not rule.dense or (model.quantization.method != "none" and not rule.quantised):
        return "v1"
    return "v2"


def attention_elements(spec: Attention, hidden: int, context: Context) -> float:
    """Elements for each token at the attention's end, without what the loop holds."""
    tp = context.shard.tp
    out = hidden * (1 + context.shared)
    if spec.kind == "mla":
        heads = spec.heads // tp
        query = heads * spec.head_dim
        latent = spec.kv_lora + spec.rope_dim
        mixed = spec.q_lora + latent + spec.q_lora if spec.q_lora else latent
        return query + mixed + spec.kv_lora + heads * spec.value_dim
    if spec.kind == "linear":
        if spec.linear is None:
            raise ValueError("a linear layer without its sizes")
        key_heads, value_heads, key_dim, value_dim, _dummy = spec.linear
        return (4 * key_heads * key_dim + 4 * value_heads * value_dim) / tp + out
    kv = max(1, spec.kv_heads // tp) * spec.head_dim
    query = spec.heads // tp * spec.head_dim
    fused = query * (2 if spec.output_gate else 1) + 2 * kv
    copies = query + kv if spec.qk_norm else 0
    return fused + copies + query + out


def feed_forward_elements(kind: str, intermediate: float, hidden: int, context: Context) -> float:
    """Elements for each token at the fullest moment of a dense MLP, without what the loop holds."""
    summed = context.shared
    if kind == "plain":
        return 2 * intermediate + hidden
    if context.quantises_inputs:
        # The 8-bit copy of down_proj's input lives beside everything until the product is there, and not while that is summed.
        copy = intermediate / context.width
        if context.compiled:  # one kernel activates and quantises: there is no 16-bit activation
            return 2 * intermediate + copy + hidden
        rest = 2 * intermediate if context.model.traits.get("mlp_keeps") else 0
        product = rest + intermediate + max(copy + 2 * hidden, (2 + summed) * hidden)
        return max(3 * intermediate + hidden, product)
    if context.compiled:
        return 3 * intermediate + hidden
    if context.model.traits.get("mlp_keeps"):
        return 3 * intermediate + (2 + summed) * hidden
    return max(3 * intermediate + hidden, intermediate + (2 + summed) * hidden)


def partial_sums_elements(layer: Layer, context: Context) -> float:
    """Elements for each token at the fullest moment of AWQ's kernel with partial sums, without what the loop holds; 0 without them."""
    sums = at(profile.AWQ_PARTIAL_SUMS, context.settings.release.key)
    if not sums or context.method != "awq" or layer.attention.kind != "gqa":
        return 0
    hidden, tp, spec = context.model.hidden, context.shard.tp, layer.attention
    query = spec.heads // tp * spec.head_dim
    # What lives beside each product, and its size: for experts in turn the first product, and the sum of the experts before.
    products = [(float(hidden), float(query + 2 * max(1, spec.kv_heads // tp) * spec.head_dim)), (query, hidden)]
    if context.in_turn:
        inner = layer.mlp.expert_intermediate
        products += [(2 * hidden + inner, inner), (hidden + inner, hidden)]
    elif layer.mlp.kind != "moe":
        inner_part = layer.mlp.intermediate / tp
        products += [(hidden, 2 * inner_part), (inner_part, hidden)]
    return max(beside + (1 + sums) * product for beside, product in products)


def expert_bytes(layer: Layer, context: Context, tokens: int) -> tuple[int, bool]:
    """Bytes of the experts' intermediate results, and whether they stay allocated after the forward."""
    mlp = layer.mlp
    if context.in_turn:
        return tokens * (3 * mlp.expert_intermediate + context.model.hidden) * context.width, False
    settings = context.settings
    key = settings.release.key
    inner = mlp.expert_intermediate if settings.expert_parallel else mlp.expert_intermediate / context.shard.tp
    hidden = context.model.hidden
    chunk = min(tokens, at(profile.MOE_CHUNK, key))
    style = at(profile.MOE_BUFFERS, key)
    if (context.model.quantization.scheme, context.capability[0]) in profile.MOE_FREED:
        style = "separate"
    if style == "workspace":
        rows = tokens * mlp.per_token
        return int(rows * (max(inner, hidden) + max(2 * inner, hidden)) * context.width), True
    rows = chunk * mlp.per_token
    if style == "shared":
        return int(rows * (max(2 * inner, hidden) + inner) * context.width), False
    return int(rows * (2 * inner + inner + hidden) * context.width), False


def layer_bytes(layer: Layer, context: Context, tokens: int) -> int:
    """Bytes at the fullest moment of one layer, without buffers that stay."""
    hidden, width = context.model.hidden, context.width
    held = context.held
    attention = attention_elements(layer.attention, hidden, context) + held * hidden
    after = tokens * width * attention + _latent_bytes(layer.attention, context)
    if sums := partial_sums_elements(layer, context):
        after = max(after, tokens * width * (sums + held * hidden))
    mlp = layer.mlp
    # Beside the loop's tensors the layer's own input lives during the MLP.
    if mlp.kind == "moe":
        buffers, stays = expert_bytes(layer, context, tokens)
        shared = 0.0
        if mlp.shared_intermediate:
            shared = feed_forward_elements("gated", mlp.shared_intermediate / context.shard.tp, hidden, context)
        routed = hidden * (1 + context.shared) + 2 * mlp.experts
        inside = tokens * width * ((held + 1) * hidden + max(shared, routed + (hidden if shared else 0)))
        return int(max(after, inside + (0 if stays else buffers)))
    own = feed_forward_elements(mlp.kind, mlp.intermediate / context.shard.tp, hidden, context)
    # The loop's input of the layer is freed only after the layer: it counts with the layer's own.
    return int(max(after, tokens * width * (own + held * hidden)))


def _latent_bytes(spec: Attention, context: Context) -> int:
    """MLA: the profile run imitates the decompression of the longest chunked context."""
    settings = context.settings
    if spec.kind != "mla" or not at(profile.MLA_CONTEXT_IMITATED, settings.release.key) or settings.engine != "V1":
        return 0
    rows = min(max(8 * settings.max_model_len, 4 * settings.sequences * settings.block_size), 64 * 1024)
    rows = max(rows, settings.sequences * settings.block_size)
    return rows * spec.heads // context.shard.tp * (spec.nope_dim + spec.value_dim) * context.width


def sampler_bytes(context: Context, tokens: int) -> int:
    """Bytes of the sampler's moment on a rank that samples."""
    model, settings = context.model, context.settings
    which = runner(model, settings)
    rows = min(settings.sequences, tokens)
    entries = rows * padded_vocabulary(model.vocabulary)
    each, processors = at(profile.SAMPLER[which], settings.release.key)
    total = entries * (each - 2 + context.width) + tokens * model.hidden * context.width
    total += rows * model.hidden * context.width
    if which == "v1":
        total += rows * model.hidden * context.width
    if processors:
        total += min(rows, profile.processors(context.capability)) * padded_vocabulary(model.vocabulary) * 4
    return int(total)


def peak(
    model: Model, shard: Shard, settings: Settings, dtype: str, capability: tuple[int, int], tensor_rank: int = 0
) -> int:
    """Bytes of the profile run's peak on one rank."""
    own = _allocated_peak(model, shard, settings, dtype, capability, tensor_rank)
    if settings.engine == "V0" and at(changes.BUDGET_V0, settings.release.key) in ("device", "growth"):
        return int(own * changes.RESERVED_OVER_ALLOCATED)
    return own


def _allocated_peak(
    model: Model, shard: Shard, settings: Settings, dtype: str, capability: tuple[int, int], tensor_rank: int
) -> int:
    context = Context(model, shard, settings, DTYPE_BYTES[dtype], capability)
    tokens = settings.batched_tokens
    layers = set(model.layers[shard.first_layer : shard.last_layer])
    stays = 0
    forward = 0
    for layer in layers:
        if layer.mlp.kind == "moe":
            buffers, kept = expert_bytes(layer, context, tokens)
            stays = max(stays, buffers if kept else 0)
    for layer in layers:
        dense_before = layer.mlp.kind != "moe" and stays and layer == model.layers[shard.first_layer]
        forward = max(forward, layer_bytes(layer, context, tokens) + (0 if dense_before else stays))
    # Quantised linear layers run on kernels of their own; the head still needs cuBLAS.
    fixed = profile.cublas_workspace(capability)
    own_kernels = model.quantization.scheme in profile.OWN_KERNELS
    if context.compiled:
        forward += profile.COMPILED_EXTRA
        if shard.first and at(profile.COMPILE_COPIES_EMBEDDING, settings.release.key):
            forward = max(forward, padded_vocabulary(model.vocabulary) // shard.tp * model.hidden * context.width)
    if not shard.last:
        return forward + (0 if own_kernels else fixed)
    if settings.engine == "V0" and tensor_rank > 0:
        # Only the first rank of the stage gathers the logits and samples.
        rows = min(settings.sequences, tokens)
        part = rows * padded_vocabulary(model.vocabulary) // shard.tp * context.width
        return max(forward + (0 if own_kernels else fixed), part + tokens * model.hidden * context.width + fixed)
    return max(forward + (0 if own_kernels else fixed), sampler_bytes(context, tokens) + stays + fixed)
