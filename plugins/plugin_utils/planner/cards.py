# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs as people write them: '2 x Tesla V100-PCIE-16GB' for a host, '2 x 4 RTX 4090 + 1 x 2 RTX A6000' for hosts of several kinds.

A card may be named in full or in short: 'RTX 4090', '4090', 'A6000', 'V100 32GB'.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

from ansible_collections.baremetal.llm.plugins.module_utils._gpu import PRODUCTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.cards import CARDS, DISTINCT, LEFT_OUT
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import known

MOST_HOSTS, MOST_GPUS = 4096, 64
# A size in a text (24 GB) and the memory that nvidia-smi prints differ by less.
SIZE_TOLERANCE_GIB = 1.5
_TIMES = r"\s*[x×*]\s*"
_GPUS = rf"(?P<gpus>[0-9]{{1,9}})(?:{_TIMES}|\s+)(?P<card>\S.*)"
_HOSTS_AND_GPUS = re.compile(rf"(?P<hosts>[0-9]{{1,9}}){_TIMES}{_GPUS}", re.I)
_GPUS_ALONE = re.compile(_GPUS, re.I)
_SIZE = re.compile(r"([0-9]{1,6})gb")


Found = TypeVar("Found")


class Card(NamedTuple):
    """A card with what nvidia-smi prints of it."""

    name: str
    memory_mib: int
    compute_capability: str

    def as_gpu(self) -> dict[str, object]:
        """As in an inventory's ``llm_gpus``."""
        return self._asdict()


@cache
def cards() -> tuple[Card, ...]:
    """All cards whose memory is known. The first of those with one name is the usual one."""
    named = [(product.name, product.memory_mib) for product in PRODUCTS.values() if product.memory_mib]
    found = []
    for name, memory in dict.fromkeys([*named, *CARDS]):
        board = known(name, memory)
        if board is not None:
            found.append(Card(name, memory, "{}.{}".format(*board[0])))
    return tuple(found)


def _words(text: str) -> frozenset[str]:
    """The words of a card's name: RTX4090D is rtx, 4090 and d, 32 G is 32gb, SXM2 is sxm."""
    low = re.sub(r"(\d+)\s*g(?:i?b)?\b", r"\1gb", text.lower())
    low = re.sub(r"\brtx(?=a?\d)", "rtx ", low)
    low = re.sub(r"\b(\d{4})(ti|super|d)", r"\1 \2", low)
    words = (re.sub(r"^sxm\d$", "sxm", word) for word in re.findall(r"[a-z0-9]+", low))
    return frozenset(words) - LEFT_OUT


def _matches(asked: frozenset[str], card: Card) -> bool:
    words = _words(card.name)
    sizes = [int(found[1]) for word in asked if (found := _SIZE.fullmatch(word)) and word not in words]
    if any(abs(card.memory_mib / 1024 - size) > SIZE_TOLERANCE_GIB for size in sizes):
        return False
    rest = frozenset(word for word in asked if not _SIZE.fullmatch(word) or word in words)
    return bool(rest) and rest <= words and words & DISTINCT <= asked


def find_card(text: str) -> Card | Text:
    """The card that a text names, or why it names none. Of cards that are equal but for their NVLink, the one without it."""
    asked = _words(text)
    found = [card for card in cards() if _matches(asked, card)]
    exact = [card for card in found if card.name.lower() == text.strip().lower()]
    found = exact or [card for card in found if _words(card.name) == asked] or found
    if not any(_SIZE.fullmatch(word) for word in asked):
        found = list({card.name: card for card in reversed(found)}.values())[::-1]
    if not found:
        return Text("input_card", found=text, near=", ".join(_near(text)))
    if len({card[1:] for card in found}) > 1:
        names = ", ".join(f"{card.name} ({card.memory_mib} MiB)" for card in found)
        sized = f"{text} {max(card.memory_mib for card in found) / 1024:.0f}GB"
        return Text("input_card_which", found=text, cards=names, sized=sized)
    return min(found, key=lambda card: bool(re.search("SXM|HBM", card.name)))


def _near(text: str) -> list[str]:
    """The names that are most like a text, those with one of its words first."""
    asked = _words(text)
    names = list(dict.fromkeys(card.name for card in cards()))

    def likeness(name: str) -> tuple[int, float]:
        short = " ".join(sorted(_words(name)))
        return len(asked & _words(name)), difflib.SequenceMatcher(None, " ".join(sorted(asked)), short).ratio()

    return sorted(names, key=likeness, reverse=True)[:3]


def read_gpus_line(text: str, field: str = "llm_gpus") -> list[dict[str, object]]:
    """The GPUs of one host, '2 x Tesla V100-PCIE-16GB' or '1 x RTX 4090 + 1 x RTX A6000', each with name, memory_mib and compute_capability.

    Raises InputError that names all that is wrong.
    """
    gpus: list[dict[str, object]] = []
    faults: list[Text] = []
    for part in _parts(text):
        found = _GPUS_ALONE.fullmatch(part)
        count = int(found["gpus"]) if found else 0
        if found is None or not 1 <= count <= MOST_GPUS:
            faults.append(Text("input_gpus_line", found=part, most=MOST_GPUS))
            continue
        card = find_card(found["card"])
        if isinstance(card, Text):
            faults.append(card)
        else:
            gpus += [card.as_gpu() for _gpu in range(count)]
    return _read(gpus, faults, field)


def declared_gpus(value: object, field: str = "llm_gpus") -> Sequence[Mapping[str, object]]:
    """What an inventory declares as the GPUs of a host, as a list: they may stand there as one line."""
    if isinstance(value, str):
        return read_gpus_line(value, field)
    listed = fields.listing(value or [], field)
    return [fields.mapping(gpu, f"{field}[{index}]") for index, gpu in enumerate(listed)]


def said_fleet(variables: Mapping[str, object]) -> str:
    """``llm_fleet`` of the command line; an empty text where there is none.

    The shell takes the quotes of -e llm_fleet='3 x 2 ...', and Ansible cuts what is left at the first space: the rest is in ``_raw_params``.
    """
    text, rest = (str(variables.get(name) or "") for name in ("llm_fleet", "_raw_params"))
    return text if " " in text or not text else f"{text} {rest}".strip()


def read_fleet(text: str, field: str = "llm_fleet") -> list[list[dict[str, object]]]:
    """The GPUs of each host of '3 x 2 Tesla V100-PCIE-16GB' (hosts x GPUs of each), several kinds joined with +.

    Raises InputError that names all that is wrong.
    """
    hosts: list[list[dict[str, object]]] = []
    faults: list[Text] = []
    for part in _parts(text):
        found = _HOSTS_AND_GPUS.fullmatch(part)
        if found is None:
            faults.append(_not_hosts_and_gpus(part))
            continue
        count, gpus = int(found["hosts"]), int(found["gpus"])
        if not (1 <= count <= MOST_HOSTS and 1 <= gpus <= MOST_GPUS):
            faults.append(Text("input_fleet_size", found=part, hosts=MOST_HOSTS, gpus=MOST_GPUS))
            continue
        card = find_card(found["card"])
        if isinstance(card, Text):
            faults.append(card)
        else:
            hosts += [[card.as_gpu() for _gpu in range(gpus)] for _host in range(count)]
    return _read(hosts, faults, field)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"[+,;\n]", text)]


def _not_hosts_and_gpus(part: str) -> Text:
    """A part with one number may mean hosts or GPUs."""
    found = _GPUS_ALONE.fullmatch(part)
    if found is None or re.fullmatch(r"\d{1,2}(\s.*)?", found["card"]):
        return Text("input_fleet", found=part)
    return Text("input_fleet_number", found=part, count=found["gpus"], card=found["card"])


def _read(found: list[Found], faults: list[Text], field: str) -> list[Found]:
    if len(faults) == 1:
        raise InputError(field, faults[0].code, **faults[0].values)
    if faults:
        raise InputError(field, "input_faults", faults=faults)
    return found
