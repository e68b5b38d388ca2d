"""The whole road: three hosts, two deployments, one model over two hosts through Ray; and a second run that touched nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml
from jsonschema import Draft202012Validator

from lab.config import STATE, load
from tests.support.schema import host_schema

CHECKOUT = Path(__file__).parents[3]
HOSTS = ["node1", "node2", "node3"]
HEADS = {"node1": "tiny_split", "node3": "tiny_single"}
LAB = load()
DATA = {name: node.data for name, node in LAB.nodes.items()}
testinfra_hosts = [f"ssh://{name}" for name in HOSTS]


def name_of(host: Any) -> str:
    name: str = host.check_output("hostname")
    return name


def interface_of(host: Any) -> str:
    """The one that has the address of the cluster's network."""
    addresses = json.loads(host.check_output("ip -json -4 address"))
    (name,) = [one["ifname"] for one in addresses for own in one["addr_info"] if own["local"] == DATA[name_of(host)]]
    return str(name)


def test_what_was_decided_has_the_fields_of_its_types() -> None:
    hosts = json.loads((STATE / "reports/decision.json").read_text(encoding="utf-8"))["hosts"]
    assert sorted(hosts) == HOSTS
    schema = Draft202012Validator(host_schema())
    assert [f"{name}: {error.message}" for name in HOSTS for error in schema.iter_errors(hosts[name])] == []


def containers_of(host: Any) -> list[str]:
    """Those that run: what is asked of each of them is asked of all that belong there."""
    found: list[str] = sorted(host.check_output("docker ps --format '{{.Names}}'").split())
    assert found == {"node1": ["llm-ray", "llm-vllm"], "node2": ["llm-ray"], "node3": ["llm-vllm"]}[name_of(host)]
    return found


def environment(host: Any, container: str) -> dict[str, str]:
    lines = json.loads(host.check_output(f"docker inspect --format '{{{{json .Config.Env}}}}' {container}"))
    return dict(line.split("=", 1) for line in lines)


def test_three_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node1", "node2", "node3"]


def test_the_inventory_means_these_hosts() -> None:
    inventory = yaml.safe_load((CHECKOUT / "inventories/lab/hosts.yml").read_text())
    groups = inventory["all"]["children"]["llm_deployments"]["children"]
    assert sorted(name for group in groups.values() for name in group["hosts"]) == HOSTS


def test_nothing_restarted_since_the_first_run(host: Any) -> None:
    now = host.check_output(
        "{ docker ps --quiet | xargs docker inspect --format '{{.Name}} {{.State.StartedAt}}' | sort;"
        " systemctl show --property=MainPID docker containerd; }"
    )
    assert now == host.file("/run/marks").content_string.strip()
    for container in containers_of(host):
        assert host.check_output(f"docker inspect --format '{{{{.RestartCount}}}}' {container}") == "0"


def test_the_ranks_run_on_two_hosts() -> None:
    head = testinfra.get_host("ssh://node1", ssh_config=str(STATE / "ssh/config"))
    cluster = json.loads(head.check_output(f"docker exec llm-ray python3 /llm/cluster.py {DATA['node1']}:6379"))
    assert sorted(cluster["ranks"]) == ["node1", "node2"]
    assert {node["host"]: node["address"] for node in cluster["nodes"]} == {
        name: DATA[name] for name in ("node1", "node2")
    }
    status = head.check_output(f"docker exec llm-ray ray status --address={DATA['node1']}:6379")
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
    interface = interface_of(host)
    assert {found[name] for name in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES")} == {interface}
    assert found["NCCL_SOCKET_IFNAME"] == f"={interface}"
    assert found["NCCL_IB_DISABLE"] == "1"  # the lab has no RDMA


def test_vllm_leaves_the_workers_their_own_interfaces() -> None:
    """vLLM's own code says which variables of the head it gives to every worker."""
    program = (
        "import json, os; from vllm.ray.ray_env import get_env_vars_to_copy;"
        " print(json.dumps([name for name in get_env_vars_to_copy() if name in os.environ]))"
    )
    head = testinfra.get_host("ssh://node1", ssh_config=str(STATE / "ssh/config"))
    given = set(json.loads(head.check_output(f"docker exec llm-vllm python3 -c '{program}'").splitlines()[-1]))
    own = {name for name in environment(head, "llm-ray") if name.startswith(("NCCL_", "UCX_", "GLOO_", "TP_"))}
    assert {"NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES"} <= own
    assert not own & given
    assert "HF_HUB_OFFLINE" in given  # others it does give


def test_the_report_says_who_reaches_whom_over_which_interface(host: Any) -> None:
    """Of the run that configured the network, as it printed it. A cell of the matrix is a rate, a time and an MTU."""
    report = (STATE / "reports/first_report.txt").read_text()
    (section,) = re.findall(r"^Deployment tiny_split on node1, node2\n((?:  .*\n)+)", report, re.MULTILINE)
    assert f"  network {LAB.networks['data']}, verified\n" in section
    here = name_of(host)
    if here == "node3":
        assert here not in section
        return
    rows = re.findall(r"^    (node\d) \((\S+)\)  +(.+)$", section, re.MULTILINE)
    cells = {name: (interface, re.split(r"  +", reached)) for name, interface, reached in rows}
    assert sorted(cells) == ["node1", "node2"]
    interface, reached = cells[here]
    assert interface == interface_of(host)
    assert reached.index("-") == ["node1", "node2"].index(here)
    (path,) = [cell for cell in reached if cell != "-"]
    rate, unit = re.fullmatch(r"([\d.]+) ([GM]bit/s), [\d.]+ ms, MTU 1500", path).groups()  # type: ignore[union-attr]
    assert float(rate) * {"G": 1000, "M": 1}[unit[0]] > 10


def test_the_report_has_the_figures_of_the_all_reduce() -> None:
    report = (STATE / "reports/report.txt").read_text()
    for deployment in HEADS.values():
        (section,) = re.findall(rf"^Deployment {deployment} on .*\n((?:  .*\n)+)", report, re.MULTILINE)
        assert "all-reduce over 2 ranks, gloo, measured 20" in section
        rows = re.findall(
            r"^ +(\d+ [KM]iB) +([\d.]+) ms  algbw +([\d.]+) MB/s  busbw +([\d.]+) MB/s$", section, re.MULTILINE
        )
        sizes, milliseconds = [row[0] for row in rows], [float(row[1]) for row in rows]
        # A size that takes more than 50 ms is the last: on a busy machine that may be any of them.
        assert sizes
        assert sizes == ["1 KiB", "32 KiB", "1 MiB", "16 MiB", "64 MiB"][: len(sizes)]
        assert max(milliseconds[:-1], default=0) <= 50
        assert sizes[-1] == "64 MiB" or milliseconds[-1] >= 50
        assert all(float(figure) > 0 for _size, *figures in rows for figure in figures)
        # Between two ranks each link carries as much as is reduced.
        assert all(algbw == busbw for _size, _milliseconds, algbw, busbw in rows)
        link = re.search(r"at best (\d+) % of the slowest link's 10 Gbit/s", section)
        if deployment == "tiny_single":
            assert "at best" not in section  # gloo does not go over the links between GPUs
        else:
            best = max(float(busbw) for *_others, busbw in rows)
            assert link is not None
            assert abs(int(link[1]) - best * 8 / 1e4 * 100) <= 1


@pytest.mark.parametrize("head", sorted(HEADS))
def test_a_client_gets_an_answer_with_its_key_and_none_without(head: str) -> None:
    key = (STATE / f"secrets/{HEADS[head]}_api_key").read_text().strip()
    body = json.dumps({"model": "tiny", "prompt": "The quick", "max_tokens": 4})
    command = ["curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", "--data", body]
    command += ["--header", "Content-Type: application/json", f"http://{DATA[head]}:8000/v1/completions"]
    # CVE-2026-48710: vLLM itself takes the latter for a request of /health, if its image has Starlette before 1.0.1.
    for host in (f"{DATA[head]}:8000", "x/health?"):
        refused = subprocess.run([*command, "--header", f"Host: {host}"], capture_output=True, text=True, check=True)
        assert refused.stdout.splitlines()[-1] == "401", host
    answered = subprocess.run(
        [*command, "--header", f"Authorization: Bearer {key}"], capture_output=True, text=True, check=True
    )
    answer, code = answered.stdout.rsplit("\n", 1)
    assert code == "200"
    assert json.loads(answer)["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize("path", ["invocations", "tokenize", "pause", "openapi.json"])
def test_what_the_key_does_not_cover_is_not_answered(path: str) -> None:
    for head in sorted(HEADS):
        command = ["curl", "--silent", "--max-time", "60", "--output", "/dev/null", "--write-out", "%{http_code}"]
        done = subprocess.run(
            [*command, f"http://{DATA[head]}:8000/{path}"], capture_output=True, text=True, check=True
        )
        assert done.stdout == "404"


def test_the_key_is_in_no_process_list_and_no_container_configuration(host: Any) -> None:
    deployment = HEADS.get(name_of(host), "tiny_split")
    key = (STATE / f"secrets/{deployment}_api_key").read_text().strip()
    assert len(key) == 40
    assert key not in host.check_output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    for container in containers_of(host):
        assert key not in host.check_output(f"docker inspect {container}")


def test_containers_see_the_gpus_and_are_neither_root_nor_privileged(host: Any) -> None:
    for container in containers_of(host):
        seen = host.check_output(f"docker exec {container} nvidia-smi -L").splitlines()
        assert len(seen) == {"node1": 1, "node2": 1, "node3": 2}[name_of(host)]
        assert host.check_output(f"docker inspect --format '{{{{.HostConfig.Privileged}}}}' {container}") == "false"
        status = host.check_output(f"docker exec {container} grep -E '^(NoNewPrivs|CapBnd):' /proc/self/status").split()
        rights = dict(zip(status[::2], status[1::2], strict=True))
        assert rights["NoNewPrivs:"] == "1"
        assert int(rights["CapBnd:"], 16) == 0
        lines = [
            line.split(None, 2) for line in host.check_output(f"docker top {container} -eo pid,uid,args").splitlines()
        ]
        assert len(lines) > 2
        assert {uid for _pid, uid, _command in lines[1:]} == {"70000"}, lines


def test_containers_start_at_boot_without_the_controller(host: Any) -> None:
    for container in containers_of(host):
        policy = host.check_output(f"docker inspect --format '{{{{.HostConfig.RestartPolicy.Name}}}}' {container}")
        assert policy == "unless-stopped"
    assert host.service("docker").is_enabled


def test_no_host_tried_to_leave() -> None:
    """Everything came from the bundle: not one packet, not one name lookup, went to somewhere outside since the hosts were bare."""
    done = subprocess.run([sys.executable, "-m", "lab", "exits"], cwd=CHECKOUT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "none\n"), done.stdout + done.stderr
