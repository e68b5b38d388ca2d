# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that a release takes one by one and refuses together, or with this model.

Source: vllm/config, vllm/engine/arg_utils.py, vllm/core/block_manager_v1.py and vllm/attention of the releases' wheels, 0.3.0 to 0.12.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import number
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.attention import latent
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.registry import registry
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import Fix, StartError, start_error
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key, within

CODE = "options_conflict"


def check(model: Model, settings: Settings, method: str | None, gpus: Sequence[Gpu]) -> Iterator[StartError]:
    """Errors of combinations. ``method`` is the quantisation's name that the release runs."""
    yield from _windows(model, settings)
    yield from _lora(model, settings, method, min(gpus, key=lambda one: one.capability))
    yield from _offload(model, settings, method)
    yield from _experts(model, settings)
    yield from _blocks(settings)
    yield from _bitsandbytes(settings, method)
    yield from _formats(model, settings)
    yield from _contexts(model, settings)
    yield from _scheduler(settings)
    yield from _runner(model, settings)
    yield from _others(settings, method)


def _together(settings: Settings, one: str, other: str | Text, *names: str) -> StartError:
    """An option that excludes another, or something of the model. `names` are the options to leave out, if not these two."""
    names = names or tuple(name for name in (other, one) if isinstance(name, str))
    fixes: list[Fix] = [{name: None} for name in names if name in settings.raw]
    if "enable_chunked_prefill" in names and "enable_chunked_prefill" not in settings.raw:
        fixes.insert(0, {"enable_chunked_prefill": False})
    return start_error(CODE, "start_together", *fixes, version=settings.release.asked, one=one, other=other)


def _needs(settings: Settings, one: str, other: str | Text, value: object = None) -> StartError:
    """An option that needs another, which `value` would set."""
    fixes: list[Fix] = [{other: value}] if value is not None and isinstance(other, str) else []
    return start_error(CODE, "start_needs", *fixes, {one: None}, version=settings.release.asked, one=one, other=other)


def _above(name: str, value: int) -> Text:
    return Text("start_above", name=name, value=value)


def _on(settings: Settings, name: str) -> bool:
    return fields.truth(settings.raw.get(name), f"settings.{name}")


def _number(value: object) -> float:
    try:
        return number(value or 0)
    except (TypeError, ValueError):
        return 0.0


def _windows(model: Model, settings: Settings) -> Iterator[StartError]:
    if _on(settings, "disable_sliding_window") or not model.slides:
        return
    key = settings.release.key
    off = {"disable_sliding_window": True}
    partly = model.window_from not in (None, len(model.layers)) and key > release_key(changes.QWEN_WITHOUT_WINDOW[1])
    if model.model_type in ("qwen2", "qwen3") and (partly or within(key, *changes.QWEN_WITHOUT_WINDOW)):
        yield start_error(
            CODE, "start_windows_model", off, version=settings.release.asked, architecture=model.architecture
        )
    if settings.engine != "V0":
        return
    if settings.prefix_caching and key >= release_key("0.4.0"):
        yield _together(settings, "enable_prefix_caching", Text("start_sliding_window"))
    if settings.chunked_prefill and within(key, "0.4.3", "0.5.5") and not _on(settings, "use_v2_block_manager"):
        yield _together(settings, "enable_chunked_prefill", Text("start_sliding_window"))


def _lora(model: Model, settings: Settings, method: str | None, gpu: Gpu) -> Iterator[StartError]:
    if settings.lora is None:
        return
    key = settings.release.key
    most_words = at(changes.LORA_VOCABULARY, key)
    if model.vocabulary > most_words:
        said = {"version": settings.release.asked, "most": most_words, "vocabulary": model.vocabulary}
        yield start_error("feature_not_supported", "start_lora_vocabulary", {"enable_lora": None}, **said)
    rows = [row for row in registry().get(model.architecture, ()) if within(key, row.since, row.last)]
    if rows and all(row.lora is None or key < release_key(row.lora) for row in rows):
        said = {"version": settings.release.asked, "architecture": model.architecture}
        yield start_error("feature_not_supported", "start_lora_architecture", {"enable_lora": None}, **said)
    least = at(changes.LORA_LEAST, key)
    if gpu.capability < least:
        capability = "{}.{}".format(*least)
        said = {"gpu": gpu.name, "version": settings.release.asked, "least": capability}
        yield start_error("feature_not_supported", "start_feature_lora", {"enable_lora": None}, **said)
    if settings.chunked_prefill and within(key, "0.5.1", "0.6.4.post1"):
        yield _together(settings, "enable_lora", "enable_chunked_prefill")
    if settings.engine == "V0" and settings.cpu_offload and within(key, "0.7.1", "0.10.2"):
        yield _together(settings, "enable_lora", "cpu_offload_gb")
    if method and key < release_key("0.4.1"):
        yield _together(settings, "enable_lora", "quantization")
    if settings.batched_tokens > 65528 and key < release_key("0.6.0"):
        yield _together(
            settings, "enable_lora", _above("max_num_batched_tokens", 65528), "max_num_batched_tokens", "enable_lora"
        )
    most = settings.raw.get("max_cpu_loras")
    if most is not None and 0 < _number(most) < settings.lora[0]:
        yield _together(
            settings, "max_cpu_loras", _above("max_loras", int(_number(most))), "max_cpu_loras", "max_loras"
        )


def _offload(model: Model, settings: Settings, method: str | None) -> Iterator[StartError]:
    """Weights in the host's memory that V0 does not find again."""
    if not settings.cpu_offload or settings.engine != "V0":
        return
    key, name = settings.release.key, str(method)
    lost: list[str | Text] = ["enable_lora"] if settings.lora is not None and key < release_key("0.7.1") else []
    broken = within(key, *changes.MARLIN_OFFLOAD_BROKEN) and (name.endswith("_marlin") or name == "fp8")
    if name in changes.V0_OFFLOAD_LACKS or broken:
        lost.append(Text("start_checkpoint_of", method=name))
    if latent(model, settings):
        lost.append(Text("start_latent"))
    for other in lost:
        yield start_error(
            CODE, "start_offload_loses", {"cpu_offload_gb": None}, version=settings.release.asked, other=other
        )


def _experts(model: Model, settings: Settings) -> Iterator[StartError]:
    if settings.expert_parallel and not model.experts and settings.release.key >= release_key("0.8.3"):
        yield _together(settings, "enable_expert_parallel", Text("start_no_experts"))
    if _on(settings, "enable_eplb"):
        if not settings.expert_parallel:
            yield _needs(settings, "enable_eplb", "enable_expert_parallel", True)
        elif settings.tp * settings.dp < 2:
            yield _needs(settings, "enable_eplb", _above("tensor_parallel_size", 1))


def _blocks(settings: Settings) -> Iterator[StartError]:
    size, key = settings.block_size, settings.release.key
    if "block_size" not in settings.raw:
        return
    if size > 32 and within(key, "0.6.4", "0.6.6.post1"):
        yield start_error(
            "value_not_allowed",
            "start_block_size_most",
            {"block_size": None},
            value=size,
            version=settings.release.asked,
            most=32,
        )


def _bitsandbytes(settings: Settings, method: str | None) -> Iterator[StartError]:
    key = settings.release.key
    named = str(settings.raw.get("quantization") or "").lower() == "bitsandbytes"
    loads = settings.raw.get("load_format") == "bitsandbytes"
    if within(key, "0.5.0", "0.8.1"):
        if named and not loads:
            yield _needs(settings, "quantization", "load_format", "bitsandbytes")
        if loads and not named:
            yield _needs(settings, "load_format", "quantization", "bitsandbytes")
    if method != "bitsandbytes":
        return
    if within(key, "0.5.0", changes.BITSANDBYTES_ALONE_LAST) and settings.tp * settings.pp > 1:
        yield _together(
            settings, "quantization", Text("start_several_ranks"), "tensor_parallel_size", "pipeline_parallel_size"
        )
    if within(key, *changes.BITSANDBYTES_EAGER) and not settings.eager:
        yield _needs(settings, "quantization", "enforce_eager", True)


def _formats(model: Model, settings: Settings) -> Iterator[StartError]:
    # _verify_load_format in vllm/config.py
    pickled = settings.raw.get("load_format") == "pt"
    if pickled and model.architecture == "MixtralForCausalLM" and settings.release.key <= release_key("0.4.0.post1"):
        yield _together(settings, model.architecture, "load_format pt", "load_format")


def _contexts(model: Model, settings: Settings) -> Iterator[StartError]:
    """Decode context parallelism splits tensor-parallel groups, and where keys and values are of heads it takes the ranks that repeat them."""
    name = "decode_context_parallel_size"
    parts = int(_number(settings.raw.get(name)))
    if parts <= 1:
        return
    if settings.tp % parts:
        yield start_error(CODE, "start_context_parts", {name: None}, parts=parts, tp=settings.tp)
        return
    specs = {layer.attention for layer in model.layers if layer.attention.kind == "gqa"}
    most = min((settings.tp // spec.kv_heads for spec in specs), default=settings.tp)
    uneven = any(spec.heads // spec.kv_heads % parts for spec in specs)
    if settings.release.key >= release_key("0.11.1") and (parts > most or uneven):
        yield start_error(CODE, "start_context_heads", {name: None}, parts=parts, tp=settings.tp, most=max(most, 1))


def _scheduler(settings: Settings) -> Iterator[StartError]:
    if _number(settings.raw.get("max_num_partial_prefills")) > 1 and not settings.chunked_prefill:
        yield _needs(settings, "max_num_partial_prefills", "enable_chunked_prefill", True)
    steps = settings.raw.get("num_scheduler_steps")
    if steps is None or _number(steps) <= 1:
        return
    key = settings.release.key
    if settings.chunked_prefill and key < release_key("0.6.2"):
        yield _together(settings, "num_scheduler_steps", "enable_chunked_prefill")
    elif settings.chunked_prefill and settings.pp > 1:
        yield _together(settings, "num_scheduler_steps", "pipeline_parallel_size", "num_scheduler_steps")


def _runner(model: Model, settings: Settings) -> Iterator[StartError]:
    """What the second model runner lacks where the environment demands it (_validate_v2_model_runner in vllm/config/vllm.py)."""
    asked = str(settings.environment.get(changes.SECOND_RUNNER, "")).lower()
    key, said = settings.release.key, settings.raw.get("speculative_config")
    lacking: list[str | Text] = []
    if asked in ("0", "false") and key >= release_key(changes.FIRST_RUNNER_NO_PIPELINE) and settings.pp > 1:
        lacking.append("pipeline_parallel_size")
    if asked in ("1", "true"):
        method = str(said.get("method") or "draft_model") if isinstance(said, Mapping) else ""
        first = within(key, *changes.SECOND_RUNNER_EAGLE_ONLY) and not method.startswith(("eagle", "mtp"))
        later = key > release_key(changes.SECOND_RUNNER_EAGLE_ONLY[1]) and method in ("suffix", "custom_class")
        if method and (first or later):
            lacking.append(f"speculative_config {method}")
        linear = any(layer.attention.kind == "linear" for layer in model.layers)
        if linear and within(key, *changes.SECOND_RUNNER_NO_HYBRIDS):
            lacking.append(model.architecture)
    without = {
        "environment": {name: value for name, value in settings.environment.items() if name != changes.SECOND_RUNNER}
        or None
    }
    for other in lacking:
        one = f"{changes.SECOND_RUNNER}={settings.environment[changes.SECOND_RUNNER]}"
        yield start_error(CODE, "start_together", without, version=settings.release.asked, one=one, other=other)


def _others(settings: Settings, method: str | None) -> Iterator[StartError]:
    key = settings.release.key
    # ParallelConfig of vllm/config.py.
    if _on(settings, "worker_use_ray") and settings.raw.get("distributed_executor_backend") not in (None, "ray"):
        yield _together(settings, "worker_use_ray", "distributed_executor_backend", "worker_use_ray")
    # validate_parsed_serve_args in vllm/entrypoints/openai/cli_args.py.
    if _on(settings, "enable_auto_tool_choice") and not settings.raw.get("tool_call_parser"):
        yield _needs(settings, "enable_auto_tool_choice", "tool_call_parser")
    if _on(settings, "ray_workers_use_nsight") and settings.executor != "ray" and settings.tp * settings.pp == 1:
        yield _needs(settings, "ray_workers_use_nsight", "Ray")
    if "max_context_len_to_capture" in settings.raw and within(key, "0.4.2", "0.6.3.post1"):
        instead = {
            "max_context_len_to_capture": None,
            "max_seq_len_to_capture": settings.raw["max_context_len_to_capture"],
        }
        yield start_error(CODE, "start_capture_renamed", instead, version=settings.release.asked)
    if _on(settings, "enable_prompt_adapter") and not settings.raw.get("max_prompt_adapter_token"):
        yield _needs(settings, "enable_prompt_adapter", "max_prompt_adapter_token", 10)
    if settings.prefix_caching and settings.kv_dtype == "fp8" and within(key, "0.5.0", "0.5.4"):
        yield _together(settings, "enable_prefix_caching", "kv_cache_dtype")
    since = changes.SCALED_CACHE_METHODS.get(str(method))
    if settings.kv_dtype == "fp8_e5m2" and since is not None and key >= release_key(since):
        yield _together(settings, "kv_cache_dtype", Text("start_fp8_checkpoint"))
