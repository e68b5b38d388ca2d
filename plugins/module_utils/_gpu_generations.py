# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU generations: the limits of driver and kernel modules, the release that serves each best, and the limits of CUDA.

Source: data/releases.py for images; CUDA 13 release notes (compute capability 7.5 is the lowest). Drivers: "The release 580 series
will be the last to support GPUs based on the Maxwell, Pascal, and Volta architectures"; 470 was it for Kepler, 390 for Fermi
(https://forums.developer.nvidia.com/t/unix-graphics-feature-deprecation-schedule/60588). Kernel modules: the open ones need the GPU
system processor, which Turing was the first to have, and Blackwell has no others
(https://github.com/NVIDIA/open-gpu-kernel-modules#compatible-gpus).
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Architecture(NamedTuple):
    """What NVIDIA's driver makes of the GPUs of one architecture."""

    name: str
    since: tuple[int, int]  # its lowest compute capability
    last_branch: str | None  # None: the newest branch still drives it
    kernel_modules: tuple[str, ...]  # the kinds that drive it, the one to prefer first


# By compute capability, ascending.
ARCHITECTURES: tuple[Architecture, ...] = (
    Architecture("Fermi", (2, 0), "390", ("proprietary",)),
    Architecture("Kepler", (3, 0), "470", ("proprietary",)),
    Architecture("Maxwell", (5, 0), "580", ("proprietary",)),
    Architecture("Pascal", (6, 0), "580", ("proprietary",)),
    Architecture("Volta", (7, 0), "580", ("proprietary",)),
    Architecture("Turing", (7, 5), None, ("open", "proprietary")),
    Architecture("Ampere", (8, 0), None, ("open", "proprietary")),
    Architecture("Ada", (8, 9), None, ("open", "proprietary")),
    Architecture("Hopper", (9, 0), None, ("open", "proprietary")),
    Architecture("Blackwell", (10, 0), None, ("open",)),
)


def architecture(capability: tuple[int, int]) -> Architecture:
    """The architecture with this compute capability. What is older than all of them counts as the oldest."""
    return next((item for item in reversed(ARCHITECTURES) if item.since <= capability), ARCHITECTURES[0])


# (lowest capability, highest capability, facts); `release` null means the newest examined one. Reasons and notes are codes of messages.
GENERATIONS: tuple[tuple[tuple[int, int], tuple[int, int], dict[str, Any]], ...] = (
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
