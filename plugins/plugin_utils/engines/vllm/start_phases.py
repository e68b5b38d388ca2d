# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which line of its log begins which part of a start, in the order in which a start goes through them.

Source: vllm/v1/engine/core.py, vllm/v1/worker, vllm/compilation, vllm/model_executor/model_loader and vllm/entrypoints of 0.32.0, read; logs of the
lab's own starts (tests/data/vllm/starts); logs of 0.2.7 to 0.15.0 that people pasted into issues of vllm-project/vllm; and the programs of the role
vllm that wait (start-vllm.sh, wait_for_gpus.py).
"""

from __future__ import annotations

# (part, pattern). The texts are start_phase_<part>, and start_share_<part> where the log counts: N/M in a bar, or the groups done and total.
PHASES: tuple[tuple[str, str], ...] = (
    ("pause", r"starts in a row ended within"),
    ("gpus", r"waiting for GPUs of the Ray cluster at \S+ (?P<done>\d{1,6}) of (?P<total>\d{1,6}) there"),
    # V0 prints all its options, V1 those that are no default; before both stands the name of the server.
    ("server", r"vLLM API server version|args: Namespace\(|non-default args: "),
    ("engine", r"Initializing a V[01] LLM engine"),
    # After the line of the older releases the weights are read, and nothing else is logged until they are.
    ("weights", r"Initializing an LLM engine|Starting to load model|Loading \S+ checkpoint shards"),
    ("memory", r"Loading model weights took|Model loading took|Memory profiling (?:takes|results)"),
    (
        "compile",
        r"Dynamo bytecode transform time|Compiling a graph|Warming up model for the compilation|load the compiled graph",
    ),
    ("cache", r"KV cache size: |# (?:GPU|cuda|CUDA|CPU) blocks: "),
    ("graphs", r"Capturing CUDA graph|Capturing cudagraphs|Capturing the model for CUDA graphs"),
    ("api", r"init engine \(|Starting vLLM |Started server process|Application startup complete|Uvicorn running on"),
)
