"""Devices, rights and limits of the containers."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import container_environment
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.version_changes import GIB

from tests.support.deployments import INFINIBAND, deployment, member


@pytest.mark.parametrize(
    ("settings", "devices"),
    [
        ({}, []),
        ({"found": {"llm_rdma_found": [INFINIBAND]}}, ["/dev/infiniband:/dev/infiniband"]),
        ({"ray_environment": {"NCCL_IB_DISABLE": "0"}}, ["/dev/infiniband:/dev/infiniband"]),
        ({"vllm_environment": {"NCCL_IB_DISABLE": 0}}, ["/dev/infiniband:/dev/infiniband"]),
        ({"found": {"llm_rdma_found": [INFINIBAND]}, "ray_environment": {"NCCL_IB_DISABLE": "1"}}, []),
    ],
)
def test_who_asks_for_rdma_gets_its_devices(settings: dict[str, Any], devices: list[str]) -> None:
    sections = host_sections(member(**settings))
    assert sections["ray"]["container"]["devices"] == devices
    assert sections["vllm"]["container"]["devices"] == devices
    mounted = [option for option in sections["vllm"]["collective"]["command"] if option.startswith("--device=")]
    assert mounted == [f"--device={device}" for device in devices]


def test_rdma_of_one_host_only_is_not_used() -> None:
    made = deployment()
    made.variables["gpu1"]["ansible_facts"]["llm_rdma_found"] = [INFINIBAND]
    assert host_sections(made.of("gpu1"))["ray"]["container"]["devices"] == []


def test_little_is_left_of_the_rights_of_root() -> None:
    sections = host_sections(member())
    for container in (sections["ray"]["container"], sections["vllm"]["container"]):
        assert container["user"] == "0:0"
        assert container["security_opts"] == ["no-new-privileges"]
        assert (container["cap_drop"], container["capabilities"]) == (["ALL"], ["DAC_OVERRIDE"])
    command = sections["vllm"]["collective"]["command"]
    assert {"--user=0:0", "--security-opt=no-new-privileges", "--cap-drop=ALL", "--cap-add=DAC_OVERRIDE"} <= set(
        command
    )
    assert "--privileged" not in command
    asked = host_sections(member(ray_capabilities=["SYS_NICE"], vllm_port=443))
    assert asked["ray"]["container"]["capabilities"] == ["SYS_NICE"]
    assert asked["vllm"]["container"]["capabilities"] == ["NET_BIND_SERVICE", "SYS_NICE"]


@pytest.mark.parametrize("executor", ["ray", "mp"])
def test_another_user_has_no_capability_and_a_home_and_a_temporary_folder_of_its_own(executor: str) -> None:
    sections = host_sections(member(executor=executor, vllm_version="0.32.0"))
    assert sections["tmp"] == {"path": "/opt/llm/tmp-70000", "uid": 70000}
    for container in (sections["ray"]["container"], sections["vllm"]["container"]):
        assert (container["user"], container["cap_drop"], container["capabilities"]) == ("70000:0", ["ALL"], [])
        assert "/opt/llm/tmp-70000:/tmp" in container["volumes"]
        assert {name: container["environment"][name] for name in ("HOME", "USER", "LOGNAME")} == {
            "HOME": "/var/tmp/llm",
            "USER": "llm",
            "LOGNAME": "llm",
        }
    command = sections["vllm"]["collective"]["command"]
    assert "--user=70000:0" in command
    assert not [option for option in command if option.startswith("--cap-add")]
    assert not {"HOME", "USER", "LOGNAME"} & set(container_environment(member())), "root has those of the image"


@pytest.mark.parametrize(("gib", "memory"), [(None, ""), (0.5, str(GIB // 2)), ("48", str(48 * GIB))])
def test_the_limits_of_a_container(gib: Any, memory: str) -> None:
    sections = host_sections(member(ray_pids_limit="4096", **({} if gib is None else {"ray_memory_limit_gib": gib})))
    for role in ("ray", "vllm"):
        container = sections[role]["container"]
        assert (container["pids_limit"], container["memory"]) == (4096, memory)
    assert host_sections(member())["ray"]["container"]["pids_limit"] == 65536


@pytest.mark.parametrize(("locked", "limits"), [(True, ["nofile:1:2", "memlock:-1:-1"]), ("no", ["nofile:1:2"])])
def test_the_limits_of_the_containers(locked: Any, limits: list[str]) -> None:
    sections = host_sections(member(ray_ulimits=["nofile:1:2"], ray_memory_lock_enabled=locked))
    assert sections["ray"]["container"]["ulimits"] == sections["vllm"]["container"]["ulimits"] == limits
    command = sections["vllm"]["collective"]["command"]
    assert [option for option in command if "--ulimit" in option] == [
        f"--ulimit={limit.replace(':', '=', 1)}" for limit in limits
    ]
