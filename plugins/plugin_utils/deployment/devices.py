# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs of its machine a deployment has: those that it names, as many as it wants, or all of them."""

from __future__ import annotations

import itertools
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Names
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import fact, mapping, number, text, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, problem, shown
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import names as listed

INDICES, COUNT = "llm_gpu_indices", "llm_gpu_count"
# Whether a deployment is loaded when somebody asks for it. Several such may have the same GPUs, and take turns where their shares are more than a GPU has.
ON_REQUEST = "llm_on_request"
Value = TypeVar("Value")
# The setting of an engine that says which part of a GPU's memory it takes.
SHARE = "gpu_memory_utilization"
# What is added to a host's variables: its own GPUs, what containers call them, their indices, and the memory that others on the machine leave of
# each.
CHOSEN, DEVICES, PLACES, FREE = "_llm_gpus_chosen", "_llm_devices", "_llm_device_indices", "_llm_free_memory_mib"
# And the other names of the machine that are loaded on request on one of these GPUs, and not at the same time.
RIVALS = "_llm_rivals"
# How two GPUs are connected, best first after NVLink, as nvidia-smi topo -m says it: SYS is another NUMA node.
LINKS = {"PIX": 5, "PXB": 4, "PHB": 3, "NODE": 2, "SYS": 1}
# Shares are decimal fractions.
_EPSILON = 1e-6


# Besides a node of its own for each GPU what CUDA needs: the driver's control device and its unified memory.
CONTROL_DEVICES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


def device_files(facts: Mapping[str, object], cards: Sequence[Mapping[str, object]]) -> list[str]:
    """The device files that a container of these cards is given, as the engine takes them; none before the driver shows its own.

    The runtime nvidia lets a container use them behind the engine's back: systemd, which does not know of that, takes the right away when it renews the
    rules of control groups, as with each daemon-reload (NVIDIA/nvidia-container-toolkit#48). What the engine gave stays. ``facts`` is what gpu_facts found.
    """
    nodes = set(texts(facts.get("device_nodes")))
    minors = [card["index"] if card.get("minor") is None else card["minor"] for card in cards if "index" in card]
    mine = [f"/dev/nvidia{minor}" for minor in minors]
    # Of the others some come with the first program that asks for them: the unit llm-gpu-devices sees to that.
    return [f"{node}:{node}" for node in (*mine, *CONTROL_DEVICES)] if mine and nodes.issuperset(mine) else []


@dataclass(frozen=True)
class Claim:
    """What one inventory name of a machine asks for of the machine's GPUs: named ones, a number of them, or all."""

    host: str
    named: Sequence[str] = ()
    count: int = 0
    share: float | None = None
    on_request: bool = False

    @property
    def all(self) -> bool:
        return not self.named and not self.count


def claim_of(host: str, variables: Mapping[str, object]) -> Claim:
    """The claim of a host. What is malformed is somebody else's to refuse."""
    named, count, share = variables.get(INDICES), variables.get(COUNT), setting(variables, SHARE)
    return Claim(
        host,
        [str(each) for each in named] if isinstance(named, (list, tuple)) else [],
        digits(str(count)) or 0,
        _number(share),
        is_true(variables.get(ON_REQUEST) or False),
    )


def _number(value: object) -> float | None:
    try:
        return None if value is None else number(value)
    except (TypeError, ValueError):
        return None


def find(named: str, gpus: Sequence[Mapping[str, object]]) -> int | None:
    """The place in the list of the GPU with this index or UUID; None where there is none."""
    for place, gpu in enumerate(gpus):
        index = gpu.get("index")
        if named == str(place if index is None else index) or (gpu.get("uuid") and named == str(gpu["uuid"])):
            return place
    return None


@dataclass
class Choice:
    """The places of the GPUs of each host, and what cannot be had."""

    places: dict[str, list[int]] = field(default_factory=dict)
    # By host the names that no GPU has, and hosts that get fewer than they want, with how many are left.
    unknown: dict[str, list[str]] = field(default_factory=dict)
    lacking: dict[str, int] = field(default_factory=dict)


def choose(claims: Sequence[Claim], gpus: Sequence[Mapping[str, object]], links: object = None) -> Choice:
    """The GPUs of each claim on one machine. Named ones come first; numbers follow in order, each with the GPUs that are connected best.

    ``links`` is the topology that the driver tells. Before there is a driver UUIDs are not known: then the first that are free stand for them.
    """
    found = Choice()
    by_uuid = any(gpu.get("uuid") for gpu in gpus)
    taken: set[int] = set()
    open_claims: list[tuple[Claim, int]] = []
    for claim in claims:
        places = {name: find(name, gpus) for name in claim.named}
        missing = [name for name, place in places.items() if place is None]
        if missing and not by_uuid and not any(digits(name) is not None for name in missing):
            open_claims.append((claim, len(claim.named)))
            continue
        if missing:
            found.unknown[claim.host] = missing
        if claim.named:
            found.places[claim.host] = sorted({place for place in places.values() if place is not None})
            taken |= set(found.places[claim.host])
        elif claim.count:
            open_claims.append((claim, claim.count))
        else:
            found.places[claim.host] = list(range(len(gpus)))
    for claim, count in open_claims:
        free = [place for place in range(len(gpus)) if place not in taken]
        if count > len(free):
            found.lacking[claim.host] = len(free)
        found.places[claim.host] = connected(free, min(count, len(free)), gpus, mapping(links))
        taken |= set(found.places[claim.host])
    return found


def connected(
    free: Sequence[int], count: int, gpus: Sequence[Mapping[str, object]], links: Mapping[str, object]
) -> list[int]:
    """So many of the free GPUs, whose worst connection is the best there is, then the sum of all; of equal ones the first."""

    def rank(one: int, other: int) -> int:
        names = [f"GPU{place if gpus[place].get('index') is None else gpus[place]['index']}" for place in (one, other)]
        link = text(mapping(links.get(names[0])).get(names[1]))
        nvlinks = re.fullmatch(r"NV(\d+)", link)
        return 10 + int(nvlinks.group(1)) if nvlinks else LINKS.get(link, 0)

    def quality(group: Iterable[int]) -> tuple[int, int]:
        ranks = [rank(one, other) for one, other in itertools.combinations(group, 2)] or [0]
        return min(ranks), sum(ranks)

    return list(max(itertools.combinations(free, count), key=quality))


def shared_gpus(claims: Sequence[Claim], places: Mapping[str, Sequence[object]]) -> list[tuple[object, list[Claim]]]:
    """Each GPU that several claims have, with these."""
    holders: dict[object, list[Claim]] = {}
    for claim in claims:
        for place in places.get(claim.host) or ():
            holders.setdefault(place, []).append(claim)
    return [(place, mine) for place, mine in holders.items() if len(mine) > 1]


def clash_problems(claims: Sequence[Claim], places: Mapping[str, Sequence[object]], lang: str) -> list[dict[str, str]]:
    """GPUs that two deployments want as a whole, and shares of one that are more than it has; each set of hosts once.

    ``places`` may hold a tuple for what is not known yet.
    """
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for place, mine in shared_gpus(claims, places):
        pinned = [claim for claim in mine if not claim.on_request]
        if not pinned:
            continue
        hosts = tuple(claim.host for claim in mine)
        where = ", ".join(message("where_host", lang, host=host) for host in hosts)
        values = {
            "hosts": listed(hosts, lang),
            "gpu": message("gpu_every", lang) if isinstance(place, tuple) else place,
        }
        whole = [claim.host for claim in mine if claim.share is None]
        total = _total(pinned) + _largest(claim for claim in mine if claim.on_request)
        if whole:
            said = "; ".join(f"{claim.host}: {_said(claim, lang)}" for claim in mine)
            found.setdefault(hosts, problem("gpu_claimed_twice", lang, value=said, where=where, **values))
        elif total > 1 + _EPSILON:
            said = "; ".join(f"{claim.host}: {claim.share:g}" for claim in mine)
            values["total"] = f"{total:g}"
            found.setdefault(hosts, problem("gpu_shares_too_large", lang, value=said, where=where, **values))
    return list(found.values())


def _said(claim: Claim, lang: str) -> str:
    if claim.named:
        return f"{INDICES}: {shown(list(claim.named), lang)}"
    return f"{COUNT}: {claim.count}" if claim.count else f"{INDICES}: {message('nothing', lang)}"


def missing_problems(claims: Sequence[Claim], choice: Choice, count: int, lang: str) -> list[dict[str, str]]:
    """Names that no GPU of the machine has, and numbers that are larger than what is left."""
    found = []
    for claim in claims:
        where = message("where_host", lang, host=claim.host)
        values = {"host": claim.host, "count": count}
        if claim.host in choice.unknown:
            said = f"{INDICES}: {listed(choice.unknown[claim.host], lang)}"
            found.append(problem("gpu_not_there", lang, value=said, where=where, **values))
        elif claim.host in choice.lacking:
            values["left"] = choice.lacking[claim.host]
            found.append(problem("gpu_count_too_large", lang, value=_said(claim, lang), where=where, **values))
    return found


def own_gpus(
    hosts: Sequence[str],
    variables: Mapping[str, Mapping[str, object]],
    names: Mapping[str, Names],
    known: Callable[[Mapping[str, object]], Sequence[Mapping[str, object]]],
    lang: str = "en",
) -> tuple[dict[str, dict[str, object]], list[dict[str, str]]]:
    """What to add to the variables of the hosts that do not have all GPUs of a machine, and what cannot be.

    ``known`` gives the GPUs of a host's machine from the host's variables: found, else declared.
    """
    added: dict[str, dict[str, object]] = {}
    problems: list[dict[str, str]] = []
    reported: set[str] = set()
    for host in hosts:
        sharing = names_on(host, names)["sharing"]
        claims = [claim_of(each, variables[each]) for each in sharing]
        gpus = list(known(variables[host]))
        if not gpus or (len(claims) == 1 and claims[0].all):
            continue
        choice = choose(claims, gpus, fact(variables[host], "llm_gpu").get("topology"))
        mine = [gpus[place] for place in choice.places[host]]
        added[host] = {CHOSEN: mine, **named_devices(choice.places[host], gpus)}
        added[host][RIVALS] = _rivals(host, claims, choice)
        free = _left_by_others(host, claims, choice, gpus)
        if free is not None:
            added[host][FREE] = free
        if not reported.intersection(sharing):
            reported |= set(sharing)
            problems += missing_problems(claims, choice, len(gpus), lang)
            problems += clash_problems(claims, choice.places, lang)
    return added, problems


def named_devices(places: Sequence[int], gpus: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """As NVIDIA_VISIBLE_DEVICES takes them, by UUID where the driver tells it, which stays when another card fails; and by nvidia-smi's index."""
    chosen = [(place, gpus[place]) for place in places]
    indices = ",".join(str(place if gpu.get("index") is None else gpu["index"]) for place, gpu in chosen)
    by_uuid = all(gpu.get("uuid") for _place, gpu in chosen)
    return {DEVICES: ",".join(str(gpu["uuid"]) for _place, gpu in chosen) if by_uuid else indices, PLACES: indices}


def _total(claims: Iterable[Claim]) -> float:
    return sum(claim.share or 0 for claim in claims)


def _largest(claims: Iterable[Claim]) -> float:
    return max((claim.share or 0 for claim in claims), default=0)


def _fit_together(mine: Sequence[Claim]) -> bool:
    """Whether all claims of a GPU can be loaded at the same time. Without a share a claim is for all of it."""
    return all(claim.share is not None for claim in mine) and _total(mine) <= 1 + _EPSILON


def _rivals(host: str, claims: Sequence[Claim], choice: Choice) -> list[str]:
    """The other names that are loaded on request on a GPU of this one, which is, too, and take turns with it."""
    found: set[str] = set()
    for _place, mine in shared_gpus(claims, choice.places):
        turns = [claim.host for claim in mine if claim.on_request]
        if host in turns and not _fit_together(mine):
            found.update(turns)
    return [claim.host for claim in claims if claim.host in found - {host}]


def _taken_by_others(own: Claim, mine: Sequence[Claim]) -> float:
    """The part of a GPU that the other claims of it take, at most, while this one is loaded."""
    others = [claim for claim in mine if claim is not own]
    if _fit_together(mine):
        return _total(others)
    pinned = _total(claim for claim in others if not claim.on_request)
    return pinned + (0 if own.on_request else _largest(claim for claim in others if claim.on_request))


def _left_by_others(
    host: str, claims: Sequence[Claim], choice: Choice, gpus: Sequence[Mapping[str, object]]
) -> float | None:
    """The least that other deployments leave of the memory of one of a host's GPUs; None where it shares none."""
    left = [
        number(gpus[place].get("memory_mib") or 0) * (1 - _taken_by_others(own, mine))
        for place, mine in shared_gpus(claims, choice.places)
        for own in mine
        if own.host == host and isinstance(place, int)
    ]
    return min(left) if left else None


def with_own_gpus(
    variables: Mapping[str, Mapping[str, object]], added: Mapping[str, Mapping[str, object]]
) -> Mapping[str, Mapping[str, object]]:
    """The variables of all hosts with what was added to some."""
    more = {host: overlaid(each, variables[host]) for host, each in added.items()}
    return overlaid(more, variables) if more else variables


def overlaid(more: Mapping[str, Value], variables: Mapping[str, Value]) -> Mapping[str, Value]:
    """Variables with what was added; they are read when they are asked for."""
    # ChainMap writes to the first of its mappings only.
    return ChainMap(dict(more), cast(MutableMapping[str, Value], variables))
