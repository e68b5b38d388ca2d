"""What the check of preflight is asked, from the variables of the hosts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import check_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.settings import (
    LIMITS,
    SERVICES,
    WATCHED,
    check_arguments,
)

from tests.support.roles import defaults

DEPLOYMENTS = {
    "qwen": {"hosts": ["gpu01", "gpu02"], "head": "gpu01"},
    "other": {"hosts": ["gpu03"], "head": "gpu03"},
}
ROLE: dict[str, Any] = {**{f"preflight_{name}": f"the {name}" for name in LIMITS}, "preflight_bundle_required": True}
RECORDS: list[dict[str, Any]] = [
    {"kind": "model", "model": "org/a", "size": 30, "path": "models/a/1"},
    {"kind": "model", "model": "org/a", "size": 12, "path": "models/a/2"},
    {"kind": "model", "model": "org/b", "size": 5, "path": "models/b/1"},
    {"kind": "driver", "version": "570.195.03", "size": 1, "path": "driver/x.run"},
    {"kind": "driver", "size": 1, "path": "driver/README"},
    {"kind": "image", "size": 1, "path": "images/i.tar", "images": [{"reference": "other:1"}, {"reference": "vllm:1"}]},
]
FACTS = {"llm_gpu": {"driver": {}}, "llm_host": {"memory": {}}, "llm_disks": [], "llm_memory_mib": 62 * 1024}


def variables(**said: Any) -> dict[str, Any]:
    """What a host has where the inventory says only what it must."""
    return {
        "vllm_model": "org/a", "vllm_version": "0.8.5", "vllm_image": "vllm:1", "vllm_executor": "auto",
        "vllm_options": {}, "vllm_port": 8000, "ray_port": 6379, "ray_min_worker_port": 10002, "ray_portal": 1,
        "nvidia_driver_method": "runfile", "nvidia_driver_version": "", "llm_offline": True,
        "docker_method": "auto", "docker_address_pools": [], "nvidia_driver_power_limit_watts": 0, "llm_host_dir": "/opt/llm",
        "llm_bundle_dir": "/bundle", "ansible_facts": FACTS, **said,
    }  # fmt: skip


def arguments(selected: list[str], role: dict[str, Any] | None = None, **said: Any) -> dict[str, Any]:
    """For a fleet whose first host says this."""
    fleet = {"gpu01": variables(**said), "gpu02": variables(), "gpu03": variables()}
    bundles = {"/bundle": RECORDS}
    return check_arguments(DEPLOYMENTS, fleet, selected, {**ROLE, **(role or {})}, bundles.__getitem__)


def test_all_that_is_known_of_a_host() -> None:
    passed = arguments(
        ["gpu01"],
        llm_gpus=[{"name": "V100"}],
        llm_cluster_interface="eth1",
        llm_cluster_network="10.0.0.0/24",
        vllm_tensor_parallel_size=2,
        vllm_pipeline_parallel_size=1,
        vllm_options={"cpu_offload_gb": 4, "swap_space": 8},
    )
    assert passed["settings"]["gpu01"] == {
        "gpus": [{"name": "V100"}], "interface": "eth1", "network": "10.0.0.0/24",
        "tensor_parallel_size": 2, "pipeline_parallel_size": 1,
        "executor": "auto", "cpu_offload_gib": 4, "swap_space_gib": 8, "object_store_gib": 3,
        "driver_method": "runfile", "driver_version": "", "docker_method": "auto", "docker_version": None, "docker_address_pools": [],
        "docker_registry_mirrors": None, "docker_repository_url": None, "toolkit_method": None,
        "pulls": False, "registry_credentials": False,
        "toolkit_repository_url": None, "power_limit_watts": 0, "host_dir": "/opt/llm",
        "offline": True, "services": [],
        "ports": {"vllm_port": 8000, "ray_port": 6379, "ray_min_worker_port": 10002},
        "model_bytes": 42, "drivers": ["570.195.03"], "image": {"reference": "vllm:1"},
        "disks": [], "gpu": FACTS["llm_gpu"], "host": FACTS["llm_host"],
            "python": None, "engine_version": "0.8.5", "environment": None,
            "base_python": None,
    }  # fmt: skip
    assert passed["limits"] == {name: f"the {name}" for name in LIMITS}


def test_of_a_host_outside_of_the_run_only_what_all_share() -> None:
    """The rest of it is checked when it is its turn."""
    passed = arguments(["gpu02"], llm_cluster_interface="eth1")
    assert list(passed["deployments"]) == ["qwen"]
    assert list(passed["facts"]) == list(passed["settings"]) == ["gpu01", "gpu02"]
    assert passed["settings"]["gpu01"] == {
        "gpus": None, "interface": "eth1", "network": None, "tensor_parallel_size": None, "pipeline_parallel_size": None,
    }  # fmt: skip
    assert passed["settings"]["gpu02"]["model_bytes"] == 42


def test_a_host_that_did_not_answer_has_no_facts() -> None:
    passed = arguments(["gpu01", "gpu02"], ansible_facts={"discovered_interpreter_python": "/usr/bin/python3"})
    assert passed["facts"]["gpu01"] == {}
    assert passed["facts"]["gpu02"] == FACTS
    assert arguments(["gpu02"], ansible_facts=None)["facts"]["gpu01"] == {}


@pytest.mark.parametrize(
    ("role", "said"),
    [({"preflight_bundle_required": False}, {}), ({}, {"llm_offline": False}), ({}, {"llm_offline": "no"})],
)
def test_without_a_bundle(role: dict[str, Any], said: dict[str, Any]) -> None:
    settings = arguments(["gpu01"], role, llm_bundle_dir="/none", **said)["settings"]["gpu01"]
    assert (settings["model_bytes"], settings["drivers"], settings["image"]) == (0, [], {})


def test_an_image_made_from_the_one_that_is_asked_for() -> None:
    made: dict[str, Any] = {"reference": "vllm-ray:1", "base": {"reference": "vllm:1"}}
    record = {"kind": "image", "size": 1, "path": "images/i.tar", "images": [made]}
    passed = check_arguments(DEPLOYMENTS, {"gpu03": variables()}, ["gpu03"], ROLE, {"/bundle": [record]}.__getitem__)
    assert passed["settings"]["gpu03"]["image"] == made


def test_the_check_takes_what_is_made_here() -> None:
    limits = {f"preflight_{name}": None for name in LIMITS}
    codes = [entry["code"] for entry in check_hosts(**arguments(["gpu03"], limits))["problems"]]
    assert "no_gpu_found" in codes


def test_of_an_environment_that_is_to_be_made_what_the_bundle_holds_and_the_host_has() -> None:
    fields = {
        "kind": "python",
        "environment": "e",
        "vllm_version": "0.8.5",
        "environment_python": "3.10",
        "glibc": "2.31",
    }
    files = [
        {**fields, "path": f"python/venvs/e/{name}", "size": 1, "sha256": "ab"}
        for name in ("requirements.txt", "uv-1.whl")
    ]
    for glibc, fits in (("2.31", True), ("2.28", False)):
        facts = {**FACTS, "llm_base_python": {"python": "3.10", "glibc": glibc}}
        said = {
            "vllm_runtime": "venv",
            "vllm_base_python": "/usr/bin/python3",
            "ansible_facts": facts,
            "llm_offline": False,
        }
        fleet = {"gpu01": variables(**said), "gpu02": variables(), "gpu03": variables()}
        passed = check_arguments(DEPLOYMENTS, fleet, ["gpu01"], ROLE, {"/bundle": [*RECORDS, *files]}.__getitem__)
        mine = passed["settings"]["gpu01"]
        assert mine["base"] == "/usr/bin/python3"
        assert mine["base_python"] == facts["llm_base_python"]
        assert mine["environments"] == [{"python": "3.10", "glibc": "2.31", "fits": fits}]


def test_ports_that_are_looked_at_are_those_of_the_roles() -> None:
    """Where an inventory says nothing, a role's default holds, also for a host that has none of the role's variables."""
    said = {variable: port for _group, variable, port, _program in SERVICES if variable}
    said |= {variable: port for variable, port, _program in WATCHED}
    kept = {**defaults("gateway"), **defaults("monitoring"), **defaults("web_ui")}
    assert said == {variable: kept[variable] for variable in said}
    assert len(said) == 5
