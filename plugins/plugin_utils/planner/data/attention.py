# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attention backends: which ones a release tries on a GPU, in order, and what each can do.

Source: the release's choice (vllm/model_executor/layers/attention.py to 0.3.3, vllm/attention/selector.py to 0.6.6, get_attn_backend_cls and
_get_backend_priorities in vllm/platforms/cuda.py from 0.7 on) and what each backend says of itself (vllm/attention/backends,
vllm/attention/ops/paged_attn.py, vllm/v1/attention/backends), read from 29 wheels, 0.2.7 to 0.17.0; for FlashInfer from 0.24.0 on
the release tree. What only shows when a kernel runs has its own source:

- the kernel that reads earlier keys (chunked prefill, prefix caching) beside xFormers is Triton's and fails below 7.5: hardware table of
  docs/source/features/compatibility_matrix.md in 0.6.3 to 0.8.5; issues 2729, 3687, 3944, 5533 and 8024 of vllm-project/vllm;
- xFormers decodes with the paged attention of vllm/csrc/attention, which has blocks of 8, 16 and 32;
- the prefill of MLA is FlashAttention's in every one of its backends (vllm/attention/backends/mla, vllm/v1/attention/backends/mla/common.py);
- that kernel works in float32 on Volta (issue 14071);
- a GPU of 7.5 has 64 KiB of shared memory for a block, and the kernels of Triton and FlexAttention take 80 to 96 rows of a head: the 512 of Gemma 4 in 16
  bits and the 256 of Gemma 3 in float32 do not fit (issues 57712 and 36802, pull request 39018);
- Triton converts no fp8 below 8.9 ("fp8e4nv data type is not supported on CUDA arch < 89", issue 11539).
"""

from __future__ import annotations

from typing import NamedTuple

# Release, engine, attention (gqa, mla, or sparse: MLA that reads chosen keys, as in DeepSeek-V3.2), least compute capability: the backends in the
# order in which they are tried. Rows of a release replace older ones with the same engine and kind.
_ORDER = """
0.2.7|V0|gqa|0.0|XFORMERS
0.4.0|V0|gqa|0.0|FLASH_ATTN XFORMERS
0.7.1|V0|mla|0.0|TRITON_MLA
0.8.0|V0|mla|0.0|FLASHMLA TRITON_MLA
0.6.4|V1|gqa|0.0|FLASH_ATTN
0.9.2|V1|gqa|0.0|FLASH_ATTN FLEX_ATTENTION
0.10.1|V1|gqa|0.0|FLASH_ATTN FLEX_ATTENTION
0.10.1|V1|gqa|8.0|FLASH_ATTN FLEX_ATTENTION TRITON_ATTN
0.11.0|V1|gqa|0.0|FLASH_ATTN FLEX_ATTENTION
0.11.0|V1|gqa|8.0|FLASH_ATTN TRITON_ATTN FLEX_ATTENTION
0.11.1|V1|gqa|0.0|FLASH_ATTN FLASHINFER TRITON_ATTN FLEX_ATTENTION
0.11.1|V1|gqa|10.0|FLASHINFER FLASH_ATTN TRITON_ATTN FLEX_ATTENTION
0.8.0|V1|mla|0.0|FLASHMLA TRITON_MLA
0.10.2|V1|mla|0.0|FLASHMLA FLASH_ATTN_MLA TRITON_MLA
0.11.1|V1|mla|0.0|FLASH_ATTN_MLA FLASHMLA TRITON_MLA
0.11.1|V1|mla|10.0|FLASHINFER_MLA TRITON_MLA
0.11.0|V1|sparse|0.0|FLASHMLA_SPARSE
0.24.0|V1|sparse|0.0|FLASHMLA_SPARSE
0.24.0|V1|sparse|12.0|FLASHINFER_MLA_SPARSE_SM120
0.25.0|V1|sparse|0.0|FLASH_ATTN_MLA_SPARSE FLASHMLA_SPARSE
0.25.0|V1|sparse|10.0|FLASHMLA_SPARSE
0.25.0|V1|sparse|12.0|FLASHINFER_MLA_SPARSE_SM120
"""

# What makes a release try the next backend, by engine; whatever else the backend lacks stops the start.
PASSES_ON: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "V0": [("0.2.7", ("heads", "blocks", "dtype", "fp8", "window"))],
    "V1": [
        ("0.2.7", ()),
        ("0.9.2", ("heads", "dtype")),
        ("0.10.1", ("heads", "dtype", "sinks")),
        ("0.11.0", ("heads", "dtype", "fp8", "sinks")),
    ],
}

# Backend, release, compute capabilities from and below, head sizes (8n256: multiples of 8 up to 256; 32+: from 32; * any), block sizes (16n: multiples),
# dtypes of the model (h float16, b bfloat16, f float32), from which capability: keys and values in fp8, reading earlier keys; yes or no: a sliding
# window, soft-capped logits; and on which capabilities attention sinks (gpt-oss), from and below. "-" is no capability, "." as in the row above.
_BACKENDS = """
XFORMERS|0.2.7|0.0|99.0|64 80 96 112 128 256|8 16 32|hbf|0.0|7.5|yes|yes|-
XFORMERS|0.4.3|.|.|64 80 96 112 128 192 256|.|.|.|.|.|.|.
XFORMERS|0.5.4|.|.|64 80 96 112 120 128 192 256|.|.|.|.|.|no|.
XFORMERS|0.6.4|.|.|32 64 80 96 112 120 128 192 256|.|.|.|.|.|.|.
XFORMERS|0.6.5|.|.|.|.|.|.|.|.|yes|.
FLASH_ATTN|0.4.0|8.0|99.0|32 64 96 128 160 192 224 256|16n|hb|-|8.0|no|yes|9.0-10.0
FLASH_ATTN|0.6.4|.|.|.|.|.|.|.|yes|.|.
FLASH_ATTN|0.8.0|.|.|.|.|.|9.0|.|.|.|.
FLASH_ATTN|0.13.0|.|.|8n256|.|.|.|.|.|.|.
FLEX_ATTENTION|0.9.2|0.0|99.0|*|*|hbf|-|0.0|no|no|-
FLEX_ATTENTION|0.11.0|.|.|.|.|.|.|.|yes|.|.
FLASHINFER|0.11.1|7.5|12.2|64 128 256|16 32 64|hb|7.5|7.5|yes|yes|10.0-11.0
FLASHINFER|0.24.0|8.0|99.0|.|.|.|8.0|8.0|.|.|.
TRITON_ATTN|0.10.1|0.0|99.0|32+|16n|hbf|8.9|0.0|yes|yes|0.0-99.0
TRITON_MLA|0.7.1|8.0|99.0|*|8n|hb|-|8.0|no|no|-
FLASHMLA|0.8.0|9.0|10.0|*|16n|hb|9.0|9.0|no|no|-
FLASH_ATTN_MLA|0.10.2|9.0|10.0|*|16n|hb|-|9.0|no|no|-
FLASHINFER_MLA|0.11.1|10.0|12.0|*|16n|hb|10.0|10.0|no|no|-
FLASHMLA_SPARSE|0.11.0|9.0|11.0|*|16n|b|9.0|9.0|no|no|-
FLASH_ATTN_MLA_SPARSE|0.25.0|9.0|10.0|*|16n|hb|-|9.0|no|no|-
FLASHINFER_MLA_SPARSE_SM120|0.24.0|12.0|13.0|*|16n|b|12.0|12.0|no|no|-
"""

# Backends of V0 that take several steps between two decisions of the scheduler: vllm/worker/multi_step_model_runner.py of 0.6.3, 0.7.3 and 0.9.2.
MULTI_STEP = ("FLASH_ATTN", "FLASHINFER")

# Backends that somebody has to name (VLLM_ATTENTION_BACKEND), and the least compute capability that they run on, where it is another than
# where a release chooses them: FlashInfer is built from 7.5 on (its documentation, Installation).
NAMED_LEAST = {"FLASHINFER": (7, 5)}

# Keys and values in the dtype of the model, by a name of its own: the releases whose parser takes the name and whose backends do not.
KV_BFLOAT16_UNSERVED = ("0.11.1", "0.12.0")

# Compute capabilities (from, below) on which the kernels of these backends find too little shared memory for a head of this many bytes and more.
SHARED_MEMORY = ((7, 5), (8, 0))
SHARED_MEMORY_BACKENDS = ("TRITON_ATTN", "FLEX_ATTENTION")
SHARED_MEMORY_HEAD = 1024
# The release from which a backend that is named is refused for what it lacks (validate_configuration in vllm/attention/backends/abstract.py).
NAMED_CHECKED_SINCE = "0.11.1"

Capability = tuple[int, int]


class Backend(NamedTuple):
    """What a backend can do, from a release on."""

    name: str
    least: Capability
    below: Capability
    heads: str
    blocks: str
    dtypes: str
    fp8: Capability | None
    earlier_keys: Capability | None
    window: bool
    soft_cap: bool
    sinks: tuple[Capability, Capability] | None


def _capability(text: str) -> Capability | None:
    if text == "-":
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def _read_backends() -> dict[str, list[tuple[str, Backend]]]:
    found: dict[str, list[tuple[str, Backend]]] = {}
    above: list[str] = []
    for line in _BACKENDS.strip().splitlines():
        name, since, *cells = line.split("|")
        above = cells = [before if cell == "." else cell for cell, before in zip(cells, above or cells, strict=True)]
        least, below, heads, blocks, dtypes, fp8, earlier, window, soft_cap, sinks = cells
        from_, _dash, to = sinks.partition("-")
        row = Backend(
            name,
            _capability(least) or (0, 0),
            _capability(below) or (99, 0),
            heads,
            blocks,
            dtypes,
            _capability(fp8),
            _capability(earlier),
            window == "yes",
            soft_cap == "yes",
            (_capability(from_) or (0, 0), _capability(to) or (99, 0)) if from_ else None,
        )
        found.setdefault(name, []).append((since, row))
    return found


Order = tuple[tuple[Capability, tuple[str, ...]], ...]


def _read_order() -> dict[tuple[str, str], list[tuple[str, Order]]]:
    found: dict[tuple[str, str], list[tuple[str, Order]]] = {}
    for line in _ORDER.strip().splitlines():
        since, engine, kind, least, names = line.split("|")
        rows = found.setdefault((engine, kind), [])
        row = ((_capability(least) or (0, 0), tuple(names.split())),)
        if rows and rows[-1][0] == since:
            rows[-1] = (since, rows[-1][1] + row)
        else:
            rows.append((since, row))
    return found


# Backend: [(first release, what it can do)], and engine and kind of attention: [(first release, [(least capability, backends in order)])].
BACKENDS = _read_backends()
ORDER = _read_order()
