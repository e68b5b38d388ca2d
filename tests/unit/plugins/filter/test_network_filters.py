"""The filters around the network: thin, and they say what they want."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.filter import (
    cluster_environment,
    deployment_ports,
    firewall_commands,
    firewall_rules,
    judge_mesh,
    mesh_arguments,
    network_report,
)

HOSTVARS = {
    f"gpu{n}": {
        "llm_interface": {"interface": "eth1", "address": f"10.0.0.{n}"},
        "ansible_facts": {
            "llm_gpu_p2p": {"GPU0": {"GPU1": n == 1}},
            "llm_nics_found": [{"name": "eth1", "addresses": [f"10.0.0.{n}/24"]}],
        },
        "ansible_host": f"10.0.0.{n}",
    }
    for n in (1, 2)
}
FILTERS: dict[str, Any] = {
    name: function
    for module in (
        cluster_environment,
        deployment_ports,
        firewall_commands,
        firewall_rules,
        judge_mesh,
        mesh_arguments,
        network_report,
    )
    for name, function in module.FilterModule().filters().items()
}


def test_the_environment_of_one_host_and_of_all() -> None:
    everybody = FILTERS["cluster_environment"](["gpu1", "gpu2"], HOSTVARS)
    assert sorted(everybody) == ["gpu1", "gpu2"]
    assert everybody["gpu1"] == FILTERS["cluster_environment"](["gpu1", "gpu2"], HOSTVARS, "gpu1")
    assert [name for name, found in everybody.items() if "NCCL_P2P_DISABLE" in found] == ["gpu2"]
    assert FILTERS["cluster_environment"](["gpu1"], {"gpu1": {}}, "gpu1") == {}


def test_ports_of_a_worker_and_of_a_head() -> None:
    head = [port["variable"] for port in FILTERS["deployment_ports"]({}, "ray", True)]
    worker = [port["variable"] for port in FILTERS["deployment_ports"]({}, "ray", False)]
    assert set(head) - set(worker) >= {"ray_port", "vllm_port"}
    assert "ray_dashboard_port" not in head  # nobody from outside connects to it


def test_rules_and_their_commands() -> None:
    zones = ["public", "public\n  target: default\n  interfaces: eth1\n"]
    others = {"clients": ["localhost"]}  # whose name stands for nothing that another host could see
    rules = FILTERS["firewall_rules"](
        ["gpu1", "gpu2"], "gpu1", others, {**HOSTVARS, "localhost": {}}, executor="ray", firewalld=zones, language="zh"
    )
    assert "localhost" in rules["notes"][0]
    assert FILTERS["firewall_commands"](rules, "ufw")["add"][0]["from"] in rules["members"]["v4"]
    assert FILTERS["firewall_commands"](rules, "firewalld")["add"][0]["zone"] == "public"
    assert FILTERS["firewall_commands"]({}, "ufw", [{"rule": "deny"}]) == {"remove": [{"rule": "deny"}], "add": []}


def test_a_name_that_means_nothing_resolves_to_nothing() -> None:
    others = {"clients": ["no-such-host.invalid"]}
    rules = FILTERS["firewall_rules"](["gpu1"], "gpu1", others, {**HOSTVARS, "no-such-host.invalid": {}})
    assert "no-such-host.invalid" in rules["notes"][0]


@pytest.mark.parametrize("form", ["text", "html", "json"])
def test_reports(form: str) -> None:
    proof = FILTERS["judge_mesh"]([], {})
    text = FILTERS["network_report"]({"tiny": proof}, format=form)
    assert "tiny" in text
    if form == "json":
        assert json.loads(text)["tiny"]["networks"] == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cluster_environment", ("gpu1", {})),
        ("deployment_ports", ([],)),
        ("firewall_commands", ({}, "pf")),
        ("firewall_rules", ("gpu1", "gpu1", {}, {})),
        ("judge_mesh", ({}, {})),
        ("mesh_arguments", ({}, "gpu1")),
        ("network_report", ([],)),
    ],
)
def test_wrong_input_is_said(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(AnsibleFilterError, match=name):
        FILTERS[name](*arguments)
