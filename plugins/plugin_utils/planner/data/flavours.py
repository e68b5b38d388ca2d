# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forks of vLLM: in what they differ from the release that vllm_version names.

Source: what each says of itself. 1cat: https://github.com/1CatAI/1Cat-vLLM, README.md and RELEASE_NOTES_1.0.0.md, and its release 1.2.1, which names a
commit before vLLM 0.21.1 as its base. What a fork takes of memory nobody compared, so a start of one is not verified.
"""

from __future__ import annotations

from typing import NamedTuple


class Flavour(NamedTuple):
    """What a fork has beside a release, on the GPUs that it was made for."""

    gpus: tuple[str, ...]  # compute capabilities that it holds code for
    methods: tuple[str, ...]  # quantisation that it has kernels of its own for
    backend: str  # attention on those GPUs
    fp8_cache: bool
    source: str


# Name, compute capabilities, methods of quantisation, attention backend, whether that has keys and values in fp8, source.
_FLAVOURS = """
1cat-0.0|7.0|awq|FLASH_ATTN_V100|no|https://github.com/1CatAI/1Cat-vLLM (0.0.3)
1cat-1.0|7.0|awq|FLASH_ATTN_V100|yes|https://github.com/1CatAI/1Cat-vLLM (1.0.0)
1cat-1.2|7.0|awq awq_marlin gptq_marlin fp8 mxfp4 modelopt_fp4|FLASH_ATTN_V100|yes|https://github.com/1CatAI/1Cat-vLLM (1.2.1)
"""
FLAVOURS: dict[str, Flavour] = {
    name: Flavour(tuple(gpus.split()), tuple(methods.split()), backend, fp8 == "yes", source)
    for name, gpus, methods, backend, fp8, source in (line.split("|") for line in _FLAVOURS.strip().splitlines())
}
