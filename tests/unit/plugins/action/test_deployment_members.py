"""Who takes part, as people see it: a host that does not answer ends a run with what to do, unless it was left out; nothing is asked of it then."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible_collections.baremetal.llm.plugins.action import deployment_members

from tests.support.playbooks import playbook

SILENT = {"ansible_connection": "ssh", "ansible_host": "127.0.0.9", "ansible_port": 9}


class HostVars(dict[str, dict[str, Any]]):
    """The variables of all hosts, as Ansible hands them to a task."""

    def raw_get(self, name: str) -> dict[str, Any]:
        return self[name]


def run(reports: Path, asked: dict[str, Any], state: dict[str, Any] | None = None, check_mode: bool = False) -> Any:
    """The result where gpu1 answers, with what it remembers, and gpu2 does not."""
    deployments = {"pair": {"hosts": ["gpu1", "gpu2"], "head": "gpu2"}}
    inventory = {"deployments": deployments, "hosts": ["gpu1", "gpu2"], "names": {}}
    variables = {
        "localhost": {
            "llm_report_dir": str(reports),
            "llm_language": "en",
            "llm_inventory": inventory,
            "llm_members_asked": asked,
        },
        "gpu1": {
            "__preflight_gathered": {},
            "ansible_facts": {"llm_network_state": state or {}},
            "ansible_host": "10.0.0.1",
        },
        "gpu2": {"__preflight_gathered": {"said": "no route"}},
    }
    task = Task()
    task.args, task.check_mode = {}, check_mode
    action = deployment_members.ActionModule(
        task, SimpleNamespace(_shell=SimpleNamespace(tmpdir="")), None, DataLoader(), None
    )
    play = {"ansible_play_hosts": ["gpu1", "gpu2"], "ansible_play_hosts_all": ["gpu1", "gpu2"]}
    return action.run(task_vars={"hostvars": HostVars(variables), "groups": {}, **play})


def test_a_silent_host_is_refused_with_the_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AnsibleActionFail) as refusal:
        run(tmp_path, {})
    assert refusal.value._result["problems"] == ["members_silent"]
    said = " ".join(capsys.readouterr().out.split())
    for part in (
        "gpu2: no route",
        "-e llm_node=gpu2 -e llm_on_remaining=true",
        "playbooks/remove_nodes.yml -e llm_target=gpu2",
    ):
        assert part in said


def test_it_is_left_out_named_and_kept_on_the_controller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(tmp_path / "a", {"left_out": ["gpu2"]})["inventory"]
    assert (found["deployments"]["pair"]["head"], found["out"], found["silent"]) == ("gpu1", ["gpu2"], ["gpu2"])
    assert "pair is served without gpu2" in capsys.readouterr().out
    kept = json.loads((tmp_path / "a/members.json").read_text())
    assert kept["gpu1"]["address"] == "10.0.0.1"
    assert "gpu2" not in kept
    # The next run knows it from the host, and whom the controller has seen before.
    (tmp_path / "a/members.json").write_text(
        json.dumps({"gpu9": {"deployment": "gone", "address": "10.0.0.9", "since": ""}})
    )
    again = run(tmp_path / "a", {}, {"absent": found["deployments"]["pair"]["absent"]})["inventory"]
    assert again["deployments"] == {
        "pair": {key: value for key, value in found["deployments"]["pair"].items() if key != "leaving"}
    }
    assert "gpu9 (10.0.0.9) is no host of gone in the inventory any more" in capsys.readouterr().out
    run(tmp_path / "b", {"left_out": ["gpu2"]}, check_mode=True)
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_a_run_goes_past_a_host_that_is_left_out(tmp_path: Path) -> None:
    variables = {"vllm_model": "org/a", "vllm_version": "0.8.5", "llm_offline": False, "llm_host_dir": str(tmp_path)}
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    children = {"pair": {"hosts": {"gpu01": SILENT, "gpu02": local}}}
    path = tmp_path / "hosts.yml"
    path.write_text(
        yaml.safe_dump({"all": {"vars": variables, "children": {"llm_deployments": {"children": children}}}})
    )
    words = ("-i", path, "-e", "preflight_bundle_required=false")
    refused = playbook("playbooks/replace_node.yml", *words, "-e", "llm_node=gpu02")
    assert refused.returncode == 2, refused.stdout
    assert "No answer from gpu01" in refused.stdout
    assert "unreachable=1" not in refused.stdout
    # This machine has no GPUs, which is said next.
    left = playbook("playbooks/replace_node.yml", *words, "-e", "llm_node=gpu01", "-e", "llm_on_remaining=true")
    assert "pair is served without gpu01" in left.stdout
    assert "No answer from gpu01" not in left.stdout
    assert "unreachable=1" not in left.stdout
