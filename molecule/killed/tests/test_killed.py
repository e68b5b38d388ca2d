"""A controller is killed in every stage of site.yml, on hosts that were bare. Nobody waits or tidies up: the next run begins at once, goes further
than the one before, and the last one serves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from lab.config import CHECKOUT, STATE, load
from tests.support.drills import connect, users_environment

LAB = load()
HOSTS = ["node1", "node2", "node3"]
HEADS = {"tiny_split": "node1", "tiny_single": "node3"}
# A task of each stage, and how many seconds after its beginning the controller is gone, in the order of a run.
MOMENTS = (
    ("Lock | ", 0.5),
    ("Driver | Install with NVIDIA's installer", 3),
    ("Docker | Unpack the archive", 1),
    ("Connectivity | Connect", 1),
    ("Begin | Let the engine load missing images", 3),
    ("Models | Pass the files of the bundle on", 2),
    ("Collective | Measure", 5),
    ("Ray | Wait for all hosts", 1),
    ("Node | Run Ray in a container", 2),
    ("Vllm | Run the server", 1),
    ("Server | Run vLLM in a container", 3),
    ("Report | ", 0.5),
)


def site() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("ansible-playbook")), "playbooks/site.yml", "-i", "inventories/lab"],
        cwd=CHECKOUT,
        env=users_environment(ANSIBLE_NOCOLOR="1", LC_ALL="C.UTF-8", PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def family(pid: int) -> list[int]:
    """A process and all that it has started; Ansible's workers have sessions of their own."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = children.read_text().split() if children.exists() else []
    return [pid, *(each for child in found for each in family(int(child)))]


def kill(run: subprocess.Popen[str]) -> None:
    """As when the controller loses its power: nobody has time to end anything."""
    os.kill(run.pid, signal.SIGSTOP)
    for pid in reversed(family(run.pid)):
        os.kill(pid, signal.SIGKILL)
    run.wait()


@pytest.mark.parametrize(("task", "seconds"), MOMENTS, ids=[task for task, _seconds in MOMENTS])
def test_a_run_goes_on_where_the_last_one_was_killed(task: str, seconds: float) -> None:
    run, said = site(), []
    assert run.stdout
    for line in run.stdout:
        said.append(line)
        if line.startswith(("TASK [", "RUNNING HANDLER [")) and task in line:
            break
    else:
        pytest.fail(f"the run ended before this task: {''.join(said[-60:])}")
    time.sleep(seconds)
    kill(run)


def whole_run() -> dict[str, int]:
    """The number of changes for each host."""
    run = site()
    said = run.communicate()[0]
    assert run.returncode == 0, said[-5000:]
    changed = {host: int(count) for host, count in re.findall(r"^(node\d)\s+: ok=.* changed=(\d+) ", said, re.M)}
    assert sorted(changed) == HOSTS
    return changed


def test_the_next_run_serves_and_the_one_after_it_changes_nothing() -> None:
    whole_run()
    assert whole_run() == dict.fromkeys(HOSTS, 0)


@pytest.mark.parametrize("deployment", HEADS)
def test_a_token_is_generated(deployment: str) -> None:
    key = (STATE / f"secrets/{deployment}_api_key").read_text().strip()
    head = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    body = json.dumps({"model": "tiny", "prompt": "Hello", "max_tokens": 1}).encode()
    url = f"http://{LAB.nodes[HEADS[deployment]].data}:8000/v1/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body, head), timeout=60) as answer:
        assert json.load(answer)["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize("name", HOSTS)
def test_nothing_of_the_killed_runs_is_left(name: str) -> None:
    host = connect(name)
    assert host.check_output("hostname") == name
    ours = "ps -eo args | grep -E 'AnsiballZ|async_wrapper|llm-fanout|connectivity' | grep -v grep || true"
    assert host.check_output(ours) == ""
    assert host.check_output("systemctl list-units --plain --no-legend 'llm-fanout*'") == ""
