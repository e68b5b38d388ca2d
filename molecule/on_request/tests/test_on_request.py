"""Two models of real llama.cpp and one of real vLLM on one GPU: who asks for one gets it, another one goes, and nobody is sent away."""

from __future__ import annotations

import concurrent.futures
import json
import time
from typing import Any

import httpx2
import pytest

from lab.config import STATE, load
from tests.support.drills import connect, run

LAB = load()
ADDRESS = LAB.nodes["node1"].mgmt
PORTS = {"first": 8000, "second": 8001, "third": 8002}
ENGINES = {"first": "llama_cpp", "second": "llama_cpp", "third": "vllm"}
SERVERS = {name: f"llm-{engine}-{name}" for name, engine in ENGINES.items()}
# Those that start in a few seconds.
QUICK = ("first", "second")
# What the issue asks for: a swap takes no longer than a start and this.
MORE_SECONDS = 5.0
SWAPS, STRANGERS = 10, 200


def secret(name: str) -> str:
    return (STATE / "secrets" / name).read_text().strip()


def ask(name: str, key: str = "", tokens: int = 4) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key or secret(f'{name}_api_key')}"}
    body = {"model": name, "prompt": "Hello", "max_tokens": tokens, "ignore_eos": True}
    return httpx2.post(f"http://{ADDRESS}:{PORTS[name]}/v1/completions", headers=headers, json=body, timeout=300)


def timed(name: str) -> float:
    began = time.monotonic()
    answer = ask(name)
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["completion_tokens"] == 4
    return time.monotonic() - began


def loaded() -> list[str]:
    names = connect("node1").check_output("docker ps --format '{{.Names}}'").split()
    return [name for name, server in SERVERS.items() if server in names]


def sleep(name: str) -> None:
    connect("node1").check_output("docker stop %s", SERVERS[name])


def play(*arguments: str, **environment: str) -> str:
    return run("ansible-playbook", "-i", "molecule/on_request/inventory", *arguments, **environment)


def test_one_of_three_is_loaded_and_all_answer() -> None:
    assert connect("node1").check_output("hostname") == "node1"
    for name in PORTS:
        assert ask(name).status_code == 200
        assert loaded() == [name]


def test_the_second_asks_its_draft_model() -> None:
    drafted = {name: ask(name, tokens=16).json()["timings"].get("draft_n", 0) for name in QUICK}
    assert drafted["first"] == 0
    assert drafted["second"] > 0


def test_a_swap_takes_no_longer_than_a_start() -> None:
    starts, swaps = [], []
    for _round in range(3):
        for name in loaded():
            sleep(name)
        starts.append(timed("first"))
        swaps.append(timed("second"))
    print(f"start {max(starts):.1f} s, swap {max(swaps):.1f} s, worst of three")
    assert max(swaps) <= max(starts) + MORE_SECONDS


def test_vllm_takes_its_turn_among_others() -> None:
    for name in loaded():
        sleep(name)
    start = timed("third")
    assert loaded() == ["third"]
    back = timed("first")
    assert loaded() == ["first"]
    swap = timed("third")
    assert loaded() == ["third"]
    print(f"vLLM: start {start:.1f} s, swap {swap:.1f} s, and back to llama.cpp {back:.1f} s")
    assert swap <= start + MORE_SECONDS


def test_swaps_in_a_row_lose_no_request() -> None:
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        clients = [pool.submit(lambda each=name: [timed(each) for _swap in range(SWAPS // 2)]) for name in QUICK]
        took = [seconds for client in clients for seconds in client.result()]
    print(f"{SWAPS} swaps in a row, two clients: {time.monotonic() - began:.1f} s, longest request {max(took):.1f} s")
    assert len(took) == SWAPS


def test_strangers_wake_nothing() -> None:
    name = next(each for each in QUICK if each not in loaded())
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        found = {answer.status_code for answer in pool.map(lambda _n: ask(name, "x" * 32), range(STRANGERS))}
    print(f"{STRANGERS} requests with a wrong key: answered {found}")
    assert found == {401}
    assert name not in loaded()
    assert httpx2.get(f"http://{ADDRESS}:{PORTS[name]}/health", timeout=10).status_code == 200
    assert name not in loaded()


def test_the_program_has_no_rights() -> None:
    node = connect("node1")
    pid = node.check_output("systemctl show --property=MainPID --value llm-on-request.service")
    status = dict(line.split(":", 1) for line in node.check_output(f"cat /proc/{pid}/status").splitlines())
    assert status["Uid"].split() == [node.check_output("id -u llm-on-request")] * 4
    assert status["CapBnd"].split() == ["0000000000000400"], "a port below 1024, and nothing else"
    # As the program sees the host.
    inside = f"nsenter --target {pid} --mount setpriv --reuid llm-on-request --regid llm-on-request --clear-groups"
    assert node.run(f"{inside} docker ps").rc != 0
    assert node.run(f"{inside} cat /opt/llm/deployments/first/secrets/llama_cpp_api_key").rc != 0


def test_status_shows_who_sleeps_and_the_probe_does_not_wake() -> None:
    awake = loaded()
    time.sleep(25)
    assert loaded() == awake
    play("playbooks/status.yml")
    rows: list[dict[str, Any]] = json.loads((STATE / "reports/status.json").read_text())["rows"]
    states = {row["deployment"]: row["state"] for row in rows}
    assert states == {**dict.fromkeys(PORTS, "asleep"), awake[0]: "serving"}


@pytest.mark.parametrize("awake", list(PORTS))
def test_a_second_run_changes_nothing_whoever_is_loaded(awake: str) -> None:
    assert ask(awake).status_code == 200
    said = play("playbooks/serve.yml")
    recap = [line for line in said.splitlines() if "changed=" in line]
    assert len(recap) == 1 + len(PORTS)
    assert all("changed=0" in line for line in recap), said[-3000:]


def test_a_restart_of_the_host_keeps_one_loaded() -> None:
    node = connect("node1")
    awake = loaded()
    node.check_output("systemctl restart docker")
    for name in PORTS:
        assert ask(name).status_code == 200
        assert loaded() == [name], awake


def test_a_stopped_deployment_is_not_started_again() -> None:
    play("playbooks/stop.yml", "--extra-vars", "llm_target=second llm_confirm=true")
    with pytest.raises(httpx2.ConnectError):
        ask("second")
    for name in ("third", "first"):
        assert ask(name).status_code == 200
        assert loaded() == [name]
