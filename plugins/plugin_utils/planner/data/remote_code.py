# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models whose config.json or tokenizer is read by Python code of their repository (auto_map in config.json), by model_type.

A release reads such a model without trust_remote_code from the first one on whose vLLM or Transformers library knows the model_type itself and
whose tokenizer is a usual one.

Source: the lists of configurations in vllm/transformers_utils/config.py of 0.13.0, 0.20.2 and 0.33.0 and in the Transformers library of their time
(4.57.3 and 5.20.2); the release notes of Transformers (DeepSeek-V3
4.50, DeepSeek-V2 and ERNIE 4.54, Phi-MoE 4.46, Stable LM 4.38, DBRX 4.40) and which of its releases vllm/requirements asks for; the models that
tests/models/registry.py of vLLM starts with trust_remote_code; issues 8157, 13540 and 5480 of vllm-project/vllm.
"""

from __future__ import annotations

# model_type, first release that needs no code (-: none).
_TYPES = """
aquila -
baichuan -
bailing_moe -
chatglm -
dbrx 0.4.2
deepseek -
deepseek_v2 0.10.1
deepseek_v3 0.8.3
ernie4_5_moe 0.10.1
exaone -
h2ovl_chat -
internlm -
internlm2 -
internlm3 -
internvl_chat -
kimi_k2 -
kimi_vl -
mimo -
minicpm -
minicpm3 0.33.0
minicpmo -
minicpmv -
minimax_m2 0.24.0
molmo -
nemotron-nas -
nvlm_d -
nvlm_d_qwen2 -
orion -
phi3_v -
phi3small -
phi4mm -
phimoe 0.6.4
qwen -
skywork_chat -
stablelm 0.3.3
stablelm_epoch -
telechat -
xverse -
"""
NATIVE_SINCE: dict[str, str | None] = {
    name: None if since == "-" else since for name, since in (line.split() for line in _TYPES.strip().splitlines())
}
