"""One decision sets every variable: sockets, RDMA on every host or on none, and what the GPUs can do."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.environment import (
    TUNING,
    cluster_environment,
    hosts_of,
    p2p_impossible,
    p2p_missing,
    rdma_lacking,
    rdma_of,
)
from hypothesis import given
from hypothesis import strategies as st


def host(number: int, interface: str = "eth1", **more: Any) -> dict[str, Any]:
    return {"interface": {"interface": interface, "address": f"10.0.0.{number}"}, **more}


def roce(number: int, index: int = 3, **more: Any) -> dict[str, Any]:
    gids = [
        {"index": 0, "gid": "fe80::1", "type": "IB/RoCE v1", "interface": "eth1"},
        {"index": index - 1, "gid": f"::ffff:10.0.0.{number}", "type": "IB/RoCE v1", "interface": "eth1"},
        {
            "index": index,
            "gid": f"0000:0000:0000:0000:0000:ffff:0a00:{number:04x}",
            "type": "RoCE v2",
            "interface": "eth1",
        },
    ]
    return {"device": "mlx5_0", "port": 1, "active": True, "link_layer": "Ethernet", "gids": gids, **more}


def infiniband(device: str, active: bool = True) -> dict[str, Any]:
    return {"device": device, "port": 1, "active": active, "link_layer": "InfiniBand", "gids": []}


def test_sockets_each_host_its_own() -> None:
    hosts = {"gpu01": host(1, "eth1"), "gpu02": host(2, "ens3f0")}
    assert cluster_environment("gpu01", hosts) == {
        "NCCL_SOCKET_IFNAME": "=eth1", "GLOO_SOCKET_IFNAME": "eth1", "TP_SOCKET_IFNAME": "eth1",
        "UCX_NET_DEVICES": "eth1", "NCCL_IB_DISABLE": "1",
    }  # fmt: skip
    assert cluster_environment("gpu02", hosts)["NCCL_SOCKET_IFNAME"] == "=ens3f0"


def test_roce_on_every_host_each_with_its_own_index() -> None:
    hosts = {"gpu01": host(1, rdma=[roce(1, 3)]), "gpu02": host(2, rdma=[roce(2, 5)])}
    first, second = (cluster_environment(name, hosts) for name in hosts)
    assert (first["NCCL_IB_DISABLE"], first["NCCL_IB_HCA"], first["NCCL_IB_GID_INDEX"]) == ("0", "=mlx5_0:1", "3")
    assert second["NCCL_IB_GID_INDEX"] == "5"
    assert first["UCX_NET_DEVICES"] == "mlx5_0:1,eth1"
    assert first["NCCL_SOCKET_IFNAME"] == "=eth1"  # NCCL still meets over sockets


@pytest.mark.parametrize(
    "second",
    [host(2), host(2, rdma=[roce(2, active=False)]), host(2, rdma=[roce(9)]), host(2, rdma=[infiniband("mlx5_0")])],
    ids=["none", "port down", "another address", "another kind"],
)
def test_rdma_on_one_host_only_is_not_used(second: dict[str, Any]) -> None:
    hosts = {"gpu01": host(1, rdma=[roce(1)]), "gpu02": second}
    for name in hosts:
        found = cluster_environment(name, hosts)
        assert found["NCCL_IB_DISABLE"] == "1"
        assert "NCCL_IB_HCA" not in found


def test_infiniband_goes_first_with_every_port_that_is_up() -> None:
    cards = [infiniband("mlx5_1"), infiniband("mlx5_2"), infiniband("mlx5_3", active=False)]
    hosts = {f"gpu0{n}": host(n, rdma=[roce(n), *cards]) for n in (1, 2)}
    found = cluster_environment("gpu01", hosts)
    assert found["NCCL_IB_HCA"] == "=mlx5_1:1,mlx5_2:1"
    assert "NCCL_IB_GID_INDEX" not in found


@pytest.mark.parametrize(
    ("p2p", "disabled"),
    [
        (None, False),
        ({}, False),
        ({"GPU0": {}}, False),
        ({"GPU0": {"GPU1": None}, "GPU1": {"GPU0": None}}, False),
        ({"GPU0": {"GPU1": True}, "GPU1": {"GPU0": True}}, False),
        ({"GPU0": {"GPU1": False}, "GPU1": {"GPU0": False}}, True),
        ({"GPU0": {"GPU1": None, "GPU2": False}}, True),
        # The cube of eight V100: each reads four others.
        ({f"GPU{n}": {f"GPU{m}": bin(n ^ m).count("1") == 1 for m in range(8) if m != n} for n in range(8)}, False),
    ],
)
def test_p2p_is_turned_off_only_where_no_pair_has_it(p2p: Any, disabled: bool) -> None:
    assert p2p_impossible(p2p) is disabled
    environment = cluster_environment("gpu01", {"gpu01": host(1, p2p=p2p)})
    assert environment.get("NCCL_P2P_DISABLE") == ("1" if disabled else None)


@pytest.mark.parametrize(
    ("hosts", "missing"),
    [
        ([], False),
        ([None, {}], False),
        ([{"GPU0": {"GPU1": True}, "GPU1": {"GPU0": None}}], False),
        ([{}, {"GPU0": {"GPU1": False}, "GPU1": {"GPU0": False}}], True),
        # NCCL copes with that, vLLM's own all-reduce does not
        ([{"GPU0": {"GPU1": True, "GPU2": False}}], True),
    ],
)
def test_one_pair_without_p2p_is_enough(hosts: list[Any], missing: bool) -> None:
    assert p2p_missing(hosts) is missing


def test_tuning_is_there_only_if_somebody_set_it() -> None:
    names = {theirs for _ours, theirs in TUNING}
    assert not names & set(cluster_environment("gpu01", {"gpu01": host(1)}))
    tuned = cluster_environment("gpu01", {"gpu01": host(1, llm_nccl_algo="Ring", llm_nccl_socket_threads=4)})
    assert (tuned["NCCL_ALGO"], tuned["NCCL_SOCKET_NTHREADS"]) == ("Ring", "4")


def test_what_is_read_of_the_hosts() -> None:
    hostvars = {
        "gpu01": {
            "llm_interface": {"interface": "eth1", "address": "10.0.0.1"},
            "ansible_facts": {"llm_rdma_found": [1]},
        },
        "gpu02": {"llm_interface": None},
    }
    hosts = hosts_of(["gpu01", "gpu02"], hostvars)
    assert list(hosts) == ["gpu01"]
    assert hosts["gpu01"]["rdma"] == [1]


@pytest.mark.parametrize(
    ("hosts", "kind", "lacking"),
    [
        ({}, "InfiniBand", []),
        ({"gpu01": host(1), "gpu02": host(2)}, "InfiniBand", []),
        ({"gpu01": host(1, rdma=[infiniband("mlx5_0")]), "gpu02": host(2, rdma=[infiniband("mlx5_0")])}, "InfiniBand", []),
        ({"gpu01": host(1, rdma=[infiniband("mlx5_0")]), "gpu02": host(2, rdma=[infiniband("mlx5_0", False)])}, "InfiniBand", ["gpu02"]),
        ({"gpu01": host(1, rdma=[roce(1)]), "gpu02": host(2, rdma=None)}, "RoCE v2", ["gpu02"]),
    ],
)  # fmt: skip
def test_who_keeps_a_deployment_from_rdma(hosts: dict[str, Any], kind: str, lacking: list[str]) -> None:
    assert rdma_lacking(hosts) == (kind, lacking)


def test_the_rate_is_that_of_all_ports_that_are_used() -> None:
    cards = [{**infiniband(f"mlx5_{n}"), "rate_gbps": 400.0} for n in range(8)]
    cards[7]["active"] = False
    hosts = {f"gpu0{n}": host(n, rdma=cards) for n in (1, 2)}
    found = rdma_of("gpu01", hosts)
    assert found is not None
    assert found.mbps == 7 * 400000


@given(st.lists(st.sampled_from(["none", "roce", "ib"]), min_size=1, max_size=5))
def test_all_hosts_do_the_same(kinds: list[str]) -> None:
    made = {"none": lambda n: [], "roce": lambda n: [roce(n)], "ib": lambda n: [infiniband("mlx5_7")]}
    hosts = {f"gpu{n}": host(n, rdma=made[kind](n)) for n, kind in enumerate(kinds, start=1)}
    used = {name: rdma_of(name, hosts) for name in hosts}
    assert len({found is None for found in used.values()}) == 1
    assert (used["gpu1"] is not None) == (len(set(kinds)) == 1 and kinds[0] != "none")
