# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs as nvidia-smi reports them."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.gpus import GEFORCE_RESERVED, GPUS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

MIB = 1024**2


class Gpu(NamedTuple):
    """One GPU. `total` is what CUDA reports: a little less than nvidia-smi's figure on some drivers."""

    name: str
    total: int
    capability: tuple[int, int]

    @property
    def capability_text(self) -> str:
        return "{0}.{1}".format(*self.capability)


def known(name: str, memory_mib: float = 0) -> tuple[tuple[int, int], float] | None:
    """Capability, and MiB that CUDA reports for a board that the table knows by name.

    A total that lies between CUDA's figure and nvidia-smi's figure of a board is that board's; any other is taken as it is (older
    drivers, slices of a GPU, a copied figure of torch). So more memory never means less.
    """
    upper = name.upper()
    for pattern, compute, reserved_mib, printed in GPUS:
        if pattern.upper() not in upper:
            continue
        for total in printed:
            reserved = GEFORCE_RESERVED[0] + GEFORCE_RESERVED[1] * total if reserved_mib is None else reserved_mib
            if total - reserved < memory_mib <= total:
                return compute, total - reserved
        return compute, memory_mib
    return None


def read_gpu(value: object, field: str) -> Gpu:
    """One GPU from {name, memory_mib, compute_capability}."""
    entry = fields.mapping(value, field)
    name = str(entry.get("name") or "GPU")
    memory = fields.number(entry, "memory_mib", field, 1, 4 * 1024**2)
    if memory is None:
        raise InputError("{0}.memory_mib".format(field), "input_gpu_memory")
    if memory < 64:
        raise InputError("{0}.memory_mib".format(field), "input_gpu_memory_unit", found=memory)
    found = known(name, memory)
    if entry.get("compute_capability") is not None:
        compute = fields.capability(entry["compute_capability"], "{0}.compute_capability".format(field))
    elif found:
        compute = found[0]
    else:
        raise InputError("{0}.compute_capability".format(field), "input_gpu_unknown", gpu=name)
    return Gpu(name, int((found[1] if found else memory) * MIB), compute)


def read_gpus(value: object, field: str = "gpus") -> list[Gpu]:
    """All GPUs of a list; equal entries are read once."""
    entries = fields.listing(value, field)
    if not entries:
        raise InputError(field, "input_no_gpu")
    return [read_gpu(entry, "{0}[{1}]".format(field, index)) for index, entry in enumerate(entries)]
