# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which attention backend a release takes for a model on a GPU, and what a start asks of it that it cannot do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import attention as facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.attention import Backend
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.flavours import Flavour
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import Fix, StartError, start_error
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import (
    Settings,
    keeps_latent,
    v1_is_demanded,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key, within

LETTERS = {"float16": "h", "bfloat16": "b", "float32": "f"}
DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


class Choice(NamedTuple):
    """The backend that runs, or the last one that was tried with the reasons why it cannot."""

    backend: Backend
    errors: tuple[StartError, ...]


def backends(engine: str, kind: str, key: tuple[int, ...], capability: tuple[int, int]) -> list[Backend]:
    """What a release tries on a GPU, the first choice first. ``kind`` is gqa or mla."""
    rows = facts.ORDER.get((engine, kind), [])
    if not rows or key < release_key(rows[0][0]):
        return []
    names: tuple[str, ...] = ()
    for least, order in at(rows, key):
        names = order if capability >= least else names
    found = [at(facts.BACKENDS[name], key) for name in names]
    return [one for one in found if one.least <= capability < one.below]


def choose(model: Model, settings: Settings, gpu: Gpu, dtype: str) -> Choice | None:
    """The backend for a model on a GPU; None where the release has none at all."""
    key = settings.release.key
    if settings.flavour is not None and gpu.capability_text in settings.flavour.gpus:
        own = _of_flavour(settings.flavour, gpu)
        return Choice(own, tuple(refused for _dummy, refused in _lacks(own, model, settings, gpu, dtype)))
    kind = "gqa" if not latent(model, settings) else "sparse" if sparse(model) else "mla"
    passes = at(facts.PASSES_ON[settings.engine], key)
    last: Choice | None = None
    for one in backends(settings.engine, kind, key, gpu.capability):
        lacks = list(_lacks(one, model, settings, gpu, dtype))
        last = Choice(one, tuple(refused for _dummy, refused in lacks))
        if not any(what in passes for what, _dummy in lacks):
            break
    return last


def _of_flavour(flavour: Flavour, gpu: Gpu) -> Backend:
    """The backend of a fork. Of its head and block sizes nothing is known."""
    fp8 = gpu.capability if flavour.fp8_cache else None
    return Backend(flavour.backend, gpu.capability, (99, 0), "*", "*", "h", fp8, gpu.capability, True, True, None)


def latent(model: Model, settings: Settings) -> bool:
    """Whether the model has multi-head latent attention, and the release runs it as such."""
    kept = keeps_latent(settings.engine, settings.release.key, settings.environment)
    return kept and any(layer.attention.kind == "mla" for layer in model.layers)


def sparse(model: Model) -> bool:
    """Whether attention reads only the keys that an indexer chooses."""
    return any(layer.attention.indexer for layer in model.layers)


def check(model: Model, settings: Settings, gpus: Sequence[Gpu], dtype: str) -> Iterator[StartError]:
    """What no backend of the release can do on the weakest of the GPUs."""
    gpu = min(gpus, key=lambda one: one.capability)
    choice = choose(model, settings, gpu, dtype)
    if choice is not None:
        yield from choice.errors
    elif latent(model, settings) and sparse(model):
        yield start_error(
            "feature_not_supported",
            "start_attention_sparse",
            gpu=gpu.name,
            capability=gpu.capability_text,
            version=settings.release.asked,
        )
    elif latent(model, settings):
        environment = {**settings.environment, "VLLM_MLA_DISABLE": "1"}
        yield start_error(
            "feature_not_supported",
            "start_attention_latent",
            {"environment": environment},
            gpu=gpu.name,
            version=settings.release.asked,
        )
    yield from _engine(settings, gpu, choice)
    yield from _named(model, settings, gpu, dtype)
    steps = settings.raw.get("num_scheduler_steps")
    if (
        choice
        and settings.engine == "V0"
        and steps not in (None, 1, "1")
        and choice.backend.name not in facts.MULTI_STEP
    ):
        yield start_error(
            "feature_not_supported",
            "start_feature_multi_step",
            {"num_scheduler_steps": None},
            backend=choice.backend.name,
            gpu=gpu.name,
            version=settings.release.asked,
        )
    if settings.kv_dtype == "bfloat16" and within(settings.release.key, *facts.KV_BFLOAT16_UNSERVED):
        yield start_error(
            "value_not_allowed", "start_kv_unserved", {"kv_cache_dtype": None}, version=settings.release.asked
        )


def _without(settings: Settings, name: str) -> Fix:
    """The environment without a variable."""
    return {"environment": {one: value for one, value in settings.environment.items() if one != name}}


def _engine(settings: Settings, gpu: Gpu, choice: Choice | None) -> Iterator[StartError]:
    """V1, where it was asked for and the release cannot: it falls back to V0 only by itself."""
    key = settings.release.key
    demanded = settings.engine == "V0" and v1_is_demanded(settings.release, settings.environment)
    alone = settings.engine == "V1" and choice is None and not gpu.capability >= at(changes.V1_LOWEST_CAPABILITY, key)
    if not demanded and not alone:
        return
    fix: Fix = {"engine": None} if settings.raw.get("engine") else _without(settings, "VLLM_USE_V1")
    yield start_error("feature_not_supported", "start_v1_refused", fix, gpu=gpu.name, version=settings.release.asked)


def _named(model: Model, settings: Settings, gpu: Gpu, dtype: str) -> Iterator[StartError]:
    """A backend that is named and that the GPU does not run, or that lacks something. V0 passes on from FlashAttention by itself."""
    option, key = settings.raw.get("attention_backend"), settings.release.key
    name = str(option or settings.environment.get("VLLM_ATTENTION_BACKEND", ""))
    fix: Fix = {"attention_backend": None} if option else _without(settings, "VLLM_ATTENTION_BACKEND")
    rows = facts.BACKENDS.get(name, [])
    since = release_key(rows[0][0]) if rows else None
    least = facts.NAMED_LEAST.get(name)
    if least is None and since is not None and key >= since:
        least = at(rows, key).least
    if least is None or (settings.engine == "V0" and name == "FLASH_ATTN"):
        return
    if gpu.capability < least:
        yield start_error(
            "feature_not_supported",
            "start_attention_named",
            fix,
            name=name,
            gpu=gpu.name,
            least="{}.{}".format(*least),
        )
    elif rows and key >= release_key(facts.NAMED_CHECKED_SINCE) and not latent(model, settings):
        refused = next(_lacks(at(rows, key), model, settings, gpu, dtype), None)
        if refused is not None:
            yield refused[1]._replace(fixes=(fix,))


def _lacks(one: Backend, model: Model, settings: Settings, gpu: Gpu, dtype: str) -> Iterator[tuple[str, StartError]]:
    """What the start asks of a backend that it cannot do: what it is, and the error."""
    said = {"backend": one.name, "gpu": gpu.name, "version": settings.release.asked}
    # What Triton does not compile for Volta in 16 bits it does in 32.
    if (one.earlier_keys is None or gpu.capability < one.earlier_keys) and dtype != "float32":
        above = at(changes.V0_AUTO_CHUNKED_ABOVE, settings.release.key) or 0
        for name, active in (
            ("enable_chunked_prefill", settings.chunked_prefill),
            ("enable_prefix_caching", settings.prefix_caching),
        ):
            if active:
                fixes: tuple[Fix, ...] = ({name: False if name not in settings.raw else None}, {name: False})
                yield (
                    "earlier keys",
                    start_error("feature_not_supported", "start_feature_" + name, *fixes, above=above, **said),
                )
    if model.slides and not one.window and not settings.raw.get("disable_sliding_window"):
        yield (
            "window",
            start_error("options_conflict", "start_attention_window", {"disable_sliding_window": True}, **said),
        )
    if "block_size" in settings.raw and not _among(settings.block_size, one.blocks):
        yield (
            "blocks",
            start_error(
                "value_not_allowed",
                "start_attention_block",
                {"block_size": None},
                value=settings.block_size,
                allowed=spoken_sizes(one.blocks),
                **said,
            ),
        )
    for size in sorted({layer.attention.head_dim for layer in model.layers if layer.attention.kind == "gqa"}):
        if not _among(size, one.heads):
            yield (
                "heads",
                start_error(
                    "architecture_not_supported",
                    "start_attention_head",
                    value=size,
                    allowed=spoken_sizes(one.heads),
                    **said,
                ),
            )
    sinks = any(layer.attention.sinks for layer in model.layers)
    if sinks and (one.sinks is None or not one.sinks[0] <= gpu.capability < one.sinks[1]):
        yield "sinks", start_error("architecture_not_supported", "start_attention_sinks", **said)
    if settings.kv_dtype.startswith("fp8") and (one.fp8 is None or gpu.capability < one.fp8):
        yield (
            "fp8",
            start_error(
                "value_not_allowed", "start_attention_fp8", {"kv_cache_dtype": None}, value=settings.kv_dtype, **said
            ),
        )
    if model.soft_cap and not one.soft_cap:
        yield "soft cap", start_error("architecture_not_supported", "start_attention_soft_cap", **said)
    if LETTERS[dtype] not in one.dtypes:
        yield (
            "dtype",
            start_error("dtype_not_supported", "start_attention_dtype", {"dtype": "half"}, dtype=dtype, **said),
        )
    largest = max((layer.attention.head_dim for layer in model.layers if layer.attention.kind == "gqa"), default=0)
    least, below = facts.SHARED_MEMORY
    wide = one.name in facts.SHARED_MEMORY_BACKENDS and least <= gpu.capability < below
    if wide and largest * DTYPE_BYTES[dtype] >= facts.SHARED_MEMORY_HEAD:
        fixes = ({"dtype": "half"},) if dtype == "float32" else ()
        yield (
            "shared memory",
            start_error(
                "feature_not_supported", "start_attention_shared_memory", *fixes, head=largest, dtype=dtype, **said
            ),
        )


def _among(value: int, allowed: str) -> bool:
    """Whether a size is one of those that a table names: 16 32, 16n, 8n256, 32+ or *."""
    if allowed == "*":
        return True
    if allowed.endswith("+"):
        return value >= int(allowed[:-1])
    unit, multiple, most = allowed.partition("n")
    if multiple:
        return value % int(unit) == 0 and (not most or value <= int(most))
    return str(value) in allowed.split()


def spoken_sizes(allowed: str) -> str | Text:
    """The sizes that a table names, in words."""
    unit, multiple, most = allowed.partition("n")
    if allowed == "*":
        return Text("start_any_size")
    if not multiple:
        return allowed.replace(" ", ", ")
    return Text("start_multiples_up_to" if most else "start_multiples", unit=unit, most=most)
