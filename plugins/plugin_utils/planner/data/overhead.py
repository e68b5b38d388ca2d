# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory outside torch's allocator: libraries, loaded kernels, communicators. GiB.

Source: what engines logged (tests/data/planner). One rank on its own: 0.05-0.11 in V0 (T4, V100, A100), 0.13 in V1 0.11 (H100), 0.22
in V1 0.25.1 (H200), which loads more kernels after the baseline. Where the release counts everything on the device (0.6.4, V1
0.8), the CUDA context is in it: 0.15-0.73. Communicators: 0.2-0.4 with two to four PCIe GPUs, 2.1 with eight A100 in V0.
"""

from __future__ import annotations

# One rank on its own.
SINGLE: dict[str, list[tuple[str, float]]] = {
    "V0": [("0.2.7", 0.09)],
    "V1": [("0.2.7", 0.13), ("0.20.0", 0.222)],
}
# A rank among others when NCCL is set up before the baseline (V1 from 0.11.0 on).
AMONG_OTHERS = 0.06
# The last stage gathers logits over tensor ranks: NCCL's buffers for that are made during the profile run.
GATHERS = 0.54
# The CUDA context, where the release counts it: the median of what 3090, GTX and RTX boards logged (0.06, 0.26, 0.38).
CONTEXT = 0.26
# NCCL's buffers when they are made inside the budget: (tensor ranks at least, over PCIe, over NVLink).
COMMUNICATORS: tuple[tuple[int, float, float], ...] = ((1, 0.0, 0.0), (2, 0.24, 0.45), (3, 0.15, 0.9), (5, 0.3, 2.0))
# GPUs whose boards carry NVLink between all of them, by name.
NVLINK_NAMES: tuple[str, ...] = ("SXM", "A100", "A800", "H100", "H200", "H800", "H20", "B200", "B300", "GB200", "GB300")
# A pipeline's send and receive buffers.
PIPELINE = 0.06

# CUDA graphs, fitted on few starts and outside the KV budget in most releases: GiB for each captured size and layer, and bytes for
# each captured token and element of the MLP on a rank.
GRAPH_PER_LAYER = {"V0": 0.0008, "V1": 0.00031}
GRAPH_BYTES = 2.3
# The same for a layer of V0 whose experts are quantised to fp8 by blocks. DeepSeek-R1 in 4 stages of 8 ranks takes 10 GiB on each H100
# (huggingface/open-r1, pull request 43): 35 sizes, 16 layers, and each size once for every stage.
GRAPH_PER_BLOCK_FP8_LAYER = 0.0045
