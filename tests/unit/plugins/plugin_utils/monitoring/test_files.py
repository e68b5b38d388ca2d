"""What the role writes, by mode; and who may ask an exporter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.files import exporters_and_collectors, files
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import targets

DEPLOYMENTS = {"qwen": {"hosts": ["gpu01"], "head": "gpu01"}}
VARIABLES: dict[str, dict[str, Any]] = {
    "gpu01": {"ansible_host": "192.0.2.1", "monitoring_address": "10.0.0.1", "vllm_version": "0.8.5"},
    "watcher": {"ansible_host": "watcher.example"},
}
SETTINGS = {
    "monitoring_mode": "full",
    "monitoring_dir": "/etc/llm-monitoring",
    "monitoring_interval_seconds": 10,
    "monitoring_first_token_seconds": 5.5,
    "monitoring_backup_days": 7,
    "monitoring_grafana_port": 3000,
    "monitoring_runbook_url": "https://example.com/alerts.md",
    "monitoring_listen_address": "127.0.0.1",
    "monitoring_receivers": [],
}


def written(mode: str) -> dict[str, str]:
    settings = {**SETTINGS, "monitoring_mode": mode}
    found = files(targets(DEPLOYMENTS, VARIABLES, ["watcher"], {"qwen": "ray"}), settings)
    return {entry["path"]: entry["content"] for entry in found}


def test_a_file_comes_before_the_one_that_names_it() -> None:
    paths = list(written("full"))
    assert paths[-1] == "prometheus.yml"
    assert {"targets/node.json", "rules/llm.yml", "consoles/fleet.html", "blackbox.yml", "relay.json"} < set(paths)
    assert "> 5.5" in written("full")["rules/llm.yml"]


def test_what_a_prometheus_of_the_site_gets_is_files_alone() -> None:
    found = written("rules_only")
    assert {path for path in found if "/" not in path} == {"scrape_configs.yml"}
    jobs = yaml.safe_load(found["scrape_configs.yml"])["scrape_configs"]
    named = {name.removeprefix("/etc/llm-monitoring/") for job in jobs for name in job["file_sd_configs"][0]["files"]}
    assert named == {path for path in found if path.startswith("targets/")}


def test_texts_of_ansible_are_written_as_others() -> None:
    class Tagged(str):
        """As Ansible has them: a text that knows where it comes from."""

    receiver = {"name": Tagged("ops"), "kind": Tagged("wecom"), "url": Tagged("http://192.0.2.5/")}
    found = files(targets(DEPLOYMENTS, VARIABLES), {**SETTINGS, "monitoring_receivers": [receiver]})
    (alertmanager,) = [entry["content"] for entry in found if entry["path"] == "alertmanager.yml"]
    assert yaml.safe_load(alertmanager)["receivers"][1]["name"] == "ops"


@pytest.mark.parametrize("path", ["targets/ray.json", "targets/vllm.json"])
def test_the_address_is_that_for_the_collector(path: str) -> None:
    (target,) = json.loads(written("full")[path])
    assert target["targets"][0].startswith("10.0.0.1:")


def test_an_exporter_lets_in_the_addresses_of_collectors() -> None:
    known = {"watcher.example": ["192.0.2.9", "2001:db8::9", "192.0.2.9"]}

    def resolve(name: str) -> Sequence[str]:
        return known.get(name, [])

    found = exporters_and_collectors(DEPLOYMENTS, VARIABLES, ["watcher"], resolve)
    assert found["exporters"] == {"gpu01": "10.0.0.1:9100", "watcher": "watcher.example:9100"}
    assert found["collectors"] == ["192.0.2.9", "2001:db8::9"]
