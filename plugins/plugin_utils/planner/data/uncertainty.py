# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far predictions of the KV cache were off, by engine and GPU generation. GiB on a rank.

Source: the starts that benchmarks/planner.py compares (tests/data/planner); a test holds this table against them. Left out are the starts
whose options or release were not published, named in benchmarks/planner.py (UNKNOWN_FACTS).
"""

from __future__ import annotations

# Generations by the least compute capability, the newest first.
GENERATIONS: tuple[tuple[tuple[int, int], str], ...] = (
    ((10, 0), "Blackwell"),
    ((9, 0), "Hopper"),
    ((8, 9), "Ada"),
    ((8, 0), "Ampere"),
    ((7, 5), "Turing"),
    ((7, 0), "Volta"),
    ((0, 0), "Pascal"),
)
# Starts compared, and the largest difference. A generation that is not named has none; "" are GPUs whose name was not published.
COMPARED: dict[str, dict[str, tuple[int, float]]] = {
    "V0": {
        "Hopper": (1, 0.376),
        "Ada": (1, 0.153),
        "Ampere": (3, 0.287),
        "Turing": (5, 0.384),
        "": (4, 0.202),
    },
    "V1": {"Blackwell": (1, 0.018), "Hopper": (67, 0.235)},
}
# With as many starts the largest difference of the generation counts; with fewer that of the engine on any GPU.
ENOUGH_STARTS = 20
