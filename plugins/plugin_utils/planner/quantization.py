# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a checkpoint is quantised, and how many bytes a quantised linear layer takes on a rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.quantization import ALIASES, METHODS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError


class Quantization(NamedTuple):
    """A quantised checkpoint; `method` none is a plain one."""

    method: str
    scheme: str  # what the linear layers hold: none, int4, int8, fp8_tensor, fp8_channel, fp8_block, mxfp4, nvfp4, bnb4, bnb8, gguf
    bits: int
    group: int  # 0: no groups (per channel or per tensor), -1: the whole input
    zeros: bool
    act_order: bool
    block: tuple[int, int]
    experts_only: bool
    ignored: tuple[str, ...]
    lm_head: bool
    kv_cache_fp8: bool


NONE = Quantization("none", "none", 16, 0, False, False, (0, 0), False, (), False, False)


def canonical(method: Any) -> str:
    """The planner's name of a method as config.json or --quantization write it."""
    text = str(method or "none").strip().lower().replace("_", "-")
    return ALIASES.get(text, text)


def read_quantization(config: Mapping[str, Any]) -> Quantization:
    """The quantisation of a checkpoint from its config.json."""
    raw = config.get("quantization_config") or config.get("compression_config")
    if not raw:
        return NONE
    section = fields.mapping(raw, "config.quantization_config")
    label = section.get("quant_method") or section.get("quantization_method")
    if label is None and (section.get("load_in_4bit") or section.get("load_in_8bit")):
        label = "bitsandbytes"
    if label is None and section.get("quant_algo"):
        label = "modelopt"
    if label is None and isinstance(section.get("quantization"), Mapping):
        label = "modelopt"
    if label is None:
        raise InputError("config.quantization_config.quant_method", "input_missing")
    return make(canonical(label), section)


def make(method: str, section: Mapping[str, Any]) -> Quantization:
    """A method with the parameters that its section gives."""
    bits = fields.whole(section, ("bits", "w_bit", "weight_bits"), "config.quantization_config") or 4
    group = section.get("group_size", section.get("q_group_size"))
    group = int(group) if isinstance(group, (int, str)) and str(group).lstrip("-").isdigit() else 128
    ignored = (
        section.get("modules_to_not_convert")
        or section.get("ignore")
        or section.get("ignored_layers")
        or section.get("exclude_modules")
        or ()
    )
    if not isinstance(ignored, (list, tuple)):
        ignored = ()
    base = NONE._replace(method=method, ignored=tuple(str(x) for x in ignored), lm_head=bool(section.get("lm_head")))
    if method in ("awq", "gptq"):
        desc = fields.truth(section.get("desc_act"), "config.quantization_config.desc_act")
        return base._replace(
            scheme="int{0}".format(bits),
            bits=bits,
            group=group,
            zeros=method == "awq" or not section.get("sym", True),
            act_order=desc,
        )
    if method == "fp8":
        block = section.get("weight_block_size")
        if isinstance(block, (list, tuple)) and len(block) == 2:
            return base._replace(scheme="fp8_block", bits=8, block=(int(block[0]), int(block[1])))
        return base._replace(scheme="fp8_tensor", bits=8)
    if method == "bitsandbytes":
        eight = fields.truth(section.get("load_in_8bit"), "config.quantization_config.load_in_8bit")
        skipped = section.get("llm_int8_skip_modules") or ()
        return base._replace(
            scheme="bnb8" if eight else "bnb4", bits=8 if eight else 4, ignored=tuple(str(x) for x in skipped)
        )
    if method == "mxfp4":
        return base._replace(scheme="mxfp4", bits=4, group=32, experts_only=True)
    if method == "compressed-tensors":
        return _compressed(base, section)
    if method == "modelopt":
        algorithm = str(
            section.get("quant_algo") or (section.get("quantization") or {}).get("quant_algo") or ""
        ).upper()
        if "NVFP4" in algorithm or "FP4" in algorithm:
            return base._replace(scheme="nvfp4", bits=4, group=16)
        return base._replace(scheme="fp8_tensor", bits=8)
    if method in METHODS:
        return base._replace(scheme="int{0}".format(bits), bits=bits, group=group)
    return base


def _compressed(base: Quantization, section: Mapping[str, Any]) -> Quantization:
    groups = section.get("config_groups")
    weights: Mapping[str, Any] = {}
    if isinstance(groups, Mapping):
        for entry in groups.values():
            if isinstance(entry, Mapping) and isinstance(entry.get("weights"), Mapping):
                weights = entry["weights"]
                break
    bits = fields.whole(weights, ("num_bits",), "config.quantization_config.weights") or 8
    kind = str(weights.get("type") or "int")
    strategy = str(weights.get("strategy") or "channel")
    group = weights.get("group_size")
    if kind == "float" and bits == 4:
        return base._replace(scheme="nvfp4", bits=4, group=int(group or 16))
    if kind == "float":
        block = weights.get("block_structure")
        if strategy == "block" and isinstance(block, (list, tuple)):
            return base._replace(scheme="fp8_block", bits=8, block=(int(block[0]), int(block[1])))
        return base._replace(scheme="fp8_channel" if strategy == "channel" else "fp8_tensor", bits=8)
    if bits == 8 and str(section.get("format") or "") == "int-quantized":
        return base._replace(scheme="int8_channel", bits=8)
    return base._replace(
        scheme="int{0}".format(bits),
        bits=bits,
        group=int(group) if group else -1,
        zeros=not weights.get("symmetric", True),
        act_order=bool(weights.get("actorder")),
    )


def linear_bytes(
    scheme: Quantization, inputs: int, outputs: int, dtype_bytes: int, whole_inputs: int | None = None
) -> list[int]:
    """Bytes of each tensor of one linear layer of `inputs` x `outputs` on a rank."""
    kind = scheme.scheme
    if kind == "none":
        return [inputs * outputs * dtype_bytes]
    if kind in ("fp8_tensor", "fp8_channel", "int8_channel"):
        return [inputs * outputs, outputs * 4 if kind != "fp8_tensor" else 4]
    if kind == "fp8_block":
        n, k = scheme.block
        return [inputs * outputs, -(-outputs // n) * -(-inputs // k) * 4]
    if kind == "bnb4":
        return [inputs * outputs // 2, inputs * outputs // 64, 64 * 16]
    if kind == "bnb8":
        return [inputs * outputs, outputs * 4]
    if kind in ("nvfp4", "mxfp4"):
        return [inputs * outputs // 2, inputs * outputs // scheme.group, 8]
    group = scheme.group if scheme.group > 0 else inputs
    rows = -(-(inputs if not scheme.act_order else (whole_inputs or inputs)) // group)
    sizes = [inputs * outputs * scheme.bits // 8, rows * outputs * 2]
    if scheme.zeros or scheme.method == "gptq":
        sizes.append(rows * outputs * scheme.bits // 8)
    if scheme.method == "gptq":
        sizes.append(inputs * 4)
    return sizes
