"""The all-reduce over all ranks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections

from tests.support import programs
from tests.support.deployments import deployment, member

# Of NCCL 2.28.9 on a host with an H200 and without RDMA, by roles/vllm/files/collective.py.
WITHOUT_RDMA = """\
vm:507:507 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so
vm:507:507 [0] NCCL INFO NCCL_IB_HCA set to =mlx5_0:1
vm:507:507 [0] NCCL INFO NET/IB : No device found.
vm:507:507 [0] NCCL INFO NET/IB : Using [RO]; OOB lo:127.0.0.1<0>
vm:507:507 [0] NCCL INFO Failed to initialize NET plugin IB
vm:507:507 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
vm:507:507 [0] NCCL INFO Using network Socket
vm:507:507 [0] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'lo'
"""


def test_the_all_reduce_has_no_secret() -> None:
    made = deployment("mp", (2, 1), vllm_environment={"HF_TOKEN": "hidden=1"})
    found = host_sections(made.of("gpu2"))["vllm"]["collective"]
    assert found["possible"]
    assert found["hosts"] == ["gpu1", "gpu2"]
    assert "HF_TOKEN" not in found["environment"]
    assert "hidden" not in str(found)
    assert found["program"] == "/opt/llm/collective.py"
    assert found["command"] == [
        *("docker", "run", "--rm", "--name=llm-collective", "--runtime=nvidia"),
        *("--label=baremetal.llm.deployment=tiny", "--network=host", "--ipc=host", "--userns=host"),
        *("--user=0:0", "--env-file=/dev/stdin", "--volume=/opt/llm/collective.py:/llm-collective.py:ro"),
        *("--security-opt=no-new-privileges", "--cap-drop=ALL", "--cap-add=DAC_OVERRIDE"),
        *("--ulimit=nofile=1048576:1048576", "--ulimit=memlock=-1:-1"),
        *("--add-host=gpu1.rank:::ffff:10.0.0.1", "--add-host=gpu2.rank:::ffff:10.0.0.2"),
        *("--entrypoint=python3", "image:1", "/llm-collective.py", "10.0.0.1", "29502", "3", "2", "1"),
    ]


@pytest.mark.parametrize(
    ("name", "ranks", "more"),
    [("gpu1", (1,), {}), ("gpu3", (1, 1, 0), {}), ("gpu1", (1, 1), {"vllm_collective_enabled": "no"})],
    ids=["one rank", "a host without ranks", "not wanted"],
)
def test_where_no_all_reduce_is_possible(name: str, ranks: tuple[int, ...], more: dict[str, Any]) -> None:
    assert host_sections(member(name, ranks=ranks, **more))["vllm"]["collective"] == {"possible": False}


@pytest.mark.parametrize(
    ("ranks", "speeds", "fabric", "expected"),
    [
        ((1, 1), [10000, 1000], None, (1000, None)),
        ((1, 1), [0, None], {"mbps": 400000, "via": "NVLink"}, (None, None)),
        ((2,), [10000], {"mbps": 400000, "via": "NVLink"}, (400000, "NVLink")),
        ((2,), [10000], None, (None, None)),
    ],
)
def test_what_the_slowest_link_claims(ranks: tuple[int, ...], speeds: Any, fabric: Any, expected: Any) -> None:
    made = deployment("mp", ranks)
    for name, speed in zip(made.hosts, speeds, strict=True):
        made.variables[name]["llm_interface"]["speed_mbps"] = speed
        made.variables[name]["ansible_facts"]["llm_gpu_fabric"] = fabric
    found = host_sections(made.of("gpu1"))["vllm"]["collective"]
    assert (found["link_mbps"], found["link"]) == expected


@pytest.mark.parametrize(
    ("ranks", "said", "expected"),
    [
        ((1, 1), {"NCCL_IB_DISABLE": "0", "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"}, "mlx5_0:1,mlx5_1:1"),
        ((1, 1), {"NCCL_IB_DISABLE": "1", "NCCL_IB_HCA": "=mlx5_0:1"}, ""),
        ((1, 1), {}, ""),
        ((2,), {"NCCL_IB_DISABLE": "0", "NCCL_IB_HCA": "=mlx5_0:1"}, ""),
    ],
    ids=["given ports", "switched off", "without ports", "one host"],
)
def test_the_ports_that_nccl_is_to_use(ranks: tuple[int, ...], said: dict[str, str], expected: str) -> None:
    found = host_sections(deployment("mp", ranks, vllm_environment=said).of("gpu1"))["vllm"]["collective"]
    assert found["link_rdma"] == expected


@pytest.mark.parametrize(
    ("log", "network", "reason"),
    [
        (WITHOUT_RDMA, "Socket", "NET/IB : No device found."),
        (WITHOUT_RDMA.replace("NET/IB : No device found.", "NET/IB : Using [0]mlx5_0:1/IB"), "Socket", ""),
        ("a:1:2 [0] NCCL INFO Using network IB\n", "IB", ""),
        (
            "a:1:2 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_open_device failed\n",
            "",
            "Call to ibv_open_device failed",
        ),
        ("", "", ""),
    ],
    ids=["no device", "another reason", "RDMA", "only a warning", "nothing"],
)
def test_the_network_is_read_from_the_log_of_nccl(log: str, network: str, reason: str) -> None:
    found = programs.load("vllm/files/collective.py").read_network(log)
    assert found == {"network": network, "rdma_reason": reason}
