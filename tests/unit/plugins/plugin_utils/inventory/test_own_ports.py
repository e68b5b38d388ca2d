"""Ports that one host would need twice are told before it is touched."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.own_ports import OF_SERVICES, own_port_problems

KNOWN = known_variables()
SERVICES = [name for names in OF_SERVICES.values() for name in names]
OF_RAY = ["vllm_port", "ray_port", "ray_node_manager_port", "ray_metrics_export_port", "ray_client_port"]


def found(lang: str = "en", services: bool = True, **variables: Any) -> list[dict[str, str]]:
    groups = {"llm_deployments": {"hosts": ["a", "b"], "children": ["qwen"]}, "qwen": {"hosts": ["a", "b"]}}
    groups |= {group: {"hosts": ["a"] if services else []} for group in OF_SERVICES}
    hosts = {host: {"vllm_executor": "ray", **variables} for host in ("a", "b")}
    return list(own_port_problems(Inventory(hosts, groups, KNOWN, {}, lang)))


def test_the_defaults_are_ports_of_their_own() -> None:
    assert found() == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_pair_that_is_the_same_is_told(lang: str) -> None:
    for one, other in itertools.combinations([*SERVICES, *OF_RAY, "ansible_port"], 2):
        problems = found(lang, **{one: 7777, other: 7777})
        assert [problem["code"] for problem in problems] == ["own_ports_clash"], (one, other)
        assert one in problems[0]["value"]
        assert other in problems[0]["value"]


def test_what_a_host_does_not_run_has_no_port() -> None:
    assert found(services=False, gateway_https_port=8000) == []
    assert found(gateway_http_port=0) == []
    assert found(gateway_http_port="{{ x }}", vllm_port="many") == [], "what is no number is told elsewhere"
    assert found(ray_min_worker_port=8440, ray_max_worker_port=8450)[0]["code"] == "own_ports_clash", "web_ui_port"
