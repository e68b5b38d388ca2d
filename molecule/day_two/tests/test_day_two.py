"""After all drills, the last of which lost a worker and the head: both deployments serve, and the rebuilt hosts are as the others."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
import testinfra
import yaml

from lab.config import STATE, load
from tests.support import openai_client

HOSTS = ["node1", "node2", "node3"]
REBUILT = ["node1", "node2"]
HEADS = {"node1": "tiny_split", "node3": "tiny_single"}
CONTAINERS = {"node1": ["llm-ray", "llm-vllm"], "node2": ["llm-ray"], "node3": ["llm-vllm"]}
GPUS = {"node1": 1, "node2": 1, "node3": 2}
DATA = {name: node.data for name, node in load().nodes.items()}
CACHE = "/opt/llm/cache/vllm-openai-v0.32.0-cpu-7.0-70000"
RAY_PORTS = {"6380", "6381", "6382", "6383", "6384", "6385"}
testinfra_hosts = [f"ssh://{name}" for name in HOSTS]


def connect(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def client(head: str) -> openai.OpenAI:
    """OpenAI's own client, for the server on a head."""
    key = (STATE / f"secrets/{HEADS[head]}_api_key").read_text().strip()
    return openai.OpenAI(base_url=f"http://{DATA[head]}:8000/v1", api_key=key, max_retries=0, timeout=120)


def test_three_hosts_are_looked_at() -> None:
    assert [connect(name).check_output("hostname") for name in HOSTS] == HOSTS


def test_what_belongs_there_runs_and_nothing_else(host: Any) -> None:
    name = host.check_output("hostname")
    assert sorted(host.check_output("docker ps --format '{{.Names}}'").split()) == CONTAINERS[name]
    assert len(host.check_output("nvidia-smi -L").splitlines()) == GPUS[name]
    for unit in ("docker", "nvidia-persistenced"):
        assert host.service(unit).is_running
        assert host.service(unit).is_enabled


def test_nothing_in_the_containers_runs_as_root(host: Any) -> None:
    for name in CONTAINERS[host.check_output("hostname")]:
        lines = [
            line.split(None, 2) for line in host.check_output(f"docker top {name} -eo pid,uid,args").splitlines()[1:]
        ]
        assert len(lines) > 1
        assert {uid for _pid, uid, _command in lines} == {"70000"}, lines
        status = host.check_output(f"docker exec {name} cat /proc/self/status")
        assert {f"Cap{kind}:\t{0:016x}" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} <= set(status.splitlines())
    for folder in ("/opt/llm/tmp-70000", CACHE):
        assert (host.file(folder).mode, host.file(folder).uid) == (0o700, 70000)


@pytest.mark.parametrize("head", HEADS)
def test_a_token_is_generated(head: str) -> None:
    url = f"http://{DATA[head]}:8000"
    answer = connect(head).check_output(f"docker exec llm-vllm python3 /llm/ask.py {url} tiny Hello 4")
    assert json.loads(answer)["tokens"] > 0


@pytest.mark.parametrize("head", HEADS)
def test_openai_client_chats_at_once_and_token_by_token(head: str) -> None:
    openai_client.chats_at_once_and_token_by_token(client(head))


@pytest.mark.parametrize("head", HEADS)
def test_openai_client_is_refused_with_another_key(head: str) -> None:
    openai_client.is_refused_with_another_key(client(head))


@pytest.mark.parametrize("head", HEADS)
def test_the_key_is_for_root_and_its_group_only(head: str) -> None:
    file = connect(head).file("/opt/llm/secrets/vllm_api_key")
    assert (file.user, file.group, file.mode) == ("root", "root", 0o640)
    folder = connect(head).file("/opt/llm/secrets")
    assert (folder.user, folder.group, folder.mode) == ("root", "root", 0o750)


@pytest.mark.parametrize(("head", "sizes"), [("node1", (1, 2)), ("node3", (2, 1))])
def test_sizes_follow_from_the_gpus_of_the_hosts(head: str, sizes: tuple[int, int]) -> None:
    command = json.loads(connect(head).check_output("docker inspect --format '{{json .Config.Cmd}}' llm-vllm"))
    file = command[command.index("--config") + 1]
    options = yaml.safe_load(connect(head).check_output(f"docker exec llm-vllm cat {file}"))
    assert (options["tensor-parallel-size"], options["pipeline-parallel-size"]) == sizes


@pytest.mark.parametrize("head", HEADS)
def test_what_was_compiled_is_kept_outside_of_the_container(head: str) -> None:
    assert connect(head).check_output(f"find {CACHE}/vllm -type f")
    assert not connect(head).check_output("docker exec llm-vllm sh -c 'ls ~/.cache/vllm 2>/dev/null || true'")


@pytest.mark.parametrize("name", REBUILT)
def test_the_ranks_run_on_both_rebuilt_hosts_with_the_planned_gpus(name: str) -> None:
    found = connect(name).check_output(f"docker exec llm-ray python3 /llm/cluster.py {DATA['node1']}:6379")
    assert sorted(json.loads(found)["ranks"]) == REBUILT
    nodes = [(node["host"], node["address"], node["gpus"]) for node in json.loads(found)["nodes"]]
    assert nodes == [(rebuilt, DATA[rebuilt], 1) for rebuilt in REBUILT]


@pytest.mark.parametrize("name", REBUILT)
def test_a_worker_process_computes_on_it(name: str) -> None:
    processes = connect(name).check_output("docker top llm-ray -eo pid,args")
    assert len([line for line in processes.splitlines() if "RayWorkerProc" in line]) == 1, processes


@pytest.mark.parametrize("name", REBUILT)
def test_ray_listens_on_the_documented_ports(name: str) -> None:
    sockets = connect(name).socket.get_listening_sockets()
    listening = {socket.rsplit(":", 1)[1] for socket in sockets if socket.startswith("tcp")}
    assert listening >= RAY_PORTS
    assert ("6379" in listening) == (name == "node1")
    assert "8265" not in listening  # no dashboard unless asked


@pytest.mark.parametrize("name", REBUILT)
def test_no_name_server_is_needed_to_know_the_other_ranks(name: str) -> None:
    """torch asks for the name behind each address, in this form."""
    for rank in REBUILT:
        asked = f"docker exec llm-ray getent -s hosts:files hosts ::ffff:{DATA[rank]}"
        assert connect(name).check_output(asked).split() == [f"::ffff:{DATA[rank]}", f"{rank}.rank"]


@pytest.mark.parametrize("name", REBUILT)
def test_its_new_ssh_host_key_is_the_only_one_known(name: str) -> None:
    host = connect(name)
    address = host.check_output("echo $SSH_CONNECTION").split()[2]
    key = host.file("/etc/ssh/ssh_host_ed25519_key.pub").content_string.split()[1]
    lines = (STATE / "ssh/known_hosts").read_text().splitlines()
    assert [line.split()[2] for line in lines if line.split()[0] == address] == [key]
