# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch's caching allocator, as far as it decides how many bytes count as allocated.

"Model loading took" is the sum of the blocks that the allocator handed out, and a block can be larger than the tensor in it:
large requests take whole 2 MiB, and a block that was freed earlier is reused although it is larger. The rules are those of
c10/cuda/CUDACachingAllocator.cpp (best fit; small and large pool; splitting; max_split_size).
"""

from __future__ import annotations

from bisect import bisect_left, insort

KIB = 1024
MIB = 1024 * KIB
ROUND = 512
SMALL = MIB  # requests up to this come from the small pool
LARGE_BUFFER = 20 * MIB  # segment for requests below MIN_LARGE
MIN_LARGE = 10 * MIB
ROUND_LARGE = 2 * MIB


class Allocator:
    """Counts allocated bytes; one instance for one rank's loading."""

    def __init__(self, max_split: int | None) -> None:
        self.max_split = max_split
        self.allocated = 0
        self._free: list[int] = []  # sizes of free blocks of the large pool, sorted

    def allocate(self, size: int) -> int:
        """Take a block for `size` bytes; returns the block's size, to be given to `free`."""
        if size <= 0:
            return 0
        size = -(-size // ROUND) * ROUND
        if size <= SMALL:
            self.allocated += size
            return size
        block = self._find(size)
        if block is None:
            block = LARGE_BUFFER if size < MIN_LARGE else -(-size // ROUND_LARGE) * ROUND_LARGE
        rest = block - size
        if rest > SMALL and (self.max_split is None or size < self.max_split):
            insort(self._free, rest)
            block = size
        self.allocated += block
        return block

    def free(self, block: int) -> None:
        """Give a block back."""
        self.allocated -= block
        if block > SMALL:
            insort(self._free, block)

    def _find(self, size: int) -> int | None:
        index = bisect_left(self._free, size)
        if index == len(self._free):
            return None
        block = self._free[index]
        if self.max_split is not None:
            if size < self.max_split <= block:
                return None
            if size >= self.max_split and block >= size + LARGE_BUFFER:
                return None
        return self._free.pop(index)
