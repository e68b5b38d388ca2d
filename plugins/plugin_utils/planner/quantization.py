# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a checkpoint is quantised, and how many bytes a quantised linear layer takes on a rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, texts, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.quantization import (
    ALIASES,
    BITBLAS,
    MARLIN_ASKED,
    MARLIN_CHECKS_GPU,
    MARLIN_GROUPS,
    MARLIN_ZERO_POINT_BITS,
    METHODS,
    NAMES,
    ONE_CLASS,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key, within


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
    label: str = ""  # the method as config.json writes it
    symmetric: bool = True
    described: bool = True  # config.json says what Marlin has to know
    plain: bool = False  # the option names the plain method: no Marlin

    @property
    def name(self) -> str:
        return self.label or self.method


NONE = Quantization("none", "none", 16, 0, False, False, (0, 0), False, (), False)


def canonical(method: object) -> str:
    """The planner's name of a method as config.json or --quantization write it."""
    text = str(method or "none").strip().lower().replace("_", "-")
    return ALIASES.get(text, text)


def read_quantization(config: Mapping[str, object]) -> Quantization:
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
    written = str(label).strip().lower().replace("compressed_tensors", "compressed-tensors")
    return make(canonical(label), section)._replace(label=written)


def make(method: str, section: Mapping[str, object]) -> Quantization:
    """A method with the parameters that its section gives."""
    bits = fields.whole(section, ("bits", "w_bit", "weight_bits"), "config.quantization_config") or 4
    group = section.get("group_size", section.get("q_group_size"))
    said = digits(str(group))
    group = -1 if str(group) == "-1" else 128 if said is None else said
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
            symmetric=fields.truth(section.get("sym"), "config.quantization_config.sym", True),
            # No release reads a GPTQ checkpoint without desc_act: such a section is a sketch. One without sym is old, and not for Marlin.
            described=method == "awq" or section.get("sym") is not None or "desc_act" not in section,
        )
    if method == "fp8":
        block = section.get("weight_block_size")
        if isinstance(block, (list, tuple)) and len(block) == 2:
            name = "weight_block_size"
            rows, columns = (fields.needed_whole({name: each}, (name,), "config.quantization_config") for each in block)
            return base._replace(scheme="fp8_block", bits=8, block=(rows, columns))
        return base._replace(scheme="fp8_tensor", bits=8)
    if method == "bitsandbytes":
        eight = fields.truth(section.get("load_in_8bit"), "config.quantization_config.load_in_8bit")
        skipped = texts(section.get("llm_int8_skip_modules"))
        return base._replace(scheme="bnb8" if eight else "bnb4", bits=8 if eight else 4, ignored=tuple(skipped))
    if method == "mxfp4":
        return base._replace(scheme="mxfp4", bits=4, group=32, experts_only=True)
    if method == "compressed-tensors":
        return _compressed(base, section)
    if method == "modelopt":
        algorithm = str(
            section.get("quant_algo") or mapping(section.get("quantization")).get("quant_algo") or ""
        ).upper()
        if "NVFP4" in algorithm or "FP4" in algorithm:
            return base._replace(scheme="nvfp4", bits=4, group=16)
        return base._replace(scheme="fp8_tensor", bits=8)
    if method == "squeezellm":  # a table for each column, no groups
        return base._replace(scheme="int{0}".format(bits), bits=bits)
    if method in METHODS:
        return base._replace(scheme="int{0}".format(bits), bits=bits, group=group)
    return base


def _compressed(base: Quantization, section: Mapping[str, object]) -> Quantization:
    groups = section.get("config_groups")
    weights: Mapping[str, object] = {}
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
        return base._replace(scheme="nvfp4", bits=4, group=whole(group or 16))
    if kind == "float":
        block = weights.get("block_structure")
        if strategy == "block" and isinstance(block, (list, tuple)):
            name = "weight_block_size"
            rows, columns = (fields.needed_whole({name: each}, (name,), "config.quantization_config") for each in block)
            return base._replace(scheme="fp8_block", bits=8, block=(rows, columns))
        return base._replace(scheme="fp8_channel" if strategy == "channel" else "fp8_tensor", bits=8)
    if bits == 8 and str(section.get("format") or "") == "int-quantized":
        return base._replace(scheme="int8_channel", bits=8)
    return base._replace(
        scheme="int{0}".format(bits),
        bits=bits,
        group=whole(group) if group else -1,
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
    if scheme.method == "squeezellm":  # a table of values for each column
        return [inputs * outputs * scheme.bits // 8, outputs * 2**scheme.bits * 2]
    group = scheme.group if scheme.group > 0 else inputs
    rows = -(-(inputs if not scheme.act_order else (whole_inputs or inputs)) // group)
    sizes = [inputs * outputs * scheme.bits // 8, rows * outputs * 2]
    if scheme.zeros or scheme.method == "gptq":
        sizes.append(rows * outputs * scheme.bits // 8)
    if scheme.method == "gptq":
        sizes.append(inputs * 4)
    return sizes


def marlin_serves(scheme: Quantization, key: tuple[int, ...], capability: tuple[int, int]) -> bool:
    """Whether a release hands a GPTQ or AWQ checkpoint to Marlin on its own. Releases that do not ask the GPU do so on every GPU."""
    name = scheme.name + "_marlin"
    if name not in NAMES or key < release_key(NAMES[name].since) or not scheme.described:
        return False
    if at(MARLIN_CHECKS_GPU, key) and capability[0] * 10 + capability[1] < at(NAMES[name].capability, key):
        return False
    if scheme.name == "gptq" and not (scheme.symmetric and scheme.bits in (4, 8)):
        return False
    if scheme.name == "awq" and scheme.bits not in at(MARLIN_ZERO_POINT_BITS, key):
        return False
    return scheme.group in MARLIN_GROUPS


def kernels(
    scheme: Quantization, asked: str | None, key: tuple[int, ...], capability: tuple[int, int]
) -> tuple[str | None, str | None]:
    """The name of the method that a release runs a checkpoint with, and the name that the checkpoint then has: they have to be equal.

    ``asked`` is the option's value. Both are null for a plain checkpoint without the option.
    """
    if scheme.method == "none":
        return asked, asked
    own = scheme.name
    if own in ONE_CLASS and key >= release_key(ONE_CLASS[own]):
        return (own, own) if asked in (None, own, "auto_" + own, own + "_marlin", "marlin") else (asked, own)
    if marlin_serves(scheme, key, capability):
        if asked in (None, *at(MARLIN_ASKED, key)) and asked != ("awq" if own == "gptq" else "gptq") + "_marlin":
            return own + "_marlin", own + "_marlin"
    elif own == "gptq" and asked in (None, "bitblas", "gptq_bitblas") and within(key, *BITBLAS):
        if scheme.symmetric and scheme.bits in (4, 8) and scheme.described:
            return "gptq_bitblas", "gptq_bitblas"
    if asked == "moe_wna16" and own in ("gptq", "awq") and key >= release_key(NAMES[asked].since):
        if scheme.bits in (4, 8) and not scheme.act_order and (own == "gptq" or capability >= (7, 5)):
            return asked, asked
    return asked or own, own
