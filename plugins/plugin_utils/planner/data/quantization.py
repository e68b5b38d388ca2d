# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantisation methods: names, releases, lowest compute capability.

Source: get_min_capability() of each method's class in vllm/model_executor/layers/quantization, release by release.
"""

from __future__ import annotations

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

# method: [(first release, lowest capability x 10)], (first release, last release)
METHODS: dict[str, tuple[list[tuple[str, int]], tuple[str, str | None]]] = {
    # The exllama kernels serve what Marlin does not: the lower of the two counts.
    "gptq": ([("0.2.7", 60)], ("0.2.7", None)),
    "awq": ([("0.2.7", 75)], ("0.2.7", None)),
    "squeezellm": ([("0.2.7", 70)], ("0.2.7", "0.6.0")),
    "marlin": ([("0.3.3", 80)], ("0.3.3", "0.10.1.1")),
    "aqlm": ([("0.4.1", 70), ("0.4.3", 60)], ("0.4.1", "0.10.0")),
    "fp8": ([("0.4.2", 89), ("0.5.1", 80), ("0.14.0", 75)], ("0.4.2", None)),
    "compressed-tensors": ([("0.4.3", 60), ("0.5.1", 75), ("0.5.3", 70)], ("0.4.3", None)),
    "bitsandbytes": ([("0.5.0", 70)], ("0.5.0", "0.27.1")),
    "gguf": ([("0.5.5", 60)], ("0.5.5", "0.23.0")),
    "deepspeedfp": ([("0.5.1", 60)], ("0.5.1", "0.10.1.1")),
    "experts-int8": ([("0.6.0", 80)], ("0.6.0", None)),
    "fbgemm-fp8": ([("0.5.3", 80)], ("0.5.3", None)),
    "moe-wna16": ([("0.7.1", 70)], ("0.7.1", None)),
    "quark": ([("0.7.0", 70)], ("0.7.0", None)),
    "modelopt": ([("0.7.0", 89), ("0.9.0", 80), ("0.14.0", 75)], ("0.7.0", None)),
    "torchao": ([("0.8.4", 75)], ("0.8.4", None)),
    "mxfp4": ([("0.10.1", 80)], ("0.10.1", None)),
    "inc": ([("0.9.2", 60)], ("0.9.2", None)),
    "humming": ([("0.20.0", 75)], ("0.20.0", None)),
    "fp-quant": ([("0.11.1", 90)], ("0.11.1", None)),
}

# Lowest capability x 10 that a scheme of compressed-tensors or modelopt asks for by itself.
SCHEMES: dict[str, list[tuple[str, int]]] = {
    "fp8_tensor": [("0.2.7", 80), ("0.14.0", 75)],
    "fp8_channel": [("0.2.7", 80), ("0.14.0", 75)],
    "fp8_block": [("0.2.7", 89), ("0.8.5", 80), ("0.14.0", 75)],
    "int8_channel": [("0.2.7", 75)],
    "nvfp4": [("0.2.7", 100), ("0.9.0", 80), ("0.14.0", 75)],
}
