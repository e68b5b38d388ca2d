"""Which GPUs of a machine each of its deployments gets."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import parse_topology
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import devices
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import Claim, choose, own_gpus
from hypothesis import given
from hypothesis import strategies as st


def cards(count: int, uuids: bool = True) -> list[dict[str, Any]]:
    return [
        {"index": n, "uuid": f"GPU-{n}" if uuids else None, "name": "V100", "memory_mib": 16384} for n in range(count)
    ]


def topology(*rows: str) -> dict[str, dict[str, str]]:
    """As nvidia-smi topo -m prints it, with the cells of each GPU."""
    header = "\t".join(["", *(f"GPU{n}" for n in range(len(rows)))])
    lines = ("\t".join([f"GPU{n}", *row.split()]) for n, row in enumerate(rows))
    return parse_topology("\n".join([header, *lines]))


# Four cards of which 0 and 2 have NVLink, and so have 1 and 3; the other pairs are on one NUMA node only with 0 and 1, 2 and 3.
PAIRS = topology("X NODE NV2 SYS", "NODE X SYS NV2", "NV2 SYS X NODE", "SYS NV2 NODE X")
NUMA = topology("X SYS PHB SYS", "SYS X SYS PHB", "PHB SYS X SYS", "SYS PHB SYS X")


@pytest.mark.parametrize(
    ("claims", "links", "places"),
    [
        ([Claim("a")], {}, {"a": [0, 1, 2, 3]}),
        ([Claim("a", ["1", "GPU-3"])], {}, {"a": [1, 3]}),
        ([Claim("a", count=2), Claim("b", count=2)], {}, {"a": [0, 1], "b": [2, 3]}),
        ([Claim("a", count=2), Claim("b", count=2)], PAIRS, {"a": [0, 2], "b": [1, 3]}),
        ([Claim("a", count=2), Claim("b", count=2)], NUMA, {"a": [0, 2], "b": [1, 3]}),
        ([Claim("a", count=2), Claim("b", ["0"])], PAIRS, {"a": [1, 3], "b": [0]}),
        ([Claim("a", count=1), Claim("b", count=3)], PAIRS, {"a": [0], "b": [1, 2, 3]}),
    ],
)
def test_each_gets_its_own(claims: list[Claim], links: Any, places: dict[str, list[int]]) -> None:
    found = choose(claims, cards(4), links)
    assert found.places == places
    assert (found.unknown, found.lacking) == ({}, {})


def test_what_cannot_be_had() -> None:
    found = choose([Claim("a", ["4"]), Claim("b", ["GPU-9", "0"]), Claim("c", count=4)], cards(4))
    assert found.unknown == {"a": ["4"], "b": ["GPU-9"]}
    assert found.lacking == {"c": 3}
    for lang in ("en", "zh"):
        problems = devices.missing_problems([Claim("a", ["4"]), Claim("c", count=4)], found, 4, lang)
        assert [each["code"] for each in problems] == ["gpu_not_there", "gpu_count_too_large"]


def test_before_there_is_a_driver_any_card_stands_for_a_uuid() -> None:
    assert choose([Claim("a", ["GPU-3"]), Claim("b", ["0"])], cards(4, uuids=False)).places == {"a": [1], "b": [0]}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_no_card_is_given_twice_and_the_first_ones_stay_where_they_are(counts: list[int]) -> None:
    claims = [Claim(str(number), count=count) for number, count in enumerate(counts)]
    found = choose(claims, cards(8), {})
    places = [place for mine in found.places.values() for place in mine]
    assert len(places) == len(set(places)) == min(sum(counts), 8)
    fewer = choose(claims[:-1], cards(8), {})
    assert {host: found.places[host] for host in fewer.places} == fewer.places


def machine(**variables: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    facts = {"llm_gpus_found": cards(4), "llm_gpu": {"topology": PAIRS}}
    hosts = {host: {**each, "ansible_facts": facts} for host, each in variables.items()}
    return hosts, {host: {"sharing": list(hosts)} for host in hosts}


def known(variables: Any) -> list[Any]:
    return list(variables["ansible_facts"]["llm_gpus_found"])


def test_the_containers_of_a_deployment_get_its_cards_by_uuid() -> None:
    hosts, names = machine(a={"llm_gpu_count": 2}, b={"llm_gpu_indices": [0]})
    added, problems = own_gpus(["a", "b"], hosts, names, known)
    assert problems == []
    assert {host: each[devices.DEVICES] for host, each in added.items()} == {"a": "GPU-1,GPU-3", "b": "GPU-0"}
    assert {host: each[devices.PLACES] for host, each in added.items()} == {"a": "1,3", "b": "0"}
    assert [gpu["index"] for gpu in added["a"][devices.CHOSEN]] == [1, 3]
    assert devices.FREE not in added["a"]
    more = devices.with_own_gpus(hosts, added)
    assert (more["a"]["llm_gpu_count"], more["a"][devices.DEVICES]) == (2, "GPU-1,GPU-3")
    assert devices.DEVICES not in hosts["a"]


def test_a_machine_with_one_deployment_that_wants_all_gets_nothing_more() -> None:
    hosts, names = machine(a={})
    assert own_gpus(["a"], hosts, names, known) == ({}, [])
    assert devices.with_own_gpus(hosts, {}) is hosts


def test_who_shares_a_card_has_what_the_other_leaves() -> None:
    hosts, names = machine(
        a={"llm_gpu_indices": [0], "vllm_gpu_memory_utilization": 0.25},
        b={"llm_gpu_indices": ["GPU-0"], "vllm_gpu_memory_utilization": 0.5},
    )
    added, problems = own_gpus(["a", "b"], hosts, names, known)
    assert problems == []
    assert (added["a"][devices.FREE], added["b"][devices.FREE]) == (8192, 12288)


@pytest.mark.parametrize(("share", "code"), [(None, "gpu_claimed_twice"), (0.6, "gpu_shares_too_large")])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_index_and_a_uuid_of_one_card_clash_once_the_card_is_known(share: Any, code: str, lang: str) -> None:
    hosts, names = machine(
        a={"llm_gpu_indices": [0], "vllm_gpu_memory_utilization": 0.5},
        b={"llm_gpu_indices": ["GPU-0"], "vllm_gpu_memory_utilization": share},
    )
    _added, problems = own_gpus(["a", "b"], hosts, names, known, lang)
    assert [each["code"] for each in problems] == [code]
    assert "0" in problems[0]["what"]


def test_deployments_that_are_loaded_on_request_take_turns_on_a_card() -> None:
    turns = {"llm_on_request": True}
    hosts, names = machine(
        a={"llm_gpu_indices": [0, 1], **turns}, b={"llm_gpu_indices": ["GPU-0"], **turns}, c={"llm_gpu_indices": [2]}
    )
    added, problems = own_gpus(["a", "b", "c"], hosts, names, known)
    assert problems == []
    assert {host: each[devices.RIVALS] for host, each in added.items()} == {"a": ["b"], "b": ["a"], "c": []}
    assert added["a"][devices.FREE] == added["b"][devices.FREE] == 16384, "each is planned as if it were alone"


def of_one_card(**shares: tuple[float | None, bool]) -> tuple[dict[str, Any], dict[str, float], list[str]]:
    """Of deployments on one GPU with 16 GiB, each with its share and whether it is loaded on request: the rivals and the memory of each, and problems."""
    hosts, names = machine(
        **{
            name: {"llm_gpu_indices": [0], "vllm_gpu_memory_utilization": share, "llm_on_request": asked}
            for name, (share, asked) in shares.items()
        }
    )
    added, problems = own_gpus(list(shares), hosts, names, known)
    rivals = {host: each[devices.RIVALS] for host, each in added.items()}
    return rivals, {host: each[devices.FREE] for host, each in added.items()}, [each["code"] for each in problems]


def test_who_fits_beside_others_takes_no_turns() -> None:
    rivals, free, problems = of_one_card(a=(0.25, True), b=(0.5, True), c=(0.25, True))
    assert (rivals, problems) == ({"a": [], "b": [], "c": []}, [])
    assert free == {"a": 4096, "b": 8192, "c": 4096}
    rivals, free, problems = of_one_card(a=(0.5, True), b=(0.5, True), c=(0.25, True))
    assert (rivals, problems) == ({"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]}, [])
    assert set(free.values()) == {16384}, "each is planned as if it were alone"


def test_one_that_is_always_loaded_leaves_a_share_to_those_that_take_turns() -> None:
    rivals, free, problems = of_one_card(pinned=(0.25, False), a=(0.75, True), b=(0.5, True))
    assert (rivals, problems) == ({"pinned": [], "a": ["b"], "b": ["a"]}, [])
    assert free == {"pinned": 4096, "a": 12288, "b": 12288}
    assert of_one_card(pinned=(0.5, False), a=(0.75, True), b=(0.5, True))[2] == ["gpu_shares_too_large"]
    assert of_one_card(pinned=(0.5, False), a=(None, True))[2] == ["gpu_claimed_twice"]


def test_one_that_is_always_loaded_shares_with_nobody_who_is_not() -> None:
    hosts, names = machine(a={"llm_gpu_indices": [0], "llm_on_request": True}, b={"llm_gpu_indices": [0]})
    _added, problems = own_gpus(["a", "b"], hosts, names, known)
    assert [each["code"] for each in problems] == ["gpu_claimed_twice"]
