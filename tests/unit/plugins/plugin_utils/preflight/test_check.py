"""What hosts are refused for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import TEXTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import diagnose_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import check_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.report import report_lines
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import CHECKS, OF_ENGINE
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.junk import JUNK, places, replaced

V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
LIMITS = {
    "supported_systems": {"Debian": ["12"], "Ubuntu": ["22.04"]},
    "supported_architectures": ["x86_64"],
    "disk_reserve_gib": 1,
    "memory_reserve_gib": 2,
    "kernel_minimum": "4.18",
    "clock_limit_seconds": 10,
    "ecc_uncorrected_limit": 0,
}
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
            "mtu": 1500,
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


@pytest.mark.parametrize(
    ("image", "driver", "expected"),
    [
        ({}, {}, []),
        ({"built_for": ["sm_70"]}, {}, []),
        ({"built_for": ["sm_75"]}, {}, ["image_without_code"]),
        (
            {"built_for": ["sm_70"], "cuda": "13.0"},
            {"drivers": ["580.95.05"], "gpu": {"driver": {"loaded": "470.57.02"}}},
            [],
        ),
        ({"built_for": ["sm_70"], "cuda": "13.0"}, {"drivers": ["570.195.03"]}, ["image_needs_driver"]),
        ({"built_for": ["sm_70"], "cuda": "12.4"}, {"drivers": ["570.195.03"]}, []),
        (
            {"built_for": ["sm_70"], "cuda": "12.4"},
            {"driver_method": "present", "gpu": {"driver": {"loaded": "470.57.02"}}},
            ["image_needs_driver"],
        ),
    ],
)
def test_the_image_has_to_serve_the_gpus_that_were_found(
    image: dict[str, Any], driver: dict[str, Any], expected: list[str]
) -> None:
    libraries = dict.fromkeys(("vllm", "torch"), image) if image else {}
    record = {"reference": "lab/vllm:1", "cuda_version": image.get("cuda"), "contents": {"libraries": libraries}}
    assert codes(check(image=record if image else None, **driver)) == expected


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


# What host_facts and gpu_facts say of a host that is fine.
HOST: dict[str, Any] = {
    "kernel": "6.1.0-18-amd64",
    "memory": {"total_mib": 64 << 10, "available_mib": 60 << 10, "swap_mib": 0, "hugepages_mib": 0},
    "shm_mib": 32 << 10,
    "clock": {"offset_seconds": 0.1, "uncertainty_seconds": 0.3},
    "name": {"name": "gpu01", "addresses": ["127.0.1.1"]},
    "selinux": "enforcing",
    "docker_selinux_enabled": False,
    "listeners": [{"port": 22, "pid": 1, "process": "sshd", "container": ""}],
    "services": [],
    "gpu_processes": [],
}
GPU: dict[str, Any] = {"problems": [], "driver": {"loaded": "570.195.03"}}
HEALTH: dict[str, Any] = {
    "link": {"generation": 1, "generation_max": 4, "width": 16, "width_max": 16},
    "ecc": {"volatile": {"corrected": 3, "uncorrected": 0}},
    "remapped_rows": {"pending": False, "failed": False},
    "retired_pages": {"pending": None},
    "throttle_reasons": ["sw_power_cap"],
}
LISTENER = {"pid": 7, "process": "nginx", "container": ""}
CRASHING = {
    "kind": "crashing",
    "said": "crashing: 4 starts without a token; last: ValueError: No available memory for the cache blocks.",
    "starts": 4,
    "causes": ["OSError: what another start said", "ValueError: No available memory for the cache blocks."],
}
SERVICE = {"service": "ray", "pid": 9, "process": "raylet", "container": ""}


def look(
    host: dict[str, Any] | None = None,
    gpu: dict[str, Any] | None = None,
    limits: Any = None,
    lang: str = "en",
    **said: Any,
) -> dict[str, Any]:
    """Two good hosts; what is given differs on the first."""
    health = said.pop("health", {})
    card = {**V100, "index": 0, "uuid": "GPU-1", **HEALTH, **health}
    probe = {"llm_probe": said.pop("probe", {"kind": "serving"})}
    seen = {"gpu01": facts(1, llm_gpus_found=[card], **probe), "gpu02": facts(2, **said.pop("facts", {}))}
    base = {"host": HOST, "gpu": GPU, "ports": {"ray_min_worker_port": 20000, "ray_max_worker_port": 20010}}
    settings = {
        "gpu01": {**base, "host": {**HOST, **(host or {})}, "gpu": {**GPU, **(gpu or {})}, **said},
        "gpu02": {
            **base,
            "host": {**HOST, "name": {"name": "gpu02", "addresses": ["127.0.1.1"]}},
            **{name: value for name, value in said.items() if name == "driver_method"},
        },
    }
    return check_hosts(DEPLOYMENTS, seen, settings, {**LIMITS, **(limits or {})}, lang)


@pytest.mark.parametrize(
    ("sizes", "fits"),
    [
        ({}, False),
        ({"tensor_parallel_size": 1, "pipeline_parallel_size": 1}, True),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 1}, True),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, False),
        ({"tensor_parallel_size": 4}, False),
        ({"tensor_parallel_size": 3}, True),
        ({"tensor_parallel_size": 9, "pipeline_parallel_size": 1}, False),
    ],
)
def test_only_gpus_that_are_used_need_memory(sizes: dict[str, int], fits: bool) -> None:
    cards = [{**V100, "index": index, "uuid": f"GPU-{index}", **HEALTH} for index in range(4)]
    seen = {"gpu01": facts(1, llm_gpus_found=cards), "gpu02": facts(2)}
    settings = {"gpu01": {"host": HOST, "gpu": GPU, "swap_space_gib": 20, **sizes}, "gpu02": {"host": HOST, "gpu": GPU}}
    found = check_hosts(DEPLOYMENTS, seen, settings, LIMITS)
    assert ("memory_too_small" not in [problem["code"] for problem in found["problems"]]) is fits


def test_a_good_host_has_neither_problems_nor_warnings() -> None:
    found = look()
    assert found["problems"] == found["warnings"] == []
    assert found["report"] == {
        "schema": 1,
        "ok": True,
        "errors": 0,
        "warnings": 0,
        "hosts": {host: {"deployment": "qwen", "ok": True, "checks": []} for host in ("gpu01", "gpu02")},
    }
    assert report_lines(found["report"]) == ["gpu01  ok (qwen)", "gpu02  ok (qwen)"]


@pytest.mark.parametrize(("offload", "fits"), [(20, True), (40, False)])
def test_deployments_of_one_machine_share_its_memory(offload: int, fits: bool) -> None:
    cards = [{**V100, "index": index, "uuid": f"GPU-{index}", **HEALTH} for index in range(2)]
    deployments = {"one": {"hosts": ["gpu01"], "head": "gpu01"}, "two": {"hosts": ["gpu02"], "head": "gpu02"}}
    settings = {
        host: {"host": HOST, "gpu": GPU, "sharing": ["gpu01", "gpu02"], "own_gpus": [card], "cpu_offload_gib": offload}
        for host, card in zip(("gpu01", "gpu02"), cards, strict=True)
    }
    seen = {host: facts(number, llm_gpus_found=cards) for number, host in enumerate(settings, 1)}
    found = check_hosts(deployments, seen, settings, LIMITS)
    reported = [problem for problem in found["problems"] if problem["code"] == "memory_too_small"]
    assert len(reported) == (0 if fits else 1)
    for problem in reported:
        assert "vllm_options.cpu_offload_gb: 80.0 GiB" in "".join(map(str, problem.values()))


PLANTED: list[tuple[str, dict[str, Any], str]] = [
    ("kernel_too_old", {"host": {"kernel": "3.10.0-1160.el7.x86_64"}}, "3.10.0-1160"),
    ("selinux_labels", {"host": {"engine": {"config": {"selinux-enabled": True}}}}, "selinux-enabled: true"),
    ("clock_differs", {"host": {"clock": {"offset_seconds": -93, "uncertainty_seconds": 0.5}}}, "-92.3 s"),
    ("clock_differs", {"host": {"clock": {"offset_seconds": 93, "uncertainty_seconds": 0.5}}}, "+92.1 s"),
    ("memory_too_small", {"cpu_offload_gib": 63}, "64.0 GiB"),
    ("memory_too_small", {"swap_space_gib": "63"}, "64.0 GiB"),
    ("memory_too_small", {"host": {"memory": {"total_mib": 4096, "hugepages_mib": 2049}}}, "2.0 GiB"),
    ("memory_below_weights", {"model_bytes": 63 << 30}, "64.0 GiB"),
    ("shm_too_small", {"object_store_gib": 2.0, "host": {"shm_mib": 64}}, "64.0 MiB"),
    ("gpu_lost", {"gpu": {"problems": [{"code": "gpu_lost", "detail": "0000:3B"}]}}, "0000:3B"),
    ("gpu_problem", {"gpu": {"problems": [{"code": "something_new", "detail": "odd"}]}}, "odd"),
    ("unknown_pci_device", {"gpu": {"problems": [{"code": "unknown_pci_device", "detail": "0x1"}]}}, "0x1"),
    ("nvidia_smi_failed", {"gpu": {"problems": [{"code": "nvidia_smi_failed", "detail": "no"}]}}, "no"),
    ("nvidia_smi_unreadable", {"gpu": {"problems": [{"code": "nvidia_smi_unreadable", "detail": "?"}]}}, "?"),
    ("driver_mismatch", {"gpu": {"problems": [{"code": "driver_mismatch", "detail": "a, b"}]}}, "a, b"),
    ("driver_differs", {"gpu": {"driver": {"loaded": "535.1.1"}}, "driver_method": "present"}, "535.1.1: gpu01"),
    ("gpu_ecc_errors", {"health": {"ecc": {"volatile": {"uncorrected": 2}}}}, "2"),
    ("gpu_memory_worn", {"health": {"remapped_rows": {"failed": True}}}, "remapped_rows.failed"),
    ("gpu_reset_pending", {"health": {"remapped_rows": {"pending": True}}}, "remapped_rows.pending"),
    ("gpu_reset_pending", {"health": {"retired_pages": {"pending": True}}}, "retired_pages.pending"),
    ("gpu_throttled", {"health": {"throttle_reasons": ["hw_thermal_slowdown"]}}, "hw_thermal_slowdown"),
    ("gpu_link_narrow", {"health": {"link": {"width": 8, "width_max": 16}}}, "x8"),
    ("mtu_differs", {"facts": {"eth0": {**facts(2)["eth0"], "mtu": 9000}}}, "1500: gpu01; 9000: gpu02"),
    ("host_name_unknown", {"host": {"name": {"name": "gpu01", "addresses": []}}}, "(none)"),
    ("host_name_elsewhere", {"host": {"name": {"name": "gpu01", "addresses": ["10.9.9.9"]}}}, "10.9.9.9"),
    ("port_taken", {"host": {"listeners": [{**LISTENER, "port": 8000}]}}, "nginx (process 7)"),
    ("port_taken", {"host": {"listeners": [{**LISTENER, "port": 9}]}, "ports": {"vllm_port": 9}}, "nginx (process 7)"),
    ("port_taken", {"host": {"listeners": [{**LISTENER, "port": 6379, "container": "x"}]}}, "container x"),
    ("port_taken", {"host": {"listeners": [{"port": 6380, "pid": None}]}, "ports": {}}, "an unknown process"),
    ("worker_port_taken", {"host": {"listeners": [{**LISTENER, "port": 10500}]}, "ports": {}}, "nginx (process 7)"),
    ("service_foreign", {"host": {"services": [SERVICE]}}, "ray: raylet (process 9)"),
    ("gpu_busy", {"host": {"gpu_processes": [{"pid": 5, "process": "train", "container": ""}]}}, "train (process 5)"),
    (
        "server_crashing",
        {"probe": CRASHING},
        "crashing: 4 starts without a token; last: ValueError: No available memory",
    ),
]


@pytest.mark.parametrize(("code", "said", "value"), PLANTED, ids=[f"{case[0]}-{i}" for i, case in enumerate(PLANTED)])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_one_thing_is_planted_and_found(code: str, said: dict[str, Any], value: str, lang: str) -> None:
    found = look(**said, lang=lang)
    entries = found["problems"] + found["warnings"]
    assert [entry["code"] for entry in entries] == [code]
    assert entries[0]["severity"] == CHECKS[code].severity
    assert bool(found["problems"]) == (CHECKS[code].severity == "error") == (not found["report"]["ok"])
    if lang == "en":
        assert value in entries[0]["value"]
    assert "gpu01" in entries[0]["hosts"]
    (check,) = found["report"]["hosts"]["gpu01"]["checks"]
    assert set(check) == {"code", "severity", "what", "value", "limit", "where", "remedy"}
    assert all(check[key] for key in ("what", "value", "remedy", "where"))
    assert code in report_lines(found["report"], lang)[0]


@pytest.mark.parametrize(
    "said",
    [
        {"host": {"listeners": [{**LISTENER, "port": 8000, "container": "llm-vllm"}]}},
        {"host": {"listeners": [{**LISTENER, "port": 9000}]}},
        {"host": {"listeners": [{**LISTENER, "port": 6379}]}, "executor": "mp"},
        {"host": {"services": [{**SERVICE, "container": "llm-ray"}]}},
        {"host": {"gpu_processes": [{"pid": 5, "process": "x", "container": "llm-ray"}]}},
        {"host": {"name": {"name": "gpu01", "addresses": ["10.0.0.1"]}}},
        {"gpu": {"driver": {"loaded": "535.1.1"}}},  # the role nvidia_driver makes them the same
        {"host": {}, "gpu": {}, "ports": None},
    ],
)
def test_what_is_ours_or_mended_is_no_finding(said: dict[str, Any]) -> None:
    found = look(**said)
    assert found["problems"] + found["warnings"] == []


def test_a_program_that_listens_with_both_protocols_is_said_once() -> None:
    assert codes(look(host={"listeners": [{**LISTENER, "port": 8000}] * 2})) == ["port_taken"]
    other = {**LISTENER, "port": 8000, "pid": 8}
    assert codes(look(host={"listeners": [{**LISTENER, "port": 8000}, other]})) == ["port_taken", "port_taken"]


def test_a_worker_needs_no_port_of_the_head() -> None:
    taken = {**HOST, "listeners": [{**LISTENER, "port": 8000}, {**LISTENER, "port": 6379}, {**LISTENER, "port": 6380}]}
    seen = {"gpu01": facts(1), "gpu02": facts(2)}
    found = check_hosts(DEPLOYMENTS, seen, {"gpu02": {"host": taken}}, LIMITS)
    assert [entry["where"] for entry in found["problems"]] == ["ray_node_manager_port"]


def test_a_host_alone_needs_no_port_of_ray() -> None:
    taken = {**HOST, "listeners": [{**LISTENER, "port": 8000}, {**LISTENER, "port": 6379}, {**LISTENER, "port": 6380}]}
    found = check_hosts(
        {"one": {"hosts": ["gpu01"], "head": "gpu01"}}, {"gpu01": facts(1)}, {"gpu01": {"host": taken}}, LIMITS
    )
    assert [entry["where"] for entry in found["problems"]] == ["vllm_port"]


@pytest.mark.parametrize("code", ["driver_mismatch", "nvidia_smi_failed", "nvidia_smi_unreadable"])
def test_what_nobody_mends_refuses(code: str) -> None:
    broken = {"problems": [{"code": code, "detail": "x"}]}
    assert codes(look(gpu=broken, driver_method="present")) == [code]
    assert codes(look(gpu=broken, driver_method="runfile")) == []


def test_an_inventory_may_say_what_a_finding_means() -> None:
    planted: dict[str, Any] = {"host": {"services": [SERVICE], "kernel": "3.10"}}
    assert codes(look(**planted)) == ["kernel_too_old", "service_foreign"]
    reported = look(**planted, limits={"severities": {"service_foreign": "warning", "kernel_too_old": "ignore"}})
    assert [entry["code"] for entry in reported["warnings"]] == ["service_foreign"]
    assert reported["problems"] == []
    (problem,) = look(limits={"severities": {"service_foriegn": "warning"}})["problems"]
    assert problem["code"] == "check_unknown"
    assert "service_foreign" in problem["allowed"]


def test_every_check_has_its_words_and_every_word_is_used() -> None:
    for code in CHECKS:
        assert code in TEXTS["en"]
        assert code + "_allowed" in TEXTS["en"]
    assert {case[0] for case in PLANTED} <= set(CHECKS)


def test_the_limit_is_told_with_its_value() -> None:
    (problem,) = look(host={"kernel": "3.10"})["problems"]
    assert problem["limit"] == "preflight_kernel_minimum: 4.18"


def test_several_at_once_are_told_together_and_by_host() -> None:
    found = look(host={"kernel": "3.10", "services": [SERVICE]}, health={"ecc": {"volatile": {"uncorrected": 1}}})
    assert found["message"].startswith("3 problems with the hosts. Nothing has been changed.")
    assert found["report"]["errors"] == 3
    assert found["report"]["hosts"]["gpu02"]["ok"] is True
    assert (
        report_lines(found["report"])[0]
        == "gpu01  error: kernel_too_old; error: gpu_ecc_errors; error: service_foreign (qwen)"
    )


JSON = st.none() | st.booleans() | st.integers(-5, 1 << 40) | st.floats() | st.text(max_size=8) | st.just([1])


@given(st.dictionaries(st.sampled_from(["cpu_offload_gib", "swap_space_gib", "object_store_gib", "model_bytes"]), JSON))
def test_no_wish_makes_it_fail(said: dict[str, Any]) -> None:
    look(**said)


FACTS: dict[str, Any] = {
    **facts(1),
    "llm_nics_found": [
        {"name": "eth0", "addresses": ["10.0.0.1/24"], "speed_mbps": 10000, "mtu": 1500, "up": True, "kind": "ethernet"}
    ],
    "llm_rdma_found": [],
    "llm_memory_mib": 64000,
}


@given(st.data())
@examples(200)
def test_a_host_that_lies_is_named_and_the_others_are_checked(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from([each for each in places(FACTS) if each]))
    found = check(one=replaced(FACTS, place, data.draw(JUNK)))
    assert set(found["hosts"]) in ({"gpu01", "gpu02"}, {"gpu02"})
    if "gpu01" not in found["hosts"]:
        assert [entry["hosts"] for entry in found["problems"] if entry["code"] == "facts_garbage"] == [["gpu01"]]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_host_of_whose_facts_nothing_can_be_made(lang: str) -> None:
    for wrong in ({"llm_gpus_found": [7]}, {"llm_gpus_found": 7}, {"llm_nics_found": [[]]}):
        found = check(one={**FACTS, **wrong}, lang=lang)
        assert codes(found)[0] == "facts_garbage"
        assert "gpu01" in found["message"]
        assert list(found["hosts"]) == ["gpu02"]


def test_the_reference_page_lists_every_check() -> None:
    page = (Path(__file__).parents[5] / "docs/reference/preflight.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \| .+ \| (?:`(\w+)`)? ?\|$", page, re.M)
    assert listed == [(code, check.severity, check.limit.replace(OF_ENGINE, "vllm_")) for code, check in CHECKS.items()]


def test_a_crash_loop_is_told_with_its_last_cause_and_what_to_change() -> None:
    (warning,) = look(probe=CRASHING)["warnings"]
    (known,) = diagnose_log(CRASHING["causes"][-1])
    assert known["code"] == "no_cache_blocks"
    assert "qwen on the host gpu01 ended 4 times in a row" in warning["what"]
    assert known["remedy"] in warning["allowed"]
    assert "another start" not in warning["allowed"]
    (odd,) = look(probe={**CRASHING, "causes": ["OddError: never seen"]})["warnings"]
    assert "OddError: never seen" in odd["allowed"]
    assert look(probe={**CRASHING, "kind": "loading"})["warnings"] == []


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ({"version": "0.20.0"}, ""),
        ({"version": "0.20.0+cpu"}, ""),
        ({"version": "0.20.1"}, "venv_other_release"),
        ({"version": "unknown"}, "venv_other_release"),
        ({"error": "no such program"}, "venv_unusable"),
    ],
)
def test_the_environment_of_a_host_holds_the_release_of_the_plan(found: dict[str, str], code: str) -> None:
    result = check(python="/opt/vllm/bin/python3", engine_version="0.20.0", environment=found)
    assert set(codes(result)) == ({code} if code else set())


def test_no_environment_is_asked_for_where_a_container_serves() -> None:
    assert codes(check(python=None, engine_version="0.20.0", environment={})) == []


@pytest.mark.parametrize(
    ("found", "fits", "code"),
    [
        ({"python": "3.10", "glibc": "2.35"}, [False, True], ""),
        ({"python": "3.12", "glibc": "2.39"}, [False, False], "venv_other_python"),
        ({"error": "no such program"}, [False, False], "venv_no_base_python"),
        ({}, [], "venv_no_base_python"),
        # That the bundle holds none is said before a host is looked at.
        ({"python": "3.10", "glibc": "2.35"}, [], ""),
    ],
)
def test_the_python_of_an_environment_that_is_to_be_made(found: dict[str, str], fits: list[bool], code: str) -> None:
    held = [
        {"python": "3.10", "glibc": glibc, "fits": each} for glibc, each in zip(("2.39", "2.31"), fits, strict=False)
    ]
    result = check(base="/usr/bin/python3", engine_version="0.3.0", base_python=found, environments=held)
    assert set(codes(result)) == ({code} if code else set())
    if code == "venv_other_python":
        assert "Python 3.12 and glibc 2.39" in result["message"]
        assert "Python 3.10 and glibc 2.31 or later" in result["message"]
        assert '{vllm_version: "0.3.0", python: "3.12", glibc: "2.39"}' in result["message"]
