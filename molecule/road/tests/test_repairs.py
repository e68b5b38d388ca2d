"""A short day two on the hosts that serve: a killed worker heals, a setting of one deployment changes, a deployment is removed, a plain run
mends a damaged file and sets the deployment up again.

The last run leaves the hosts as they were: they are kept as the lab's state serving.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import testinfra

from lab.config import STATE, load
from tests.support.drills import page, play, users_environment

CHECKOUT = Path(__file__).parents[3]
LAB = load()
HOSTS = ["node1", "node2", "node3"]
HEADS = {"tiny_split": "node1", "tiny_single": "node3"}
# A start takes less than a minute on an idle machine; this limit is for what never ends.
PATIENCE_SECONDS = 600
DAMAGED = "/etc/systemd/system/llm-probe.service"


def on(name: str, command: str) -> str:
    answer: str = testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config")).check_output(command)
    return answer


def site(*arguments: str) -> dict[str, int]:
    """Run site.yml as a user does; the number of changes for each host."""
    mine = users_environment()
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "playbooks/site.yml",
        "-i",
        "inventories/lab",
        *arguments,
    ]
    environment = {**mine, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    changed = {host: int(count) for host, count in re.findall(r"^(node\d)\s+: ok=.* changed=(\d+) ", done.stdout, re.M)}
    assert sorted(changed) == HOSTS
    return changed


def token(deployment: str) -> bool:
    """Whether a client gets a token within 15 s."""
    key = (STATE / f"secrets/{deployment}_api_key").read_text().strip()
    body = json.dumps({"model": "tiny", "prompt": "Hello", "max_tokens": 1})
    url = f"http://{LAB.nodes[HEADS[deployment]].data}:8000/v1/completions"
    command = ["curl", "--silent", "--max-time", "15", "--config", "-", "--data", body, url]
    header = f'header = "Authorization: Bearer {key}"\nheader = "Content-Type: application/json"\n'
    answered = subprocess.run(command, input=header, capture_output=True, text=True)
    return answered.returncode == 0 and "completion_tokens" in answered.stdout


def wait(question: str, asked: Any) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not asked():
        assert time.monotonic() < deadline, f"{question}: no after {PATIENCE_SECONDS} s"
        time.sleep(1)


def started() -> dict[str, str]:
    """When each container of each host was started."""
    ask = "docker ps --quiet | xargs --no-run-if-empty docker inspect --format '{{.Name}} {{.State.StartedAt}}'"
    lines = [(name, line.split()) for name in HOSTS for line in on(name, ask).splitlines()]
    return {f"{host}{name}": when for host, (name, when) in lines}


def options() -> list[str]:
    """The options of the server on the host without Ray."""
    return on("node3", "docker exec llm-vllm cat /llm/vllm.yaml").splitlines()


def test_a_killed_worker_comes_back_without_ansible() -> None:
    before = started()
    pid = on("node2", "docker inspect --format '{{.State.Pid}}' llm-ray")
    on("node2", f"kill -9 {pid}")
    wait(
        "the engine has started the worker again", lambda: started().get("node2/llm-ray", "") > before["node2/llm-ray"]
    )
    # What the killed worker took with it answers nobody; the server that comes back has started later than the worker.
    wait(
        "the server of both hosts has started again",
        lambda: started().get("node1/llm-vllm", "") > before["node1/llm-vllm"],
    )
    wait("a client gets a token", lambda: token("tiny_split"))
    assert started()["node3/llm-vllm"] == before["node3/llm-vllm"]


def test_a_setting_of_one_deployment_restarts_that_one_alone(tmp_path: Path) -> None:
    before = started()
    assert "max-num-seqs: 8" not in options()
    setting = tmp_path / "setting.yml"
    setting.write_text(json.dumps({"tiny_single": {"vars": {"vllm_max_num_seqs": 8}}}))
    changed = site("-i", str(setting))
    assert (changed["node1"], changed["node2"]) == (0, 0)
    assert changed["node3"] > 0
    assert "max-num-seqs: 8" in options()
    assert token("tiny_single")
    after = started()
    assert {name for name in after if after[name] != before.get(name)} == {"node3/llm-vllm"}


def test_one_table_shows_what_serves() -> None:
    shown = play("playbooks/status.yml")
    assert "All deployments serve (2)." in shown
    assert [name for name in (*HOSTS, *HEADS) if name not in shown] == []


def test_a_removed_deployment_takes_its_own_and_nothing_else() -> None:
    before = started()
    kept = "dpkg-query --show --showformat='${Package}\n' | sort; docker images --quiet | sort; find /opt/llm/models -type f | sort"
    had = on("node3", kept)
    page("docs/runbooks/add-and-remove-hosts.md", 1, 2, TARGET="tiny_single")
    assert started() == {name: when for name, when in before.items() if not name.startswith("node3/")}
    assert on("node3", kept) == had
    left = on("node3", "ls -A /etc/systemd/system /opt/llm; docker ps --all --format '{{.Names}}'")
    assert re.findall(r"^(?:llm-(?:vllm|probe)\S*|secrets)$", left, re.M) == []
    assert not token("tiny_single")
    assert token("tiny_split")
    assert "tiny_single" in play("playbooks/status.yml")


def test_a_plain_run_mends_a_damaged_file_and_sets_up_what_was_removed() -> None:
    was = on("node2", f"sha256sum {DAMAGED}")
    before = started()
    on("node2", f"sed --in-place 's/^ExecStart=/ExecStart=-/' {DAMAGED}")
    assert on("node2", f"sha256sum {DAMAGED}") != was
    changed = site()
    assert on("node2", f"sha256sum {DAMAGED}") == was
    assert on("node2", "systemctl show --property=NeedDaemonReload --value llm-probe.service") == "no"
    assert changed["node1"] == 0
    assert changed["node2"] > 0
    assert changed["node3"] > 0
    assert "max-num-seqs: 8" not in options()
    assert token("tiny_single")
    assert token("tiny_split")
    after = started()
    assert {name for name in after if after[name] != before.get(name)} == {"node3/llm-vllm"}
