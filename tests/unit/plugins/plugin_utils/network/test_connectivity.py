"""What the connectivity check found: dead paths, dead directions, ports, MTUs, and the choice between networks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.connectivity import (
    check_connectivity,
    connectivity_arguments,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support.connectivity import A, B, candidate, cut, good


def codes(checked: dict[str, Any], network: str) -> list[str]:
    return [
        found["code"] for entry in checked["networks"] if entry["network"] == network for found in entry["problems"]
    ]


def test_the_first_that_works_is_chosen() -> None:
    checked = check_connectivity([candidate(A), candidate(B)], good(A, B))
    assert (checked["network"], checked["problems"], checked["notes"]) == (A, [], [])
    assert checked["interfaces"]["gpu2"]["address"] == "10.0.0.2"


def test_one_that_carries_nothing_is_passed_over_and_that_is_said() -> None:
    results = good(A, B)
    for one, other in itertools.permutations(results, 2):
        cut(results, A, one, other)
    checked = check_connectivity([candidate(A), candidate(B)], results)
    assert checked["network"] == B
    (note,) = checked["notes"]
    assert A in note
    assert "passed over" in note
    assert "gpu1 - gpu2" in note


def test_the_one_in_use_is_kept_while_it_works() -> None:
    checked = check_connectivity([candidate(A), candidate(B)], good(A, B), previous=B)
    assert checked["network"] == B
    assert A in checked["notes"][0]
    results = good(A, B)
    cut(results, B, "gpu1", "gpu2")
    assert check_connectivity([candidate(A), candidate(B)], results, previous=B)["network"] == A


@pytest.mark.parametrize("tcp", ["both", "one"])
def test_a_dead_direction_is_named(tcp: str) -> None:
    results = good(A)
    cut(results, A, "gpu1", "gpu2", tcp=tcp)
    checked = check_connectivity([candidate(A)], results)
    (found,) = checked["problems"]
    assert found["code"] == "connectivity_one_way"
    assert "gpu1 -> gpu2" in found["what"]
    assert "gpu2 -> gpu1" not in found["what"]
    assert "Nothing has been started" in checked["message"]


def test_a_dead_path_is_told_once() -> None:
    results = good(A)
    cut(results, A, "gpu1", "gpu2")
    cut(results, A, "gpu2", "gpu1")
    (found,) = check_connectivity([candidate(A)], results)["problems"]
    assert found["code"] == "connectivity_no_path"
    assert "gpu1 - gpu2." in found["what"]


def test_a_blocked_port_is_told_with_its_pairs() -> None:
    results = good(A)
    for sender in ("gpu1", "gpu2"):
        results[sender]["reached"][A]["gpu3"]["failed"] = {"ray_port": {"port": 6379, "reason": "timeout"}}
    (found,) = check_connectivity([candidate(A)], results)["problems"]
    assert found["code"] == "connectivity_port_blocked"
    assert "6379" in found["what"]
    assert "gpu1 -> gpu3, gpu2 -> gpu3" in found["what"]


def test_a_taken_port_is_told_where_it_counts() -> None:
    results = good(A, B)
    taken = {"variable": "ray_port", "port": 6379, "program": "redis-server", "pid": 42}
    results["gpu1"]["taken"] = [{**taken, "address": "10.0.0.1"}]
    checked = check_connectivity([candidate(A)], results)
    (found,) = checked["problems"]
    assert found["code"] == "connectivity_port_taken"
    assert "redis-server (42)" in found["what"]
    assert "host_vars/gpu1.yml" in found["where"]
    assert check_connectivity([candidate(A), candidate(B)], results)["network"] == B


@pytest.mark.parametrize(
    ("reason", "code"), [("other:gpu3", "connectivity_other_host"), ("other_service", "connectivity_other_service")]
)
def test_somebody_else_answers(reason: str, code: str) -> None:
    results = good(A)
    results["gpu1"]["reached"][A]["gpu2"]["failed"] = {"dynamic": {"port": 40000, "reason": reason}}
    assert codes(check_connectivity([candidate(A)], results), A) == [code]


def test_data_that_does_not_get_through() -> None:
    results = good(A)
    results["gpu1"]["reached"][A]["gpu2"].update(mbps=None, stream="timeout")
    results["gpu2"]["heard"][A]["gpu1"] = 1400
    checked = check_connectivity([candidate(A)], results)
    (found,) = checked["problems"]
    assert found["code"] == "connectivity_stream"
    assert "1400" in found["what"]


def test_mtus_that_differ_are_named_and_nothing_is_refused() -> None:
    one = candidate(A)
    one["interfaces"]["gpu3"]["mtu"] = 9000
    checked = check_connectivity([one], good(A))
    assert checked["network"] == A
    assert "gpu1 1500 (eth1), gpu2 1500 (eth2), gpu3 9000 (eth3)" in checked["notes"][0]


def test_a_path_that_takes_less_than_its_ends() -> None:
    checked = check_connectivity([candidate(A, mtu=9000)], good(A))
    assert "up to 1500 bytes" in checked["notes"][0]
    assert "9000" in checked["notes"][0]


def test_a_direction_that_is_much_slower() -> None:
    results = good(A)
    results["gpu1"]["reached"][A]["gpu2"]["mbps"] = 94.0
    (note,) = check_connectivity([candidate(A)], results)["notes"]
    assert "gpu1 -> gpu2 carries 94 Mbit/s" in note
    assert "gpu2 -> gpu1 carries 9.0 Gbit/s" in note


def test_a_host_that_told_nothing_is_not_reached() -> None:
    results = good(A)
    results["gpu3"] = {}
    for me in ("gpu1", "gpu2"):
        del results[me]["reached"][A]["gpu3"]
        del results[me]["heard"][A]["gpu3"]
    (found,) = check_connectivity([candidate(A)], results)["problems"]
    assert found["code"] == "connectivity_no_path"
    assert "gpu1 - gpu3, gpu2 - gpu3" in found["what"]


INFINIBAND = {"device": "mlx5_0", "port": 1, "active": True, "link_layer": "InfiniBand", "rate_gbps": 200.0, "gids": []}


@pytest.mark.parametrize(
    ("lang", "note"),
    [
        ("en", "InfiniBand is active on 2 of 3 hosts only, so all of them use sockets instead of RDMA; look at the ports of gpu3."),
        ("zh", "请检查 gpu3 的端口"),
    ],
)  # fmt: skip
def test_rdma_that_one_host_lacks_is_said(lang: str, note: str) -> None:
    down = {**INFINIBAND, "active": False}
    rdma = {"gpu1": [INFINIBAND], "gpu2": [INFINIBAND], "gpu3": [down]}
    checked = check_connectivity([candidate(A)], good(A), lang=lang, rdma=rdma)
    assert note in checked["notes"][0]
    assert checked["problems"] == []
    assert checked["interfaces"]["gpu1"]["speed_mbps"] == 0


def test_where_all_have_rdma_its_ports_are_the_links() -> None:
    rdma = {
        "gpu1": [INFINIBAND, {**INFINIBAND, "device": "mlx5_1"}],
        "gpu2": [INFINIBAND],
        "gpu3": [{**INFINIBAND, "rate_gbps": None}],
    }
    slow = candidate(A)
    for entry in slow["interfaces"].values():
        entry["speed_mbps"] = 1000
    checked = check_connectivity([slow], good(A), rdma=rdma)
    assert checked["notes"] == []
    assert [entry["speed_mbps"] for entry in checked["interfaces"].values()] == [400000, 200000, 1000]


@given(st.sets(st.sampled_from(list(itertools.permutations(["gpu1", "gpu2", "gpu3"], 2)))))
def test_any_set_of_dead_directions_is_refused_and_named(lost: set[tuple[str, str]]) -> None:
    results = good(A)
    for sender, receiver in lost:
        cut(results, A, sender, receiver)
    checked = check_connectivity([candidate(A)], results)
    assert bool(checked["problems"]) == bool(lost)
    outcome = " ".join(found["what"] for found in checked["problems"])
    for sender, receiver in lost:
        assert (f"{sender} -> {receiver}" in outcome) == ((receiver, sender) not in lost)
        if (receiver, sender) in lost:
            assert f"{min(sender, receiver)} - {max(sender, receiver)}" in outcome


def test_what_a_host_is_told() -> None:
    candidates = [candidate(A, 2), candidate(B, 2)]
    outcome = connectivity_arguments(
        candidates, "gpu1", {"gpu1": {"port": 1, "held": {}}, "gpu2": {"port": 2, "held": {}}, "gpu9": {}}
    )
    assert outcome["addresses"] == {A: "10.0.0.1", B: "10.0.1.1"}
    assert outcome["mtus"] == {A: 1500, B: 1500}
    (peer,) = outcome["peers"]
    assert (peer["host"], peer["port"], peer["addresses"][B]) == ("gpu2", 2, "10.0.1.2")
