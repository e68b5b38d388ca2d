# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPU runs which CUDA code, and which driver runs which CUDA: the rules as tables, and the questions that they answer."""

from __future__ import annotations

import re
from typing import Iterable, Mapping

from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping, texts

# Cubins (sm_XY) run on the same major number from their minor number on, PTX (compute_XY) on every later GPU. Not so on Tegra, whose
# cubins are for nothing else. CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility".
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#binary-compatibility
TEGRA = ((5, 3), (6, 2), (7, 2), (8, 7))
# The suffix a binds code, PTX included, to its very architecture; f to the family. Same guide, "Family-Specific Compatibility".
# https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html
FAMILIES: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {
    (10, 0): ((10, 0), (10, 3)),
    (10, 3): ((10, 3),),
    (11, 0): ((11, 0),),
    (12, 0): ((12, 0), (12, 1)),
    (12, 1): ((12, 1),),
}

# In which share of its containers a library must have an architecture to be built for it. Not all kernels are built for all GPUs (of
# one release, 26 % of them for 7.0), but single strays from CUDA's own device library are in many (2 % for 5.2). Where a GPU depends on
# PTX, it has nothing else: then it has to be in most of them. Figures: docs/reference/images.md.
LEAST_SHARE = {"sm": 0.1, "compute": 0.5}

# The lowest driver for programs made with a CUDA of this major number ("minor version compatibility").
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, and table 2 of
# https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html
LOWEST_DRIVER = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
# PTX is translated by the driver, which must be as new as the compiler that wrote it: the driver that came with that CUDA. Table 3 there.
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html ("Limitations and caveats")
OWN_DRIVER: tuple[tuple[tuple[int, int], str], ...] = (
    ((11, 8), "520.61.05"),
    ((12, 0), "525.60.13"),
    ((12, 1), "530.30.02"),
    ((12, 2), "535.54.03"),
    ((12, 3), "545.23.06"),
    ((12, 4), "550.54.14"),
    ((12, 5), "555.42.02"),
    ((12, 6), "560.28.03"),
    ((12, 8), "570.26"),
    ((12, 9), "575.51.03"),
    ((13, 0), "580.65.06"),
    ((13, 1), "590.44.01"),
)

# Images made from NVIDIA's bring the driver's libraries of their own CUDA (forward compatibility). The container toolkit and engines' images
# prefer them to those of an older driver, and only the cards of data centres run them; others end with error 804.
# https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html; issues 5283 and 5510 of vllm-project/vllm.
# A card is one of data centres by these words of its name; without a name by a capability that no other card has.
_OTHER_CARDS = re.compile(r"geforce|quadro|titan|\brtx\b|\bgtx\b", re.I)
_DATA_CENTRE_CARDS = re.compile(r"tesla|\b(?:[ABHLPTV]\d{1,3}[GLS]?|G[BH]\d{3})\b", re.I)
_DATA_CENTRE_ONLY = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (10, 3))

# Without code for a GPU in these libraries, nothing runs on it. The others hold kernels that engines go without.
NEEDED = ("vllm", "torch")

_NAME = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


def capability(text: object) -> tuple[int, int]:
    """7.0 as (7, 0). Raise ValueError if it is none."""
    found = re.fullmatch(r"(\d+)\.(\d)", str(text).strip())
    if not found:
        raise ValueError("{0!r} is no compute capability such as 7.0".format(text))
    return int(found.group(1)), int(found.group(2))


def is_data_centre(name: str, gpu: tuple[int, int]) -> bool:
    """Whether a card of this name and compute capability is one of data centres, which run libraries of a newer CUDA than their driver."""
    if not name:
        return gpu in _DATA_CENTRE_ONLY
    return bool(_DATA_CENTRE_CARDS.search(name)) and not _OTHER_CARDS.search(name)


def runs(architecture: str, gpu: tuple[int, int]) -> bool:
    """Whether code for an architecture (sm_90a, compute_80) runs on a GPU of this compute capability."""
    found = _NAME.fullmatch(architecture)
    if not found:
        return False
    kind, major, minor, suffix = found.group(1), int(found.group(2)), int(found.group(3)), found.group(4)
    if suffix == "a":
        return (major, minor) == gpu
    if suffix == "f":
        return gpu in FAMILIES.get((major, minor), ((major, minor),))
    if kind == "compute":
        return (major, minor) <= gpu
    if (major, minor) in TEGRA or gpu in TEGRA:
        return (major, minor) == gpu
    return major == gpu[0] and minor <= gpu[1]


def built_for(containers: int, architectures: Mapping[str, int]) -> list[str]:
    """The architectures that a library is built for, without strays."""
    return [name for name, count in architectures.items() if count >= LEAST_SHARE[name.partition("_")[0]] * containers]


def code_for(architectures: Iterable[str], gpu: tuple[int, int]) -> str | None:
    """How a GPU is served: sm by cubins, compute by PTX only, None not at all."""
    kinds = {name.partition("_")[0] for name in architectures if runs(name, gpu)}
    return "sm" if "sm" in kinds else "compute" if kinds else None


def named(entry: object) -> list[str]:
    """The architectures that are meant by an entry of a list as builds take it: 9.0+PTX is sm_90 and compute_90."""
    text = str(entry).strip()
    version = text[: -len("+PTX")] if text.endswith("+PTX") else text
    number = "{0}{1}".format(*capability(version))
    return ["sm_" + number] + (["compute_" + number] if version != text else [])


def held(image: Mapping[str, object]) -> dict[str, list[str]]:
    """What each library that is needed is built for, of an image as the manifest describes it; what it says where nothing was found."""
    libraries = mapping(mapping(image.get("contents")).get("libraries"))
    found = {name: texts(mapping(libraries[name]).get("built_for")) for name in NEEDED if name in libraries}
    entries = image.get("compute_capabilities")
    said: list[str] = []
    for entry in entries if isinstance(entries, (list, tuple)) else ():
        try:
            said += named(entry)
        except ValueError:  # reported where the inventory is checked
            continue
    return found or ({"compute_capabilities": said} if said else {})


def capabilities(libraries: Iterable[Iterable[str]]) -> list[str]:
    """The compute capabilities, as in 7.0, that cubins of all these libraries serve, among those that any is built for."""
    held = [list(names) for names in libraries]
    named = {
        (int(found.group(2)), int(found.group(3)))
        for names in held
        for found in map(_NAME.fullmatch, names)
        if found and found.group(1) == "sm"
    }
    return ["{0}.{1}".format(*gpu) for gpu in sorted(named) if all(code_for(names, gpu) == "sm" for names in held)]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def older(driver: str, than: str) -> bool:
    """Whether a driver is older than another; a mere branch (570) counts as its newest."""
    one, other = _numbers(driver), _numbers(than)
    return one < other[: len(one)] if len(one) == 1 else one < other


def oldest(drivers: Iterable[str]) -> str | None:
    """The oldest of several drivers."""
    return min(drivers, key=_numbers, default=None)


def lowest_driver(cuda: str, through_ptx: bool = False) -> str | None:
    """The lowest driver for programs made with this CUDA; None if it is not known."""
    numbers = _numbers(cuda)
    if not numbers:
        return None
    if not through_ptx:
        return LOWEST_DRIVER.get(numbers[0])
    own = [driver for version, driver in OWN_DRIVER if version <= numbers[:2] and version[0] == numbers[0]]
    return own[-1] if own else LOWEST_DRIVER.get(numbers[0])
