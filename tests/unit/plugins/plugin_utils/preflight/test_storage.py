"""Storage over ports that NCCL uses: what is said, and which variable is named."""

from __future__ import annotations

from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import check_hosts

from tests.support.host_reports import LIMITS, found_codes, numbered, reports

REPORTS = {report["id"]: report for report in reports()}


def warning(name: str, lang: str = "en") -> dict[str, Any]:
    report = REPORTS[name]
    hosts = ["gpu01", "gpu02"]
    facts = {
        host: {
            "distribution": "Debian",
            "distribution_version": "12",
            "os_family": "Debian",
            "architecture": "x86_64",
            "pkg_mgr": "apt",
            "llm_gpus_found": [{"index": 0}],
            "llm_nics_found": numbered(report["interfaces"], at),
            "llm_rdma_found": numbered(report["rdma"], at),
        }
        for at, host in enumerate(hosts, 1)
    }
    settings = {host: {**report["found"], **report.get("settings", {})} for host in hosts}
    found = check_hosts({"q": {"hosts": hosts}}, facts, settings, LIMITS, lang)["warnings"]
    (one,) = [entry for entry in found if entry["code"] == "storage_shares_fabric"]
    return one


def test_a_port_beside_the_cluster_can_be_left_out() -> None:
    found = warning("storage_on_an_infiniband_port_as_fast_as_the_others")
    assert found["hosts"] == ["gpu01", "gpu02"]
    assert "gpu01: /lustre (lustre, 10.60.0.9) ib2" in found["value"]
    assert 'ray_environment: {NCCL_IB_HCA: "=mlx5_0:1"}' in found["allowed"]
    assert "=mlx5_0:1" in warning("storage_on_an_infiniband_port_as_fast_as_the_others", "zh")["allowed"]


def test_the_cluster_s_own_card_cannot_be_left_out() -> None:
    found = warning("storage_over_the_ports_of_the_cluster")
    assert "llm_cluster_network" in found["allowed"]
    assert "NCCL_IB_HCA" not in found["allowed"]


def test_a_share_by_tcp_over_the_cluster_s_network_is_what_most_sites_have() -> None:
    report = REPORTS["storage_over_the_ports_of_the_cluster"]
    (disk,) = report["found"]["host"]["storage"]
    assert found_codes({**report, "found": {"host": {"storage": [{**disk, "rdma": False}]}}}) == []
    elsewhere = {"host": {"storage": [{**disk, "server": "10.99.0.1"}]}}
    assert found_codes({**report, "found": elsewhere}) == []
    assert found_codes({**report, "alone": True}) == []
