"""What is asked for metrics, by the inventory, and what the programs that ask get."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.configuration import (
    alertmanager,
    prometheus,
    relay,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.consoles import consoles, pages
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import endpoint, targets

from tests.support.debian import amtool

DEPLOYMENTS = {
    "split": {"hosts": ["gpu01", "gpu02"], "head": "gpu01"},
    "single": {"hosts": ["gpu03"], "head": "gpu03"},
}
VARIABLES: dict[str, dict[str, Any]] = {
    "gpu01": {"ansible_host": "192.0.2.1", "vllm_version": "0.8.5.post1", "vllm_port": 8080},
    "gpu02": {"ansible_host": "192.0.2.2", "ray_metrics_export_port": 7000},
    "gpu03": {"ansible_host": "2001:db8::3", "vllm_version": "0.32.0"},
    "watcher": {"monitoring_address": "192.0.2.9", "monitoring_exporter_port": 9101},
}


def addresses(job: str, **executors: str) -> dict[str, str]:
    found = targets(DEPLOYMENTS, VARIABLES, ["watcher"], executors)[job]
    return {entry["labels"]["host"]: entry["targets"][0] for entry in found}


def test_every_host_has_an_exporter() -> None:
    assert addresses("node") == {
        "gpu01": "192.0.2.1:9100",
        "gpu02": "192.0.2.2:9100",
        "gpu03": "[2001:db8::3]:9100",
        "watcher": "192.0.2.9:9101",
    }


def test_a_machine_with_two_names_is_asked_once() -> None:
    again = {**VARIABLES, "gpu03": {**VARIABLES["gpu03"], "ansible_host": "192.0.2.1"}}
    assert len(targets(DEPLOYMENTS, again)["node"]) == 2


def test_the_server_of_a_deployment_is_asked_on_its_head() -> None:
    found = targets(DEPLOYMENTS, VARIABLES)
    assert found["vllm"][0] == {
        "targets": ["192.0.2.1:8080"],
        "labels": {"host": "gpu01", "deployment": "split", "release": "0.8.5.post1"},
    }
    assert addresses("api") == {"gpu01": "http://192.0.2.1:8080/ready", "gpu03": "http://[2001:db8::3]:8000/ready"}


def test_a_server_without_a_probe_is_asked_whether_it_answers() -> None:
    alone = {**VARIABLES, "gpu01": {**VARIABLES["gpu01"], "vllm_probe_enabled": "no"}}
    assert targets(DEPLOYMENTS, alone)["api"][0]["targets"] == ["http://192.0.2.1:8080/health"]


@pytest.mark.parametrize(
    ("executors", "hosts"),
    [({"split": "ray", "single": "mp"}, ["gpu01", "gpu02"]), ({"split": "mp", "single": "mp"}, [])],
)
def test_ray_is_asked_where_it_runs(executors: dict[str, str], hosts: list[str]) -> None:
    assert sorted(addresses("ray", **executors)) == hosts


def test_a_gateway_is_asked_where_it_listens() -> None:
    gates = {
        "gate": {"ansible_host": "192.0.2.20", "gateway_address": "*", "gateway_https_port": 443},
        "inner": {"ansible_host": "192.0.2.21", "gateway_address": "198.51.100.1", "gateway_https_port": 8443},
    }
    found = targets(DEPLOYMENTS, {**VARIABLES, **gates}, gateways=["gate", "inner"])["gateway"]
    assert found == [
        {"targets": ["https://192.0.2.20:443/health"], "labels": {"host": "gate"}},
        {"targets": ["https://198.51.100.1:8443/health"], "labels": {"host": "inner"}},
    ]


def test_an_address_stands_in_a_url() -> None:
    assert endpoint("gpu01.example", 1) == "gpu01.example:1"


def test_each_job_reads_its_targets() -> None:
    jobs = prometheus("/etc/llm-monitoring", 15, "127.0.0.1:9093", "127.0.0.1:9090")["scrape_configs"]
    files = {job["job_name"]: job["file_sd_configs"][0]["files"] for job in jobs if "file_sd_configs" in job}
    assert files == {job: [f"/etc/llm-monitoring/targets/{job}.json"] for job in targets({}, {})}


def test_no_secret_is_part_of_the_configuration() -> None:
    receivers = [
        {"name": "ops", "kind": "wecom", "url": "http://192.0.2.5/secret"},
        {"name": "mail", "kind": "email", "to": "a@example", "from": "b@example", "smarthost": "m:25", "username": "b"},
    ]
    receivers[1]["password"] = "secret"
    found = alertmanager(receivers, "/etc/llm-monitoring")
    assert "/secret'" not in str(found)
    assert "'secret'" not in str(found)
    assert found["receivers"][1]["webhook_configs"][0]["url"] == "http://127.0.0.1:9096/ops"
    assert found["receivers"][2]["email_configs"][0]["auth_password_file"] == "/etc/llm-monitoring/secrets/mail"
    assert [route["receiver"] for route in found["route"]["routes"]] == ["ops", "mail"]
    assert relay(receivers, {"firing": "x"}) == {"receivers": {"ops": "wecom"}, "words": {"firing": "x"}}


@pytest.mark.slow
def test_amtool_accepts_every_kind_of_receiver(tmp_path: Path) -> None:
    kinds = ("webhook", "wecom", "dingtalk", "feishu")
    receivers = [{"name": kind, "kind": kind, "url": "http://192.0.2.5/"} for kind in kinds]
    receivers.append({"name": "mail", "kind": "email", "to": "a@example", "from": "b@example", "smarthost": "m:25"})
    path = tmp_path / "alertmanager.yml"
    path.write_text(yaml.safe_dump(alertmanager(receivers, "/etc/llm-monitoring")))
    done = subprocess.run([amtool(), "check-config", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 receivers" in done.stdout


@pytest.mark.parametrize(("lang", "said"), [("en", "KV cache in use"), ("zh", "KV 缓存使用率")])
def test_a_console_shows_every_panel_and_says_why_one_is_empty(lang: str, said: str) -> None:
    found = consoles(lang)
    assert said in found["deployment.html"]
    for page in pages():
        text = found[page["page"] + ".html"]
        assert text.count("{{ range query ") == len(page["panels"])
        blocks = len(page["panels"]) + text.count("{{ if ")
        assert text.count("{{ else }}") == text.count("{{ end }}") == blocks


def test_nvidias_exporter_is_asked_where_it_runs() -> None:
    found = targets(DEPLOYMENTS, VARIABLES, ["watcher"], measured={"gpu02": "192.0.2.2:9400"})
    assert found["dcgm"] == [{"targets": ["192.0.2.2:9400"], "labels": {"host": "gpu02", "deployment": "split"}}]
    assert targets(DEPLOYMENTS, VARIABLES)["dcgm"] == []
