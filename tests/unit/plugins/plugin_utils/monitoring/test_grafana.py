"""What Grafana reads at its start, and who comes in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.dashboards import dashboards
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.grafana import grafana, provisioning

SETTINGS: dict[str, Any] = {
    "monitoring_mode": "full",
    "monitoring_dir": "/etc/llm-monitoring",
    "monitoring_listen_address": "127.0.0.1",
    "monitoring_grafana_image": "grafana/grafana:12.0.2",
    "monitoring_grafana_port": 3000,
}
# grafana.com/docs/grafana/latest/administration/provisioning: the keys of a data source and of a provider of dashboards.
SOURCE_KEYS = {
    "name",
    "type",
    "access",
    "orgId",
    "uid",
    "url",
    "user",
    "database",
    "basicAuth",
    "basicAuthUser",
    "withCredentials",
    "isDefault",
    "jsonData",
    "secureJsonData",
    "version",
    "editable",
}
PROVIDER_KEYS = {
    "name",
    "orgId",
    "folder",
    "folderUid",
    "type",
    "disableDeletion",
    "updateIntervalSeconds",
    "allowUiUpdates",
    "options",
}


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = provisioning("/etc/llm-monitoring", "127.0.0.1:9090", 10)[f"grafana/{name}/llm.yml"]
    return found


def test_the_data_source_is_the_prometheus_beside_it() -> None:
    found = read("datasources")
    (source,) = found["datasources"]
    assert found["apiVersion"] == 1
    assert set(source) <= SOURCE_KEYS
    assert (source["type"], source["url"], source["uid"]) == ("prometheus", "http://127.0.0.1:9090", "llm")


def test_dashboards_are_read_from_the_folder_where_they_are_written() -> None:
    found = read("dashboards")
    (provider,) = found["providers"]
    assert found["apiVersion"] == 1
    assert set(provider) <= PROVIDER_KEYS
    folder = provider["options"]["path"]
    assert f"{folder}:{folder}:ro" in grafana(SETTINGS)["volumes"]
    # Each names its source by a variable of the type that is provisioned.
    made = dashboards().values()
    assert len(made) == 5
    for dashboard in made:
        assert {entry["query"] for entry in dashboard["templating"]["list"] if entry["type"] == "datasource"} == {
            read("datasources")["datasources"][0]["type"]
        }


def test_nobody_comes_in_without_a_login_and_nothing_asks_the_internet() -> None:
    found = grafana(SETTINGS)
    environment = found["environment"]
    assert (environment["GF_SERVER_HTTP_ADDR"], environment["GF_SERVER_HTTP_PORT"]) == ("127.0.0.1", "3000")
    assert environment["GF_AUTH_ANONYMOUS_ENABLED"] == environment["GF_USERS_ALLOW_SIGN_UP"] == "false"
    for part in ("REPORTING_ENABLED", "CHECK_FOR_UPDATES", "CHECK_FOR_PLUGIN_UPDATES"):
        assert environment[f"GF_ANALYTICS_{part}"] == "false"
    # The password is a file, and in no variable that an inspection of the container shows.
    assert environment["GF_SECURITY_ADMIN_PASSWORD__FILE"] in [volume.split(":")[1] for volume in found["volumes"]]
    assert "GF_SECURITY_ADMIN_PASSWORD" not in environment


def test_only_its_data_can_be_written_by_it() -> None:
    assert [volume for volume in grafana(SETTINGS)["volumes"] if not volume.endswith(":ro")] == [
        "/var/lib/llm-grafana/data:/var/lib/grafana"
    ]


@pytest.mark.parametrize("more", [{"monitoring_grafana_image": ""}, {"monitoring_mode": "rules_only"}])
def test_without_an_image_or_beside_ones_own_prometheus_there_is_none(more: dict[str, str]) -> None:
    assert grafana({**SETTINGS, **more}) == {}


def test_the_role_calls_it_the_same() -> None:
    variables = yaml.safe_load(
        (Path(__file__).parents[5] / "roles/monitoring/vars/main.yml").read_text(encoding="utf-8")
    )
    folder = variables["_monitoring_grafana_dir"]
    assert grafana(SETTINGS)["name"] == variables["_monitoring_grafana_container"]
    assert any(volume.startswith(f"{folder}/admin_password:") for volume in grafana(SETTINGS)["volumes"])
