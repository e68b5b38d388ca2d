# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cards that people name, beside those that module_utils/_gpu.py knows by their PCI device id.

Source: names and memory.total (MiB) from nvidia-smi outputs that people published; each total is one of those that data/gpus.py has for the board,
which also says its compute capability.
"""

from __future__ import annotations

# A board that exists with several sizes has the usual one first; the others are taken where the text names a size.
CARDS: tuple[tuple[str, int], ...] = (
    ("Tesla P100-PCIE-16GB", 16384),
    ("Tesla P40", 24576),
    ("NVIDIA TITAN V", 12288),
    ("NVIDIA GeForce RTX 2080", 8192),
    ("NVIDIA GeForce RTX 2080 SUPER", 8192),
    ("NVIDIA GeForce RTX 2080 Ti", 11264),
    ("NVIDIA GeForce RTX 2080 Ti", 22528),
    ("Quadro RTX 8000", 49152),
    ("NVIDIA GeForce RTX 3060", 12288),
    ("NVIDIA GeForce RTX 3070", 8192),
    ("NVIDIA GeForce RTX 3080", 10240),
    ("NVIDIA GeForce RTX 3080 Ti", 12288),
    ("NVIDIA GeForce RTX 3090", 24576),
    ("NVIDIA RTX A4000", 16376),
    ("NVIDIA RTX A5000", 24564),
    ("NVIDIA RTX A6000", 49140),
    ("NVIDIA A2", 15356),
    ("NVIDIA A16", 15356),
    ("NVIDIA GeForce RTX 4060", 8188),
    ("NVIDIA GeForce RTX 4070", 12282),
    ("NVIDIA GeForce RTX 4070 Ti", 12282),
    ("NVIDIA GeForce RTX 4070 Ti SUPER", 16376),
    ("NVIDIA GeForce RTX 4080", 16376),
    ("NVIDIA GeForce RTX 4080 SUPER", 16376),
    ("NVIDIA GeForce RTX 4090", 24564),
    ("NVIDIA GeForce RTX 4090", 49140),
    ("NVIDIA GeForce RTX 4090 D", 24564),
    ("NVIDIA RTX 4000 SFF Ada Generation", 20475),
    ("NVIDIA RTX 6000 Ada Generation", 49140),
    ("NVIDIA GH200 480GB", 97871),
    ("NVIDIA GH200 144G HBM3e", 146831),
    ("NVIDIA B200", 183359),
    ("NVIDIA GB200", 189471),
    ("NVIDIA B300 SXM6 AC", 275040),
    ("NVIDIA GeForce RTX 5070", 12227),
    ("NVIDIA GeForce RTX 5070 Ti", 16303),
    ("NVIDIA GeForce RTX 5080", 16303),
    ("NVIDIA GeForce RTX 5090", 32607),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97887),
)
# What people leave out of a name, and what they may not leave out: a card with such a word is another one.
LEFT_OUT = frozenset(("nvidia", "geforce", "tesla", "quadro"))
DISTINCT = frozenset(("ti", "super", "d", "ada", "pro", "sff", "nvl", "dgxs", "fhhl", "titan", "active"))
