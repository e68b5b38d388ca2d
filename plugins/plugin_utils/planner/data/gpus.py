# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs by name: compute capability, and how much more nvidia-smi reports than CUDA (memory.total minus
torch's total_memory, MiB). Limits of driver and CUDA per generation.

Source: NVIDIA's table of CUDA GPUs for capabilities. The difference: nvidia-smi reports the framebuffer with what the
driver keeps for itself; Tesla V100-PCIE-16GB prints 16384 MiB (R450 and later) against 15.77 GiB in torch's messages,
A100-SXM4-80GB 81920 against 79.15-79.25 GiB, H100 80GB 81559 against 79.18 to 79.65 GiB, T4 15360 against 14.56-14.75 GiB,
RTX 3090 24576 against 23.57-23.69, RTX 4090 24564 against 23.53-23.65, A10G 23028 against 21.99-22.06,
L40S 46068 against 44.40-44.53, H200 143771 against 139.80, RTX 2080 Ti 22 GB 22528 against 21.48-21.66 (see tests/data/planner).
"""

from __future__ import annotations

# GeForce boards: MiB that CUDA does not count = a base and a share of the memory (8188 MiB: 251, 24564 MiB: 347).
GEFORCE_RESERVED: tuple[int, float] = (200, 0.006)

# What nvidia-smi prints as memory.total for each board (MiB). A figure nearer to what CUDA reports is taken as it is: older drivers
# print 16160 for a V100, and people copy torch's figure.
# (part of the name, compute capability, MiB that CUDA does not count, or null for the GeForce rule, nvidia-smi's totals).
# The first match counts.
GPUS: tuple[tuple[str, tuple[int, int], int | None, tuple[int, ...]], ...] = (
    ("V100-SXM2-32GB", (7, 0), 267, (32768,)),
    ("V100-PCIE-32GB", (7, 0), 267, (32768,)),
    ("V100", (7, 0), 235, (16384, 32768)),
    ("TITAN V", (7, 0), 235, (12288,)),
    ("P100", (6, 0), 100, (16384,)),
    ("P40", (6, 1), 100, (24576,)),
    ("T4", (7, 5), 270, (15360,)),
    ("RTX 8000", (7, 5), 600, (49152,)),
    ("RTX 6000 Ada", (8, 9), 600, (49140,)),
    ("RTX 2080", (7, 5), 360, (8192, 11264, 22528)),
    ("RTX 4000 SFF", (8, 9), 400, (20475,)),
    ("RTX A", (8, 6), 500, (16376, 24564, 49140)),
    ("A100", (8, 0), 780, (40960, 81920)),
    ("A800", (8, 0), 780, (40960, 81920)),
    ("A30", (8, 0), 370, (24576,)),
    ("A10G", (8, 6), 480, (23028,)),
    ("A10", (8, 6), 480, (23028,)),
    ("A16", (8, 6), 360, (15356,)),
    ("A40", (8, 6), 600, (46068,)),
    ("A2", (8, 6), 360, (15356,)),
    ("RTX 30", (8, 6), None, (8192, 10240, 12288, 20480, 24576)),
    ("L40", (8, 9), 500, (46068,)),
    ("L4", (8, 9), 460, (23034,)),
    ("L20", (8, 9), 500, (46068,)),
    ("RTX 40", (8, 9), None, (8188, 12282, 16376, 24564, 49140)),
    ("GH200", (9, 0), 600, (97871, 146831)),
    ("H200", (9, 0), 616, (143771,)),
    ("H100", (9, 0), 480, (81559, 95830)),
    ("H800", (9, 0), 480, (81559,)),
    ("H20", (9, 0), 500, (97871,)),
    ("GB200", (10, 0), 1000, (189471,)),
    ("B200", (10, 0), 1000, (183359,)),
    ("B300", (10, 3), 1000, (275040,)),
    ("GB10", (12, 1), 1000, ()),
    ("RTX 50", (12, 0), None, (8151, 12227, 16303, 32607)),
    ("RTX PRO 6000", (12, 0), 900, (97887,)),
)
