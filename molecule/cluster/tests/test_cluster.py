"""The whole road: three hosts, two deployments, one model over two hosts through Ray; and a second run that touched nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml

CHECKOUT = Path(__file__).parents[3]
HOSTS = ["node1", "node2", "node3"]
HEADS = {"node1": "tiny_split", "node3": "tiny_single"}
DATA = {"node1": "172.31.241.11", "node2": "172.31.241.12", "node3": "172.31.241.13"}
testinfra_hosts = [f"ssh://{name}" for name in HOSTS]


def name_of(host: Any) -> str:
    name: str = host.check_output("hostname")
    return name


def environment(host: Any, container: str) -> dict[str, str]:
    lines = json.loads(host.check_output(f"docker inspect --format '{{{{json .Config.Env}}}}' {container}"))
    return dict(line.split("=", 1) for line in lines)


def test_three_hosts_are_looked_at(host: Any) -> None:
    assert len(testinfra_hosts) == 3
    assert name_of(host) in HOSTS


def test_the_inventory_means_these_hosts() -> None:
    inventory = yaml.safe_load((CHECKOUT / "inventories/lab/hosts.yml").read_text())
    groups = inventory["all"]["children"]["llm_deployments"]["children"]
    assert sorted(name for group in groups.values() for name in group["hosts"]) == HOSTS


def test_nothing_restarted_since_the_first_run(host: Any) -> None:
    now = host.check_output(
        "{ docker ps --quiet | xargs docker inspect --format '{{.Name}} {{.State.StartedAt}}' | sort;"
        " systemctl show --property=MainPID docker containerd; }"
    )
    assert now == host.file("/root/marks").content_string.strip()
    for container in host.check_output("docker ps --format '{{.Names}}'").split():
        assert host.check_output(f"docker inspect --format '{{{{.RestartCount}}}}' {container}") == "0"


def test_ray_runs_where_the_plan_needs_it(host: Any) -> None:
    running = host.check_output("docker ps --format '{{.Names}}'").split()
    expected = {"node1": ["llm-ray", "llm-vllm"], "node2": ["llm-ray"], "node3": ["llm-vllm"]}
    assert sorted(running) == expected[name_of(host)]


def test_the_ranks_run_on_two_hosts() -> None:
    head = testinfra.get_host("ssh://node1", ssh_config=str(CHECKOUT / ".lab/ssh/config"))
    cluster = json.loads(head.check_output("docker exec llm-ray python3 /llm/cluster.py 172.31.241.11:6379"))
    assert sorted(cluster["ranks"]) == ["node1", "node2"]
    assert {node["host"]: node["address"] for node in cluster["nodes"]} == {
        name: DATA[name] for name in ("node1", "node2")
    }
    status = head.check_output("docker exec llm-ray ray status --address=172.31.241.11:6379")
    assert "2.0/2.0 GPU" in status


def test_every_host_has_a_worker_of_vllm(host: Any) -> None:
    """The processes themselves: not what Ray planned, but where vLLM computes."""
    container = {"node1": "llm-ray", "node2": "llm-ray", "node3": "llm-vllm"}[name_of(host)]
    processes = host.check_output(f"docker top {container} -eo pid,args")
    workers = [line for line in processes.splitlines() if "RayWorkerProc" in line or "VLLM::Worker" in line]
    assert len(workers) == {"node1": 1, "node2": 1, "node3": 2}[name_of(host)], processes


def test_everything_uses_the_interface_of_the_cluster_network(host: Any) -> None:
    found = environment(host, "llm-vllm" if name_of(host) in HEADS else "llm-ray")
    assert found["VLLM_HOST_IP"] == DATA[name_of(host)]
    addresses = json.loads(host.check_output("ip -json -4 address"))
    (interface,) = [
        one["ifname"] for one in addresses for own in one["addr_info"] if own["local"] == DATA[name_of(host)]
    ]
    assert {found[name] for name in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES")} == {interface}
    assert found["NCCL_SOCKET_IFNAME"] == f"={interface}"
    assert found["NCCL_IB_DISABLE"] == "1"  # the lab has no RDMA


@pytest.mark.parametrize("head", sorted(HEADS))
def test_a_client_gets_an_answer_with_its_key_and_none_without(head: str) -> None:
    key = (CHECKOUT / f".lab/secrets/{HEADS[head]}_api_key").read_text().strip()
    body = json.dumps({"model": "tiny", "prompt": "The quick", "max_tokens": 4})
    command = ["curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", "--data", body]
    command += ["--header", "Content-Type: application/json", f"http://{DATA[head]}:8000/v1/completions"]
    refused = subprocess.run(command, capture_output=True, text=True, check=True)
    assert refused.stdout.splitlines()[-1] == "401"
    answered = subprocess.run(
        [*command, "--header", f"Authorization: Bearer {key}"], capture_output=True, text=True, check=True
    )
    answer, code = answered.stdout.rsplit("\n", 1)
    assert code == "200"
    assert json.loads(answer)["usage"]["completion_tokens"] > 0


def test_the_key_is_in_no_process_list_and_no_container_configuration(host: Any) -> None:
    deployment = HEADS.get(name_of(host), "tiny_split")
    key = (CHECKOUT / f".lab/secrets/{deployment}_api_key").read_text().strip()
    assert len(key) == 40
    assert key not in host.check_output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    for container in host.check_output("docker ps --format '{{.Names}}'").split():
        assert key not in host.check_output(f"docker inspect {container}")


def test_containers_see_the_gpus_and_are_not_privileged(host: Any) -> None:
    for container in host.check_output("docker ps --format '{{.Names}}'").split():
        seen = host.check_output(f"docker exec {container} nvidia-smi -L").splitlines()
        assert len(seen) == {"node1": 1, "node2": 1, "node3": 2}[name_of(host)]
        assert host.check_output(f"docker inspect --format '{{{{.HostConfig.Privileged}}}}' {container}") == "false"


def test_containers_start_at_boot_without_the_controller(host: Any) -> None:
    for container in host.check_output("docker ps --format '{{.Names}}'").split():
        policy = host.check_output(f"docker inspect --format '{{{{.HostConfig.RestartPolicy.Name}}}}' {container}")
        assert policy == "unless-stopped"
    assert host.service("docker").is_enabled
