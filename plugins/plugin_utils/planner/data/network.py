# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a network between hosts costs a plan: round figures for comparing shapes, no prediction of throughput.

Source: the sizes that NCCL's own documentation and its nccl-tests report for small messages: an all-reduce of a few KiB over TCP takes
100 to 200 microseconds, over RDMA 15 to 30. Memory bandwidth is that of NVIDIA's data sheets, rounded down to what decoding reaches.
"""

from __future__ import annotations

# Seconds of one all-reduce between hosts, by what the inventory says of the network (vllm_interconnect).
ALL_REDUCE_SECONDS: dict[str, float] = {"slow": 150e-6, "fast": 20e-6}
# A decoder layer sums over its tensor-parallel ranks twice: behind the attention and behind the MLP.
ALL_REDUCES_PER_LAYER = 2
# A pipeline keeps its stages busy only in part.
PIPELINE_EFFICIENCY = 0.9
# Bytes per second at which a GPU reads weights, from this compute capability on.
MEMORY_BANDWIDTH: tuple[tuple[tuple[int, int], float], ...] = (
    ((0, 0), 0.4e12),
    ((7, 0), 0.7e12),
    ((7, 5), 0.4e12),
    ((8, 0), 1.2e12),
    ((8, 6), 0.6e12),
    ((9, 0), 2.5e12),
)
