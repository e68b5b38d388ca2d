"""Which hosts ``llm_target`` names, and that a run which changes something asks first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.target import stop_of, target_of

from tests.support.playbooks import playbook

ROOT = Path(__file__).resolve().parents[5]
GROUPS = {
    "all": ["localhost", "gpu01", "gpu02", "chat", "desk", "fd00::11"],
    "llm_deployments": ["gpu01", "gpu02", "chat", "fd00::11"],
    "llm_gateway": ["gpu01"],
    "code": ["gpu01", "fd00::11"],
    "chat": ["chat", "gpu02"],
}
OURS = ("gpu01", "gpu02", "chat", "fd00::11")
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.import_tasks: TASKS/target.yml
    - ansible.builtin.import_tasks: TASKS/confirm.yml
      vars: {confirm_lines: ["stop a and b"]}
    - ansible.builtin.debug: {msg: "goes on with {{ llm_target_hosts | join('+') }}"}
"""


@pytest.mark.parametrize(
    ("asked", "hosts", "unknown"),
    [
        (None, (), ()),
        (" , ", (), ()),
        ("gpu02, gpu01", ("gpu01", "gpu02"), ()),
        (["code"], ("gpu01", "fd00::11"), ()),
        ("chat", ("chat",), ()),  # a host and a deployment: the host
        ("fd00::11,desk", ("desk", "fd00::11"), ()),
        ("all", OURS, ()),
        ("gpu*,gpu01,localhost", ("gpu01",), ("gpu*", "localhost")),
    ],
)
def test_names_are_hosts_deployments_or_all(asked: object, hosts: tuple[str, ...], unknown: tuple[str, ...]) -> None:
    found = target_of(asked, GROUPS, ["code", "chat"])  # type: ignore[arg-type]
    assert (found.hosts, found.unknown) == (hosts, unknown)
    assert found.allowed[0] == "all"
    assert {"code", "chat", "desk"} < set(found.allowed)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_deployment_stops_as_a_whole_and_others_go_on(language: str) -> None:
    deployments = {"code": {"hosts": ["gpu01", "fd00::11"]}, "chat": {"hosts": ["chat", "gpu02"]}}
    found = stop_of(["gpu02"], deployments, language)
    assert found.hosts == {"chat": "chat", "gpu02": "chat"}
    assert [line for line in found.lines if "chat, gpu02" in line] == found.lines[:1]
    assert "site.yml" in found.lines[-1]
    assert stop_of(["desk"], deployments, language).lines == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "status", "says"),
    [
        ({}, 2, "It is not said which hosts this run is about."),
        ({"llm_target": "c"}, 2, "The inventory has no host and no deployment of this name."),
        ({"llm_target": "pair"}, 2, "Nothing has been changed"),  # no terminal, and nobody says yes
        ({"llm_target": "pair", "llm_confirm": True}, 0, "goes on with a+b"),
        ({"llm_target": ["a"], "llm_confirm": "true"}, 0, "goes on with a"),
    ],
)
def test_a_run_goes_on_only_with_a_target_and_a_yes(
    tmp_path: Path, variables: dict[str, object], status: int, says: str
) -> None:
    (tmp_path / "play.yml").write_text(PLAY.replace("TASKS", str(ROOT / "playbooks/tasks")))
    (tmp_path / "hosts.yml").write_text("all: {children: {llm_deployments: {children: {pair: {hosts: {a: , b: }}}}}}\n")
    known = {"llm_language": "en", "llm_inventory": {"deployments": {"pair": {}}}, **variables}
    done = playbook(tmp_path / "play.yml", "-i", tmp_path / "hosts.yml", "-e", json.dumps(known))
    assert (done.returncode, says in done.stdout) == (status, True), done.stdout
    assert ("goes on" in done.stdout) is (status == 0)
    assert ("stop a and b" in done.stdout) is ("pair" in variables.get("llm_target", "") or status == 0)


@pytest.mark.parametrize(
    "asked", [7, True, 1.5, {"gpu01": 1}, [7, None, []], "*", "gpu*", "~gpu", "!gpu01", "all:!gpu01", "../x"]
)
def test_what_is_neither_a_host_nor_a_deployment_names_nobody(asked: Any) -> None:
    found = target_of(asked, {"all": ["gpu01"], "llm_deployments": ["gpu01"], "qwen": ["gpu01"]}, ["qwen"])
    assert found.hosts == ()
    assert found.unknown
