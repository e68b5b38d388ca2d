"""An engine that is one folder more goes through every decision: nothing outside of its folders says its name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.module_utils._engines import ENGINES
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import UNUSED, asked_by_decision
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.decide import DecisionInput, Readers, decide
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import find
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import (
    known_variables,
    role_options,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.configuration import prometheus
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import recording_rules
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import targets
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import deployment_ports
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.settings import LIMITS, check_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_html, plan_report

from tests.support.deployments import host
from tests.unit.plugins.plugin_utils.gateway.test_decide import asked as asked_of_gateways

ROOT = Path(__file__).resolve().parents[5]
ROLES = ROOT / "tests/support/engines/roles"
DEFAULTS = yaml.safe_load((ROLES / "echo/defaults/main.yml").read_text(encoding="utf-8"))
GROUPS = {
    "llm_deployments": {"hosts": ["gpu1"], "children": ["small"]},
    "small": {"hosts": ["gpu1"], "children": []},
}
SMALL: dict[str, Any] = {"small": {"hosts": ["gpu1"], "head": "gpu1"}}
SAID: dict[str, Any] = {"llm_engine": "echo", "echo_model": "lab/tiny", "echo_version": "b5000"}


@pytest.fixture(autouse=True)
def echo(monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(find, "PACKAGES", [*find.PACKAGES, "tests.support.engines"])
    return find.engine("echo")


def variables(**more: Any) -> dict[str, Any]:
    """Of a host that has nothing of vLLM."""
    found = {name: value for name, value in host(1, 2).items() if not name.startswith("vllm_")}
    return {**found, **DEFAULTS, **SAID, **more}


def decided(language: str = "en", **more: Any) -> dict[str, Any]:
    mine = {"gpu1": variables(**more)}
    return decide(DecisionInput(SMALL, mine, ["gpu1"], language=language), Readers(lambda bundle: (), lambda path: {}))


# -- finding ----------------------------------------------------------------------------------------------------------
def test_an_engine_is_a_folder_with_an_engine(echo: Engine) -> None:
    assert find.engine_names()[0] == find.DEFAULT
    assert "echo" in find.engine_names()
    assert "roles" not in find.engine_names(), "a folder without engine.py is none"
    assert [find.engine(name).name for name in find.engine_names()] == find.engine_names()
    with pytest.raises(KeyError):
        find.engine("novel")


def test_a_setting_is_the_variable_of_the_deployments_engine() -> None:
    assert find.setting({"vllm_port": 1, "echo_port": 2}, "port") == 1
    assert find.setting({"vllm_port": 1, "echo_port": 2, "llm_engine": "echo"}, "port") == 2
    assert find.setting({}, "port", 8000) == 8000
    assert find.variable_of({"llm_engine": "echo"}, "port") == "echo_port"


def test_the_real_engines_have_a_role_with_what_every_engine_has() -> None:
    known = known_variables()
    assert ENGINES[0] == find.DEFAULT
    for name in set(find.engine_names()) - {"echo"}:
        assert name in ENGINES, "plugins/module_utils/_engines.py says it to code on hosts"
        for setting in ("model", "version", "image", "served_model_name", "port", "options", "api_key"):
            assert f"{name}_{setting}" in known
        assert (ROOT / "roles" / name / "tasks/main.yml").is_file()


# -- through the decisions --------------------------------------------------------------------------------------------
def checked(**said: Any) -> dict[str, Any]:
    known = {**known_variables(), **known_variables(ROLES)}
    mine = {"llm_offline": False, **SAID, **said}
    return check_inventory({"gpu1": {name: value for name, value in mine.items() if value is not None}}, GROUPS, known)


def test_its_inventory_is_checked() -> None:
    found = checked()
    assert found["problems"] == []
    assert (found["names"]["gpu1"]["server"], found["names"]["gpu1"]["models"]) == ("llm-echo", [])
    assert [each["what"] for each in checked(echo_version=None)["problems"]] == [
        "echo_version is not set for the deployment small."
    ]
    assert '"b5000"' in checked(echo_version=None)["problems"][0]["allowed"]
    assert "one of vllm, echo" in checked(llm_engine="novel")["problems"][0]["allowed"]
    assert [each["code"] for each in checked(echo_port="many")["problems"]] == ["wrong_type"]


def test_it_serves_from_one_host() -> None:
    groups = {name: {**group, "hosts": ["gpu1", "gpu2"]} for name, group in GROUPS.items()}
    said = {"llm_offline": False, **SAID}
    found = check_inventory({"gpu1": said, "gpu2": said}, groups, {**known_variables(), **known_variables(ROLES)})
    assert [each["code"] for each in found["problems"]] == ["engine_of_one_host"]
    assert "vLLM" in found["problems"][0]["allowed"]


@pytest.mark.parametrize(("language", "words"), [("en", "no memory model"), ("zh", "没有 Echo 的显存模型")])
def test_its_plan_says_that_nothing_is_known(language: str, words: str) -> None:
    found = decided(language)
    plan = found["plans"]["small"]
    assert (found["problems"], plan["ok"], plan["verdict"], plan["engine"]) == ([], True, "unknown", "echo")
    assert words in plan["predicted"]["warnings"][0]
    table, page = (
        plan_report({"small": plan}, "table", language),
        plan_html({"small": plan}, language, day="2026-01-01"),
    )
    assert "small: Echo b5000" in table
    assert words in page


def test_its_decision_starts_it_and_nothing_of_another_engine() -> None:
    section = decided(echo_options={"context": 4096})["hosts"]["gpu1"]
    assert (section["engine"], section["image"], section["names"]["server"]) == ("echo", "lab/echo:b5000", "llm-echo")
    assert not {"vllm", "ray"} & set(section)
    server = section["echo"]
    assert server["container"]["command"] == [
        *("echo-server", "--port=8000", "--model=/opt/llm/models/lab--tiny", "--context=4096")
    ]
    assert server["container"]["environment"]["ECHO_LOG"] == "info"
    assert not [name for name in server["container"]["environment"] if name.startswith("RAY_")]
    assert (server["url"], server["key_file"]) == ("http://10.0.0.1:8000", "/opt/llm/secrets/echo_api_key")
    assert "llm-echo" in " ".join(server["runtime"]["log"])
    assert server["probe"]["needed"]


def test_its_ports_are_those_of_its_api_and_of_monitoring() -> None:
    said = variables(echo_port=8080, vllm_port=8000)
    assert {port.name: (port.variable, port.first) for port in deployment_ports(said)} == {"api": ("echo_port", 8080)}
    firewall = str(decided(echo_port=8080)["hosts"]["gpu1"]["network"]["rules"])
    assert "8080" in firewall
    assert "29502" not in firewall, "vLLM's all-reduce"
    both = {
        "gpu1": {"llm_offline": False, **SAID, "echo_port": 8080, "ansible_host": "192.0.2.1"},
        "again": {"llm_offline": False, "vllm_model": "a/b", "vllm_version": "0.8.5", "vllm_port": 8080},
    }
    both["again"]["ansible_host"] = "192.0.2.1"
    groups = {
        "llm_deployments": {"hosts": ["gpu1", "again"], "children": ["small", "other"]},
        "small": {"hosts": ["gpu1"], "children": []},
        "other": {"hosts": ["again"], "children": []},
    }
    found = check_inventory(both, groups, {**known_variables(), **known_variables(ROLES)})
    said_ports = [each["value"] for each in found["problems"] if each["code"] == "ports_of_two_deployments"]
    assert said_ports == ["echo_port, vllm_port: 8080"]
    assert found["names"]["gpu1"]["server"] == "llm-echo-small"


def test_preflight_is_asked_about_it() -> None:
    role = {f"preflight_{name}": None for name in LIMITS} | {"preflight_bundle_required": False}
    more = {"nvidia_driver_method": "present", "nvidia_driver_version": "", "docker_method": "present"}
    fleet = {"gpu1": variables(echo_port=8080, docker_address_pools=[], **more)}
    found = check_arguments(SMALL, fleet, ["gpu1"], role, lambda bundle: ())["settings"]["gpu1"]
    assert found["ports"] == {"llm_engine": "echo", "echo_port": 8080}
    assert (found["executor"], found["engine_version"]) == ("uni", "b5000")


def test_what_its_role_is_asked_for_has_a_digest_and_the_roles_of_others_have_nothing_to_do() -> None:
    section, options = decided()["hosts"]["gpu1"], {**role_options(), **role_options(ROLES)}
    asked = asked_by_decision(section, variables(), options)
    assert {role for role, digest in asked.items() if digest != UNUSED} == {"network", "echo"}
    assert {"vllm", "ray"} < set(asked)
    other = asked_by_decision(decided(echo_port=8001)["hosts"]["gpu1"], variables(echo_port=8001), options)
    assert other["echo"] != asked["echo"]


def test_a_gateway_leads_to_it_beside_others() -> None:
    mine = {"h1": {**SAID, **DEFAULTS, "echo_served_model_name": "small", "echo_port": 8080}}
    sections, problems = asked_of_gateways({"a": mine["h1"]})
    assert problems == []
    (model,) = sections["gate"]["models"]
    assert (model["name"], model["check"], model["kind"]) == ("small", "/healthz", "token")
    assert [replica["port"] for replica in model["replicas"]] == [8080]
    assert "/v1/chat/completions" in sections["gate"]["paths"]


def test_replicas_of_a_model_have_one_engine() -> None:
    vllm = {"vllm_model": "lab/tiny", "vllm_served_model_name": "small", "vllm_version": "0.8.5", "vllm_port": 8000}
    mine = {**SAID, **DEFAULTS, "echo_served_model_name": "small"}
    _sections, problems = asked_of_gateways({"a": {**vllm, "vllm_probe_enabled": True}, "b": mine})
    assert "llm_engine" in problems[0]["what"]
    assert problems[0]["value"] == 'a: "vllm"; b: "echo"'


def test_it_is_watched_under_its_own_job_and_the_common_names() -> None:
    found = targets(SMALL, {"gpu1": {**SAID, **DEFAULTS, "echo_port": 8080, "ansible_host": "192.0.2.1"}})
    assert found["echo"] == [
        {"targets": ["192.0.2.1:8080"], "labels": {"host": "gpu1", "deployment": "small", "release": "b5000"}}
    ]
    assert (found["vllm"], found["api"][0]["targets"]) == ([], ["http://192.0.2.1:8080/healthz"])
    jobs = {job["job_name"]: job for job in prometheus("/etc/llm", 15, "a:1", "b:2")["scrape_configs"]}
    assert jobs["echo"]["scrape_timeout"] == jobs["vllm"]["scrape_timeout"]
    rules = {rule["record"]: rule["expr"] for rule in recording_rules()}
    assert "vllm:num_requests_running or echo:requests_processing" in rules["llm:requests_running"]
    assert "rate(echo:tokens_predicted_total[2m])" in rules["llm:generation_tokens:rate2m"]


def test_engines_agree_on_what_a_common_name_measures(echo: Engine) -> None:
    kinds: dict[str, set[tuple[str, str]]] = {}
    for name in find.engine_names():
        for ours, metric in find.engine(name).metrics().items():
            kinds.setdefault(ours, set()).add((metric["kind"], metric.get("fold", "")))
    assert {ours: found for ours, found in kinds.items() if len(found) > 1} == {}
    assert len(kinds) > 10
    assert dataclasses.replace(echo, before=("novel",)).roles == ("novel", "echo")
