# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantisation methods: names, releases, lowest compute capability, dtypes, and which kernels a release picks by itself.

Source: vllm/model_executor/layers/quantization of the releases' wheels: get_min_capability(), get_supported_act_dtypes(),
override_quantization_method() and from_config() of each method's class, get_min_capability() of each scheme of compressed-tensors, and
_verify_quantization() in vllm/config. Names and rows were read from 29 wheels, 0.3.0 to 0.33.0.
"""

from __future__ import annotations

from typing import NamedTuple

# Names in config.json and on the command line that mean a method of the table.
ALIASES: dict[str, str] = {
    "": "none",
    "null": "none",
    "awq-marlin": "awq",
    "auto-awq": "awq",
    "gptq-marlin": "gptq",
    "auto-gptq": "gptq",
    "gptq-marlin-24": "gptq",
    "modelopt-fp4": "modelopt",
    "modelopt-fp8": "modelopt",
    "gpt-oss-mxfp4": "mxfp4",
    "auto-round": "gptq",
    "intel/auto-round": "gptq",
    "moe-wna16": "moe-wna16",
    "experts-int8": "experts-int8",
    "fbgemm-fp8": "fbgemm-fp8",
    "fp-quant": "fp-quant",
    "bnb": "bitsandbytes",
    "compressed-tensors": "compressed-tensors",
    "compressed_tensors": "compressed-tensors",
}

# Every name that the option and config.json may hold: its method, first and last release, [(first release, lowest
# capability x 10)], [(first release, dtypes of the activations: h float16, b bfloat16, f float32)].
_NAMES = """
awq|awq|0.2.7|-|0.2.7:75|0.2.7:h 0.24.0:bh
auto_awq|awq|0.24.0|-|0.24.0:75|0.24.0:bh
awq_marlin|awq|0.5.3|-|0.5.3:80 0.14.0:75|0.5.3:bh
gptq|gptq|0.2.7|-|0.2.7:60|0.2.7:h 0.22.0:bh
auto_gptq|gptq|0.22.0|-|0.22.0:60|0.22.0:bh
gptq_marlin|gptq|0.4.2|-|0.4.2:80 0.14.0:75 0.22.0:60|0.4.2:h 0.4.3:bh
gptq_marlin_24|gptq|0.4.3|0.17.1|0.4.3:80|0.4.3:h
gptq_bitblas|gptq|0.8.5|0.17.1|0.8.5:70 0.9.2:80|0.8.5:bh
bitblas|gptq|0.8.5|0.17.1|0.8.5:70|0.8.5:bh
auto-round|gptq|0.9.2|0.17.1|0.9.2:60|0.9.2:bh
marlin|marlin|0.3.3|0.10.1.1|0.3.3:80|0.3.3:h
squeezellm|squeezellm|0.2.7|0.6.0|0.2.7:70|0.2.7:h
aqlm|aqlm|0.4.1|0.10.0|0.4.1:70 0.4.3:60|0.4.1:h
fp8|fp8|0.4.1|-|0.4.1:90 0.4.2:89 0.5.1:80 0.14.0:75|0.4.1:bh
ptpc_fp8|fp8|0.7.2|0.17.1|0.7.2:94|0.7.2:bh
fbgemm_fp8|fbgemm-fp8|0.5.3|-|0.5.3:80|0.5.3:bh
compressed-tensors|compressed-tensors|0.4.3|-|0.4.3:60 0.5.1:75 0.5.3:70|0.4.3:h 0.5.1:bh 0.9.2:bfh
bitsandbytes|bitsandbytes|0.5.0|0.27.1|0.5.0:70|0.5.0:bfh
gguf|gguf|0.5.5|0.23.0|0.5.5:60|0.5.5:bh 0.8.0:bfh
deepspeedfp|deepspeedfp|0.4.3|0.17.1|0.4.3:60|0.4.3:bh
experts_int8|experts-int8|0.5.5|-|0.5.5:80|0.5.5:bh
qqq|qqq|0.5.4|0.10.0|0.5.4:80|0.5.4:h
hqq|hqq|0.6.5|0.17.1|0.6.5:80|0.6.5:bh
modelopt|modelopt|0.6.1|-|0.6.1:89 0.28.0:80|0.6.1:bh
nvfp4|modelopt|0.8.2|0.8.5.post1|0.8.2:100|0.8.2:bh
modelopt_fp4|modelopt|0.9.0|-|0.9.0:80 0.14.0:75|0.9.0:bh
modelopt_mxfp8|modelopt|0.18.0|-|0.18.0:80|0.18.0:b
modelopt_mixed|modelopt|0.18.0|-|0.18.0:89 0.25.0:75|0.18.0:bh
moe_wna16|moe-wna16|0.7.1|-|0.7.1:70|0.7.1:bh
quark|quark|0.7.0|-|0.7.0:70|0.7.0:bh
torchao|torchao|0.8.4|-|0.8.4:75|0.8.4:bfh
rtn|rtn|0.9.2|0.17.1|0.9.2:80|0.9.2:bh
inc|inc|0.9.2|-|0.9.2:60|0.9.2:b 0.18.0:bh
mxfp4|mxfp4|0.10.1|-|0.10.1:80|0.10.1:b
gpt_oss_mxfp4|mxfp4|0.20.0|-|0.20.0:80|0.20.0:b
petit_nvfp4|petit-nvfp4|0.10.1|0.17.1|0.10.1:90|0.10.1:bh
fp_quant|fp-quant|0.11.1|-|0.11.1:100|0.11.1:b
humming|humming|0.20.0|-|0.20.0:75|0.20.0:bh
online|online|0.20.0|-|0.20.0:75|0.20.0:bh
fp8_per_tensor|fp8|0.20.0|-|0.20.0:75|0.20.0:bh
fp8_per_block|fp8|0.20.0|-|0.20.0:75|0.20.0:bh
fp8_per_channel|fp8|0.25.0|-|0.25.0:75|0.25.0:bh
int8_per_channel_weight_only|online|0.20.0|-|0.20.0:75|0.20.0:bh
nvfp4_per_token|online|0.28.0|-|0.28.0:75|0.28.0:bh
mxfp8|online|0.20.0|-|0.20.0:80|0.20.0:b
deepseek_v4_fp8|fp8|0.20.0|-|0.20.0:80|0.20.0:bh
"""


class Name(NamedTuple):
    method: str
    since: str
    last: str | None
    capability: list[tuple[str, int]]
    dtypes: list[tuple[str, str]]


def _rows(text: str) -> list[tuple[str, str]]:
    return [(release, value) for release, _dummy, value in (row.partition(":") for row in text.split())]


def _names() -> dict[str, Name]:
    found = {}
    for line in _NAMES.strip().splitlines():
        name, method, since, last, capability, dtypes = line.split("|")
        least = [(release, int(value)) for release, value in _rows(capability)]
        found[name] = Name(method, since, None if last == "-" else last, least, _rows(dtypes))
    return found


NAMES = _names()
METHODS = frozenset(row.method for row in NAMES.values())

# What loads a plain checkpoint and quantises it meanwhile; all others read their parameters from the checkpoint.
ONLINE = (
    "fp8",
    "bitsandbytes",
    "experts_int8",
    "rtn",
    "humming",
    "online",
    "fp8_per_tensor",
    "fp8_per_block",
    "fp8_per_channel",
    "int8_per_channel_weight_only",
    "nvfp4_per_token",
    "mxfp8",
)

# A GPTQ or AWQ checkpoint is taken by Marlin, unless the option names the plain method: whether the release compares the GPU's capability
# with Marlin's (0.5.3 and 0.5.4 compare Marlin's with itself), the names that also ask for it, and the widths with zero points.
MARLIN_CHECKS_GPU: list[tuple[str, bool]] = [("0.4.2", True), ("0.5.3", False), ("0.5.5", True)]
MARLIN_ASKED: list[tuple[str, tuple[str, ...]]] = [
    ("0.4.2", ("marlin",)),
    ("0.5.4", ("marlin", "gptq_marlin", "awq_marlin")),
]
MARLIN_ZERO_POINT_BITS: list[tuple[str, tuple[int, ...]]] = [("0.4.2", (4, 8)), ("0.9.0", (4,))]
MARLIN_GROUPS = (-1, 32, 64, 128)
# From here on one class serves a checkpoint whichever of its names is given.
ONE_CLASS: dict[str, str] = {"gptq": "0.22.0", "awq": "0.24.0"}
# These take GPTQ for BitBLAS on a GPU that Marlin does not serve, without looking whether the library is there. It is in no image.
BITBLAS = ("0.8.5", "0.9.1")

# The release from which a method serves the experts of a model whose experts run all at once (get_quant_method of its class for FusedMoE), null
# for never; a method that is not named always did. Mixtral's experts ran one by one where they were not served (profile.MIXTRAL_FUSED).
EXPERTS_SINCE: dict[str, str | None] = {
    "compressed-tensors": "0.6.0",
    "gptq_marlin": "0.6.1",
    "awq_marlin": "0.6.3",
    "gguf": "0.8.0",
    "modelopt": "0.9.0",
    "auto-round": "0.9.0",
    "awq": "0.9.2",
    "bitsandbytes": "0.10.0",
    "gptq": "0.10.1",
    "rtn": "0.10.1",
    **dict.fromkeys(
        (
            "aqlm",
            "bitblas",
            "deepspeedfp",
            "fbgemm_fp8",
            "gptq_bitblas",
            "gptq_marlin_24",
            "hqq",
            "marlin",
            "qqq",
            "squeezellm",
        )
    ),
}

# Bits of the weights that the plain kernels take (Marlin's are above).
WIDTHS: dict[str, tuple[int, ...]] = {"gptq": (2, 3, 4, 8), "awq": (4,)}
# Releases that count the weights of GPTQ with three bits by 10 in a word of 32 bits, and find no layer aligned (quantization/utils/gptq_utils.py).
GPTQ_THREE_BITS_BROKEN = ("0.7.3", "0.10.1.1")
DTYPES = {"h": "float16", "b": "bfloat16", "f": "float32"}

# Lowest capability x 10 that a scheme of compressed-tensors or modelopt asks for by itself.
SCHEMES: dict[str, list[tuple[str, int]]] = {
    "fp8_tensor": [("0.2.7", 89), ("0.5.4", 80), ("0.20.0", 75)],
    "fp8_channel": [("0.2.7", 89), ("0.5.4", 80), ("0.20.0", 75)],
    "fp8_block": [("0.2.7", 89), ("0.8.5", 80), ("0.14.0", 75)],
    "int8_channel": [("0.2.7", 75)],
    "int4": [("0.2.7", 80), ("0.12.0", 75)],
    "int8": [("0.2.7", 80), ("0.12.0", 75)],
    # With zero points only Marlin serves them, and Exllama does not (pull request 30602 of vllm-project/vllm).
    "int4 asymmetric": [("0.2.7", 80), ("0.14.0", 75)],
    "int8 asymmetric": [("0.2.7", 80), ("0.14.0", 75)],
    # Of weights alone in 0.14.0 still 8.0 (issue 32838 of vllm-project/vllm).
    "nvfp4": [("0.2.7", 100), ("0.9.0", 80), ("0.15.0", 75)],
}
# Releases whose kernels for experts in NVFP4 are built for 10.0 only, and not for the cards of 12.0 (issue 24921 of vllm-project/vllm).
NVFP4_EXPERTS_WITHOUT_12 = ("0.9.0", "0.11.0")
