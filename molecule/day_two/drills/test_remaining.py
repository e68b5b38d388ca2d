"""The head of a deployment loses its power: by the runbook the others serve, every run says so, and one command takes the host back.

Then a worker is removed and taken back, and the deployment is stopped, its worker is reset, and the next run
starts it again. The other replica answers all the time.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator

import pytest
import yaml

from lab.config import STATE, load
from tests.support.drills import answering, connect, page, play, run

DATA = {name: node.data for name, node in load().nodes.items()}
PAGE, REMOVE = "docs/runbooks/serve-on-the-rest.md", "docs/runbooks/add-and-remove-hosts.md"
STOP, RESET = "docs/runbooks/stop-and-start.md", "docs/runbooks/reset-a-host.md"


def power(state: str, name: str) -> None:
    run(sys.executable, "-m", "lab", "power", state, name)


def token(name: str) -> int:
    """How many tokens the server of a host generates."""
    asked = f"docker exec llm-vllm python3 /llm/ask.py http://{DATA[name]}:8000 tiny Hello 4"
    return int(json.loads(connect(name).check_output(asked))["tokens"])


def sizes(name: str) -> tuple[int, int]:
    command = json.loads(connect(name).check_output("docker inspect --format '{{json .Config.Cmd}}' llm-vllm"))
    options = yaml.safe_load(
        connect(name).check_output(f"docker exec llm-vllm cat {command[command.index('--config') + 1]}")
    )
    return options.get("tensor-parallel-size", 1), options.get("pipeline-parallel-size", 1)


@pytest.fixture(scope="module", autouse=True)
def client() -> Iterator[None]:
    """Somebody asks the other replica all the time, and never waits for an answer in vain."""
    with answering("node3"):
        yield


def test_a_run_that_needs_the_dead_head_is_refused_and_says_what_to_do() -> None:
    power("off", "node1")
    said = play("playbooks/site.yml", status=2)
    assert "No answer from node1" in said
    assert "replace_node.yml -e llm_node=node1 -e llm_on_remaining=true" in said.replace("\n", " ")


def test_the_runbook_lets_the_others_serve() -> None:
    said = page(PAGE, 1, 3, NODE="node1")
    assert "tiny_split is served without node1" in said
    assert token("node2") > 0
    assert sizes("node2") == (1, 1)


def test_every_run_says_so_and_none_changes_anything() -> None:
    said = play("playbooks/site.yml")
    assert re.findall("(?:changed|unreachable|failed)=[1-9]", said) == []
    assert "tiny_split is served without node1" in said
    assert "tiny_split is served without node1" in (STATE / "reports/report.txt").read_text()
    shown = play("playbooks/status.yml")
    assert "All deployments serve (2)." in shown
    assert "tiny_split is served without node1" in shown
    assert token("node2") > 0


def test_a_head_whose_power_comes_back_changes_nothing_by_itself() -> None:
    power("on", "node1")
    assert "node1 answers" in play("playbooks/site.yml")
    assert token("node2") > 0
    assert sizes("node2") == (1, 1)


def test_one_command_takes_the_host_back() -> None:
    said = page(PAGE, 5, 5, NODE="node1")
    assert "is served without" not in said
    assert token("node1") > 0
    assert sizes("node1")[0] * sizes("node1")[1] == 2
    ranks = json.loads(
        connect("node1").check_output(f"docker exec llm-ray python3 /llm/cluster.py {DATA['node1']}:6379")
    )
    assert sorted(ranks["ranks"]) == ["node1", "node2"]
    assert "llm-vllm" not in connect("node2").check_output("docker ps --format '{{.Names}}'")
    # The GPUs of a host that comes back were judged before it served.
    record = json.loads(connect("node1").file("/opt/llm/accept/accept.json").content_string)
    assert all(gpu["verdict"] != "fail" for gpu in record["gpus"].values())


def test_a_worker_is_removed_while_the_other_replica_answers() -> None:
    page(REMOVE, 1, 2, TARGET="node2")
    assert token("node1") > 0
    assert sizes("node1") == (1, 1)
    node = connect("node2")
    assert [
        name for name in node.check_output("docker ps --all --format '{{.Names}}' || true").split() if "llm-" in name
    ] == []
    # The others do not let it in any more.
    assert f"{DATA['node2']}" not in connect("node1").check_output("nft list table inet baremetal_llm")
    said = play("playbooks/site.yml")
    assert re.findall("(?:changed|unreachable|failed)=[1-9]", said) == []
    assert "node2 was removed from tiny_split" in said


def test_a_removed_worker_comes_back() -> None:
    said = page(REMOVE, 3, 3, TARGET="node2")
    assert "was removed from" not in said
    assert token("node1") > 0
    assert sizes("node1")[0] * sizes("node1")[1] == 2


def test_a_stopped_deployment_stays_stopped_over_a_restart() -> None:
    # Named by one of its hosts, it stops on both.
    said = page(STOP, 1, 2, TARGET="node2")
    assert "tiny_split stops on node1, node2" in said
    power("off", "node2")
    power("on", "node2")
    for name in ("node1", "node2"):
        node = connect(name)
        names = node.check_output("docker ps --all --format '{{.Names}}'").split()
        assert {"llm-vllm", "llm-ray"}.intersection(names) == set()
        assert node.run("systemctl is-enabled --quiet llm-probe.timer").rc != 0
        assert node.run("systemctl is-active --quiet llm-probe.timer").rc != 0
    assert token("node3") > 0
    again = play("playbooks/stop.yml", "-e", "llm_target=tiny_split", "-e", "llm_confirm=true")
    assert re.findall("(?:changed|unreachable|failed)=[1-9]", again) == []


def test_a_host_that_serves_is_not_reset() -> None:
    said = play("playbooks/reset.yml", "-e", "llm_target=node3", "-e", "llm_confirm=true", status=2)
    assert "These hosts still serve" in said
    assert token("node3") > 0


def test_a_reset_removes_what_records_name_and_nothing_else() -> None:
    node = connect("node2")
    foreign = ["/etc/llm.conf", "/opt/llm/scripts/of-somebody", "/etc/systemd/system/somebody.service"]
    node.check_output(f"touch {' '.join(foreign)}")
    kept = "dpkg-query --show --showformat='${Package}\n' | sort; find /opt/llm/models /etc/docker -type f | sort"
    before = node.check_output(kept)
    shown = page(RESET, 1, 2, TARGET="node2")
    assert "are removed that vllm has left" in shown
    assert node.run("ls /opt/llm/records/vllm.json").rc == 0
    page(RESET, 3, 3, TARGET="node2")
    # Another run finds nothing to remove.
    again = play("playbooks/reset.yml", "-e", "llm_target=node2", "-e", "llm_confirm=true")
    assert re.findall("(?:changed|unreachable|failed)=[1-9]", again) == []
    for path in foreign:
        assert node.file(path).exists
    assert node.check_output(kept) == before
    left = node.check_output("ls /etc/systemd/system /opt/llm/records").split()
    assert [name for name in left if name.startswith(("llm-probe", "llm-vllm", "llm-ray", "llm-firewall"))] == []
    assert {"vllm.json", "ray.json", "network.json"}.intersection(left) == set()
    assert node.run("nft list table inet baremetal_llm").rc != 0
    assert node.check_output("systemctl is-active docker") == "active"
    node.check_output(f"rm {' '.join(foreign)}")


def test_a_stopped_deployment_is_started_by_the_next_run() -> None:
    page(STOP, 3, 3)
    assert token("node1") > 0
    for name in ("node1", "node2"):
        assert connect(name).check_output("systemctl is-active llm-probe.timer") == "active"
    assert re.findall("(?:changed|unreachable|failed)=[1-9]", play("playbooks/site.yml")) == []
