# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The release that serves each generation of GPUs best, and its limits of CUDA.

Source: data/releases.py for images; CUDA 13 release notes (compute capability 7.5 is the lowest).
"""

from __future__ import annotations

from typing import TypedDict


class Generation(TypedDict):
    """A generation's release and limits; driver_branch is the recommended one."""

    name: str
    release: str | None
    reason: str
    driver_branch: str
    cuda_last: str | None
    alternatives: list[dict[str, str]]


# (lowest capability, highest capability, facts); `release` null means the newest examined one. Reasons and notes are codes of messages.
GENERATIONS: tuple[tuple[tuple[int, int], tuple[int, int], Generation], ...] = (
    (
        (7, 0),
        (7, 4),
        {
            "name": "Volta",
            "release": "0.8.5.post1",
            "reason": "generation_volta",
            "driver_branch": "570",
            "cuda_last": "12.9",
            "alternatives": [
                {
                    "vllm_version": "0.10.2",
                    "note": "generation_volta_override",
                },
                {
                    "vllm_version": "0.19.1",
                    "note": "generation_volta_slow",
                },
                {"vllm_version": "0.6.6.post1", "note": "generation_older_drivers"},
            ],
        },
    ),
    (
        (7, 5),
        (7, 9),
        {
            "name": "Turing",
            "release": None,
            "reason": "generation_turing",
            "driver_branch": "580",
            "cuda_last": None,
            "alternatives": [{"vllm_version": "0.8.5.post1", "note": "generation_turing_older_drivers"}],
        },
    ),
    (
        (8, 0),
        (8, 9),
        {
            "name": "Ampere or Ada",
            "release": None,
            "reason": "generation_newest",
            "driver_branch": "580",
            "cuda_last": None,
            "alternatives": [{"vllm_version": "0.19.1", "note": "generation_last_cuda_12"}],
        },
    ),
    (
        (9, 0),
        (9, 9),
        {
            "name": "Hopper",
            "release": None,
            "reason": "generation_newest",
            "driver_branch": "580",
            "cuda_last": None,
            "alternatives": [{"vllm_version": "0.19.1", "note": "generation_last_cuda_12"}],
        },
    ),
    (
        (10, 0),
        (12, 9),
        {
            "name": "Blackwell",
            "release": None,
            "reason": "generation_blackwell",
            "driver_branch": "580",
            "cuda_last": None,
            "alternatives": [],
        },
    ),
)
