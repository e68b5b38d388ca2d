"""What hosts are refused for."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils.preflight import check_hosts

V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
LIMITS = {"systems": {"Debian": ["12"], "Ubuntu": ["22.04"]}, "architectures": ["x86_64"], "disk_reserve_gib": 1}
DEPLOYMENTS = {"qwen": {"hosts": ["gpu01", "gpu02"], "head": "gpu01"}}


def facts(number: int, gpus: int = 1, uuid: str | None = "GPU-1", **more: Any) -> dict[str, Any]:
    return {
        "distribution": "Debian",
        "distribution_version": "12.5",
        "distribution_major_version": "12",
        "architecture": "x86_64",
        "interfaces": ["eth0", "lo"],
        "eth0": {
            "device": "eth0",
            "active": True,
            "type": "ether",
            "ipv4": {"address": f"10.0.0.{number}", "prefix": "24"},
        },
        "llm_gpus_found": [{**V100, "index": index, "uuid": uuid, "bus_id": "x"} for index in range(gpus)],
        **more,
    }


def check(
    one: dict[str, Any] | None = None, two: dict[str, Any] | None = None, lang: str = "en", **settings: Any
) -> dict[str, Any]:
    seen = {"gpu01": facts(1) if one is None else one, "gpu02": facts(2) if two is None else two}
    return check_hosts(DEPLOYMENTS, seen, dict.fromkeys(seen, settings), LIMITS, lang)


def codes(result: dict[str, Any]) -> list[str]:
    return [entry["code"] for entry in result["problems"]]


def test_good_hosts() -> None:
    result = check(tensor_parallel_size=1, pipeline_parallel_size="2", gpus=[V100])
    assert result["problems"] == []
    assert result["message"] == ""
    assert result["hosts"]["gpu02"] == {
        "deployment": "qwen",
        "interface": {"interface": "eth0", "address": "10.0.0.2", "network": "10.0.0.0/24"},
    }


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"distribution": "Fedora"}, "system_not_supported"),
        ({"distribution_version": "10", "distribution_major_version": "10"}, "system_not_supported"),
        ({"architecture": "aarch64"}, "architecture_not_supported"),
        ({"llm_gpus_found": []}, "no_gpu_found"),
    ],
)
def test_one_thing_wrong(changed: dict[str, Any], code: str) -> None:
    result = check({**facts(1), **changed})
    assert codes(result) == [code]
    assert "gpu01" in result["problems"][0]["what"]
    assert result["message"].startswith("One problem with the hosts. Nothing has been changed.")


def test_a_release_with_a_point() -> None:
    ubuntu = {"distribution": "Ubuntu", "distribution_version": "22.04", "distribution_major_version": "22"}
    assert codes(check({**facts(1), **ubuntu})) == []


def test_hosts_with_the_same_wrong_system_are_told_together() -> None:
    other = {"distribution_version": "10", "distribution_major_version": "10"}
    (problem,) = check(facts(1, **other), facts(2, **other))["problems"]
    assert "gpu01, gpu02" in problem["what"]
    assert problem["value"] == "Debian 10"


def test_more_gpus_declared_than_found() -> None:
    result = check(gpus=[V100, V100])
    assert codes(result) == ["gpu_count_differs", "gpu_count_differs"]
    assert result["problems"][0]["what"] == "The host gpu01 has 1 GPUs, but llm_gpus declares 2."
    assert result["problems"][0]["where"] == "host_vars/gpu01.yml"
    assert "1 x Tesla V100-PCIE-16GB" in result["problems"][0]["allowed"]


@pytest.mark.parametrize(
    ("declared", "different"),
    [
        ({"name": "NVIDIA V100-PCIE-16GB"}, ""),
        ({"memory_mib": "16160"}, ""),
        ({"memory_mib": 32768}, "memory_mib"),
        ({"compute_capability": "7.5"}, "compute_capability"),
        ({"name": "Tesla T4"}, "name"),
    ],
)
def test_another_card_than_declared(declared: dict[str, Any], different: str) -> None:
    result = check(gpus=[{**V100, **declared}])
    assert codes(result) == (["gpu_differs"] * 2 if different else [])
    if different:
        assert result["problems"][0]["value"].startswith(different + ": ")


def test_names_from_the_pci_bus_prove_nothing() -> None:
    declared = [{**V100, "name": "Tesla V100-PCIE-16GB-LS"}]
    assert codes(check(facts(1, uuid=None), facts(2, uuid=None), gpus=declared)) == []


def test_a_card_of_which_nothing_is_known_only_counts() -> None:
    unknown = [{"name": None, "memory_mib": None, "compute_capability": None, "uuid": None}]
    assert codes(check(facts(1, llm_gpus_found=unknown), gpus=[V100])) == []


def test_too_few_gpus() -> None:
    (problem,) = check(tensor_parallel_size=2, pipeline_parallel_size=2)["problems"]
    assert problem["code"] == "too_few_gpus_found"
    assert "asks for 4 GPUs" in problem["what"]
    assert "gpu01: 1, gpu02: 1" in problem["allowed"]
    assert codes(check(facts(1, gpus=3), tensor_parallel_size=4)) == []


def test_a_host_that_was_not_read_is_not_judged() -> None:
    assert codes(check(two={}, tensor_parallel_size=2)) == [], "its GPUs are not known"
    assert codes(check(two={}, tensor_parallel_size=3, gpus=[V100])) == ["too_few_gpus_found"], "they are declared"
    assert list(check(two={})["hosts"]) == ["gpu01"]


def test_an_interface_that_is_not_there() -> None:
    (problem, _other) = check(interface="eth9")["problems"]
    assert problem["code"] == "interface_missing"
    assert problem["value"] == "llm_cluster_interface: eth9"
    assert "eth0" in problem["allowed"]


def test_a_network_that_no_host_has() -> None:
    result = check(network="192.0.2.0/24")
    assert codes(result) == ["not_in_network", "not_in_network"]
    assert result["hosts"]["gpu01"] == {"deployment": "qwen", "interface": None}


def test_a_full_disk() -> None:
    disk = {"mount": "/", "available_bytes": 3 << 30, "needed_bytes": 2 << 30, "needs": {"/opt/llm": 2 << 30, "/b": 0}}
    assert codes(check(disks=[disk])) == [], "just enough"
    (problem, _other) = check(disks=[{**disk, "available_bytes": (3 << 30) - 1}])["problems"]
    assert problem["code"] == "disk_too_small"
    assert problem["value"] == "3.0 GiB free"
    assert "/opt/llm: 2.0 GiB" in problem["allowed"]
    assert "/b" not in problem["allowed"]
    assert codes(check(disks=[{**disk, "available_bytes": 0, "needed_bytes": 0}])) == [], "nothing to come"


def test_all_problems_at_once_in_chinese() -> None:
    result = check(facts(1, architecture="s390x"), lang="zh", gpus=[V100, V100], interface="eth9")
    assert codes(result) == [
        "architecture_not_supported",
        *["gpu_count_differs"] * 2,
        *["interface_missing"] * 2,
    ]
    assert result["message"].startswith("主机存在 5 个问题。")
