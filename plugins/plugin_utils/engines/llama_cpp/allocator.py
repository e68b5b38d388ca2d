# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much memory the values between the weights take: ggml places them in one buffer and uses each place again when nobody reads it any more.

The order of placing decides, since a free place that is a little too small stays empty. So it is done here as ggml does it, with sizes instead of
memory. Source: ggml/src/ggml-alloc.c of https://github.com/ggml-org/llama.cpp (ggml_dyn_tallocr_alloc, ggml_gallocr_alloc_graph_impl).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

# Operations whose result may take the place of what they read (ggml_op_can_inplace), as far as the graphs here have them.
IN_PLACE = frozenset(("scale", "add", "mul", "div", "unary", "rope", "rms_norm", "soft_max"))
_ENDLESS = 1 << 62


@dataclass(eq=False)
class Value:
    """A value of the graph. ``shape`` tells apart what may not share a place; a view has none of its own."""

    size: int
    shape: tuple[object, ...]
    operation: str = ""  # empty: an input
    sources: tuple[Value, ...] = ()
    view: Value | None = None
    is_output: bool = False
    is_outside: bool = False  # a weight, or a part of the cache
    children: int = field(default=0, init=False)
    views: int = field(default=0, init=False)
    offset: int | None = field(default=None, init=False)  # where it lies; None where it has no place of its own
    was_placed: bool = field(default=False, init=False)


class _Places:
    """Free places by offset. The last one is without end."""

    def __init__(self, alignment: int) -> None:
        self.alignment = alignment
        self.free: list[tuple[int, int]] = [(0, _ENDLESS)]
        self.most = 0

    def _aligned(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment

    def take(self, size: int) -> int:
        size = self._aligned(size)
        found = len(self.free) - 1
        best = _ENDLESS
        for index, (_offset, room) in enumerate(self.free[:-1]):
            if size <= room <= best:
                found, best = index, room
        offset, room = self.free[found]
        if room == size:
            del self.free[found]
        else:
            self.free[found] = (offset + size, room - size)
        self.most = max(self.most, offset + size)
        return offset

    def give(self, offset: int, size: int) -> None:
        size = self._aligned(size)
        index = next(number for number, place in enumerate(self.free) if place[0] > offset)
        start, end = offset, offset + size
        if self.free[index][0] == end:
            end += self.free.pop(index)[1]
        if index and sum(self.free[index - 1]) == start:
            index -= 1
            start = self.free.pop(index)[0]
        self.free.insert(index, (start, end - start))


def buffer_size(nodes: Sequence[Value], inputs: Sequence[Value], alignment: int = 64) -> int:
    """Bytes of the buffer for a graph: its values in the order in which they are computed, and what is given to it. Values are used up: one graph, one call."""
    places = _Places(alignment)
    for value in inputs:
        _place(value, places)
    for node in nodes:
        if node.view is not None:
            node.view.views += 1
        for source in node.sources:
            source.children += 1
    for node in nodes:
        _place(node, places)
        for source in node.sources:
            source.children -= 1
            if source.children or source.views:
                continue
            if source.view is None:
                _free(source, places)
                continue
            source.view.views -= 1
            if not source.view.views and not source.view.children:
                _free(source.view, places)
    return places.most


def _free(value: Value, places: _Places) -> None:
    if value.offset is not None and not value.is_output:
        places.give(value.offset, value.size)
        value.offset = None


def _place(value: Value, places: _Places) -> None:
    if value.was_placed or value.view is not None or value.is_outside:
        return
    value.was_placed = True
    if value.operation in IN_PLACE:
        for source in value.sources:
            # A view is never taken over: ggml knows no place of its own for it.
            if (
                source.is_output
                or source.offset is None
                or source.shape != value.shape
                or source.children != 1
                or source.views
            ):
                continue
            value.offset, source.offset = source.offset, None
            return
    value.offset = places.take(value.size)
