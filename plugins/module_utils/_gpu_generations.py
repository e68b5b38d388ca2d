# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU generations: the limits of driver and kernel modules.

Source: "The release 580 series
will be the last to support GPUs based on the Maxwell, Pascal, and Volta architectures"; 470 was it for Kepler, 390 for Fermi
(https://forums.developer.nvidia.com/t/unix-graphics-feature-deprecation-schedule/60588). Kernel modules: the open ones need the GPU
system processor, which Turing was the first to have, and Blackwell has no others
(https://github.com/NVIDIA/open-gpu-kernel-modules#compatible-gpus).
"""

from __future__ import annotations

from typing import NamedTuple


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
