"""Before a run restarts a replica the gateways send requests elsewhere, once in a run and for the whole deployment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.playbooks import playbook

# In the place of roles/gateway/files/llm-gateway.py, on two gateways of this machine.
PROGRAM = """import os, sys
folder = {folder!r}
mark = os.path.exists(folder + "/state/restarting")
with open(folder + "/calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + (" marked" if mark else "") + "\\n")
if sys.argv[1] == "others":
    print({others!r})
sys.exit(1 if os.path.exists(folder + "/" + sys.argv[1] + ".late") else 0)
"""
PLAY = """
- hosts: pair
  gather_facts: false
  tasks:
    - name: Leave
      ansible.builtin.include_role: {name: baremetal.llm.common, tasks_from: leave}
      vars: {common_restarts: "{{ inventory_hostname in restarting }}"}
    - name: Leave again, as the next role does
      ansible.builtin.include_role: {name: baremetal.llm.common, tasks_from: leave}
      vars: {common_restarts: true}
      when: again
    - name: Come back
      ansible.builtin.include_role: {name: baremetal.llm.gateway, tasks_from: back}
      vars: {gateway_replica: pair}
      when: _common_has_left | default(false)
"""


def run(folder: Path, restarting: list[str], others: str = '["second"]', **more: Any) -> tuple[int, str, list[str]]:
    """The exit status, what was said, and what the gateways' programs were asked."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    inventory = {
        "all": {
            "children": {
                "pair": {"hosts": {"a": None, "b": None}},
                "llm_gateway": {"hosts": {"g1": None, "g2": None}},
            },
            "vars": local,
        }
    }
    names = {name: {"state": str(folder / "state")} for name in ("a", "b")}
    about = {"deployment": "pair", "head": "a", "planned": ["a", "b"], "runtime": "container"}
    section = {**about, "engine": "vllm", "vllm": {"url": "http://10.0.0.1:8000"}}
    variables = {
        "restarting": restarting,
        "again": False,
        "vllm_port": 8000,
        "llm_language": "en",
        "llm_decision": {"hosts": dict.fromkeys(("a", "b"), section)},
        "gateway_drain_seconds": 2,
        "_gateway_back_seconds": 2,
        **more,
    }
    (folder / "gateway.py").write_text(PROGRAM.format(folder=str(folder), others=others))
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    set_up = [
        {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.set_fact": {"llm_inventory": {"names": names}}}],
        }
    ]
    (folder / "play.yml").write_text(yaml.safe_dump(set_up) + PLAY)
    (folder / "calls").touch()
    done = playbook(folder / "play.yml", "-i", folder / "hosts.yml", "-e", json.dumps(variables))
    return done.returncode, done.stdout, (folder / "calls").read_text().splitlines()


LEFT = ["others pair", "drained pair marked", "back pair --at 10.0.0.1:8000"]


@pytest.mark.slow
def test_a_worker_that_restarts_takes_its_deployment_out_once_and_brings_it_back(tmp_path: Path) -> None:
    variables = {"_gateway_program": str(tmp_path / "gateway.py"), "again": True}
    status, said, calls = run(tmp_path, ["b"], **variables)
    assert status == 0, said
    # Two gateways.
    assert [calls[0], calls[2], calls[4]] == LEFT, said
    assert len(calls) == 6
    assert not (tmp_path / "state/restarting").exists()


@pytest.mark.slow
def test_nothing_leaves_where_nothing_restarts_or_nobody_else_answers(tmp_path: Path) -> None:
    program = {"_gateway_program": str(tmp_path / "gateway.py")}
    status, said, calls = run(tmp_path, [], **program)
    assert (status, calls) == (0, []), said
    status, said, calls = run(tmp_path, ["a"], others="[]", **program)
    assert (status, set(calls)) == (0, {"others pair"}), said
    assert not (tmp_path / "state").exists()


@pytest.mark.slow
def test_a_host_without_a_gateway_keeps_nobody(tmp_path: Path) -> None:
    status, said, calls = run(tmp_path, ["a"], _gateway_program=str(tmp_path / "none.py"))
    assert (status, calls) == (0, []), said


@pytest.mark.slow
def test_requests_that_take_too_long_are_told_and_a_gateway_that_sends_nothing_ends_the_run(tmp_path: Path) -> None:
    program = {"_gateway_program": str(tmp_path / "gateway.py")}
    (tmp_path / "drained.late").touch()
    status, said, _calls = run(tmp_path, ["a"], **program)
    assert status == 0, said
    assert "After 2 s requests still run on the deployment pair" in said
    (tmp_path / "back.late").touch()
    status, said, _calls = run(tmp_path, ["a"], **program)
    assert status == 2
    assert "a gateway still sends no requests there" in said
