"""The action monitoring_decide as Ansible would run it, without a playbook: what is written, and where something is to do."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible_collections.baremetal.llm.plugins.action import monitoring_decide

HOSTS = ("gpu1", "gpu2", "watch")


class HostVars(dict[str, dict[str, Any]]):
    """The variables of all hosts, as Ansible hands them to a task."""

    def raw_get(self, name: str) -> dict[str, Any]:
        return self[name]


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, dict[str, Any]]:
    deployments = {"pair": {"hosts": ["gpu1", "gpu2"], "head": "gpu1"}}
    hosts = {name: {"ansible_host": f"192.0.2.{n}"} for n, name in enumerate(HOSTS, 1)}
    return {**hosts, "localhost": {"llm_inventory": {"deployments": deployments}, "llm_report_dir": str(tmp_path)}}


def decided(
    variables: dict[str, dict[str, Any]], playing: tuple[str, ...] = HOSTS, executor: str = "ray"
) -> dict[str, Any]:
    task = Task()
    task.args = {}
    action = monitoring_decide.ActionModule(
        task, SimpleNamespace(_shell=SimpleNamespace(tmpdir="")), None, DataLoader(), None
    )
    action._load_name = "monitoring_decide"
    result: dict[str, Any] = action.run(
        task_vars={
            "inventory_hostname": playing[0],
            "hostvars": HostVars(variables),
            "ansible_play_hosts": list(playing),
            "ansible_play_hosts_all": list(playing),
            "groups": {"llm_monitoring": ["watch"]},
            "llm_decision": {"plans": {"pair": {"executor": executor}}},
        }
    )
    return result


def keep_records(variables: dict[str, dict[str, Any]]) -> None:
    for host, section in decided(variables)["hosts"].items():
        records = {
            name: {"digest": digest, "collection": monitoring_decide.code_digest(), "differs": []}
            for name, digest in section["asked"].items()
        }
        variables[host]["ansible_facts"] = {"llm_records": records}


def needed(variables: dict[str, dict[str, Any]], **more: Any) -> dict[str, list[str]]:
    return {host: section["needed"] for host, section in decided(variables, **more)["hosts"].items()}


def test_hosts_whose_records_hold_are_left_out(variables: dict[str, dict[str, Any]]) -> None:
    both = ["monitoring_exporters", "monitoring"]
    assert needed(variables) == {"gpu1": both[:1], "gpu2": both[:1], "watch": both}
    keep_records(variables)
    assert needed(variables) == {"gpu1": [], "gpu2": [], "watch": []}
    variables["localhost"]["llm_full_check"] = "false"  # as --extra-vars brings it
    assert needed(variables) == {"gpu1": [], "gpu2": [], "watch": []}
    variables["localhost"]["llm_full_check"] = "true"
    assert needed(variables) == {"gpu1": both[:1], "gpu2": both[:1], "watch": both}


def test_another_executor_is_other_targets(variables: dict[str, dict[str, Any]]) -> None:
    keep_records(variables)
    assert needed(variables, executor="mp") == {"gpu1": [], "gpu2": [], "watch": ["monitoring"]}


def test_a_run_with_a_limit_leaves_who_watches_alone(variables: dict[str, dict[str, Any]]) -> None:
    assert needed(variables, playing=("gpu1", "watch"))["watch"] == ["monitoring_exporters"]


def test_what_the_last_start_measured_is_for_its_head(variables: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "observations").mkdir()
    variables["gpu1"]["vllm_version"] = "0.8.5"
    assert decided(variables)["figures"] == {"watch": ""}
    keep_records(variables)
    observed = {"prediction": {"kv_cache_tokens": 100}, "truth": {"kv_cache_tokens": 90}}
    (tmp_path / "observations/pair-0.8.5.json").write_text(json.dumps(observed))
    (tmp_path / "observations/pair-0.9.0.json").write_text(json.dumps({"prediction": {"kv_cache_tokens": 1}}))
    assert "llm_measured_kv_cache_tokens 90\n" in decided(variables)["figures"]["gpu1"]
    assert needed(variables) == {"gpu1": ["monitoring_exporters"], "gpu2": [], "watch": []}


def test_a_host_with_an_exporter_of_its_own_is_asked_and_left_alone(variables: dict[str, dict[str, Any]]) -> None:
    variables["gpu2"]["monitoring_exporter_enabled"] = False
    assert needed(variables) == {"gpu1": ["monitoring_exporters"], "watch": ["monitoring_exporters", "monitoring"]}
    assert decided(variables)["exporters"]["gpu2"] == "192.0.2.2:9100"


def test_when_the_bundle_was_made_is_for_who_watches(variables: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    variables["localhost"]["llm_bundle_dir"] = str(tmp_path)
    (tmp_path / "manifest.yml").write_text("")
    os.utime(tmp_path / "manifest.yml", (1.7e9, 1.7e9))
    assert "llm_bundle_written_timestamp_seconds 1700000000\n" in decided(variables)["figures"]["watch"]


def test_a_rule_of_the_site_counts_by_its_content(variables: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    rules = tmp_path / "site.yml"
    rules.write_text("groups: []\n")
    variables["watch"]["monitoring_rules_files"] = [str(rules)]
    keep_records(variables)
    assert needed(variables)["watch"] == []
    rules.write_text("groups: [{name: site, rules: []}]\n")
    assert needed(variables)["watch"] == ["monitoring"]
    rules.unlink()
    with pytest.raises(AnsibleError, match=r"site\.yml"):
        decided(variables)


IMAGE = "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04"


def test_nvidias_exporter_is_a_target_and_something_to_do(variables: dict[str, dict[str, Any]]) -> None:
    keep_records(variables)
    assert {one["exporter"] for one in decided(variables)["gpus"].values()} == {"textfile"}
    variables["gpu2"] |= {"monitoring_dcgm_image": IMAGE, "llm_offline": False}
    found = decided(variables)
    assert found["gpus"]["gpu2"]["container"]["image"] == IMAGE
    assert {host: section["needed"] for host, section in found["hosts"].items()} == {
        "gpu1": [],
        "gpu2": ["monitoring_exporters"],
        "watch": ["monitoring"],
    }
    (file,) = [file for file in found["files"] if file["path"] == "targets/dcgm.json"]
    assert json.loads(file["content"])[0]["targets"] == ["192.0.2.2:9400"]


def test_where_the_site_has_its_own_exporters_nvidias_is_no_target(variables: dict[str, dict[str, Any]]) -> None:
    """Nobody starts it there, so a target would be down for good."""
    image = {"monitoring_dcgm_image": IMAGE, "llm_offline": False}
    variables["gpu1"] |= image
    variables["gpu2"] |= {**image, "monitoring_exporter_enabled": False}
    found = decided(variables)
    (file,) = [file for file in found["files"] if file["path"] == "targets/dcgm.json"]
    assert [at for one in json.loads(file["content"]) for at in one["targets"]] == ["192.0.2.1:9400"]
    assert list(found["gpus"]) == ["gpu1"]


def test_nvidias_exporter_that_is_not_in_the_bundle_is_refused_where_it_is_demanded(
    variables: dict[str, dict[str, Any]],
) -> None:
    variables["gpu2"]["monitoring_dcgm_image"] = IMAGE
    assert decided(variables)["gpus"]["gpu2"]["exporter"] == "textfile"
    variables["gpu2"]["monitoring_gpu_exporter"] = "dcgm"
    with pytest.raises(AnsibleError, match="the bundle does not hold"):
        decided(variables)


def test_grafana_gets_a_password_that_the_controller_keeps(
    variables: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    assert decided(variables)["grafana"] == {}
    variables["watch"] |= {"monitoring_grafana_image": "grafana/grafana:12.0.2", "__monitoring_grafana_there": {}}
    variables["localhost"]["llm_secrets_dir"] = str(tmp_path / "secrets")
    with pytest.raises(AnsibleError, match="does not hold the image of Grafana"):
        decided(variables)
    variables["watch"]["llm_offline"] = False
    found = decided(variables)["grafana"]
    kept = Path(found["password_file"])
    assert kept.stat().st_mode & 0o777 == 0o600
    assert len(kept.read_text().strip()) > 20
    assert kept.read_text().strip() not in json.dumps(found)
    assert decided(variables)["grafana"] == found
    kept.unlink()
    variables["watch"]["monitoring_grafana_admin_password"] = "of the vault"
    assert decided(variables)["grafana"]["container"]["image"] == "grafana/grafana:12.0.2"
    assert not kept.exists()


def test_a_second_controller_adopts_the_password_with_which_grafana_was_set_up(
    variables: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """Grafana keeps that of its first start: one that is made now would open nothing."""
    variables["watch"] |= {"monitoring_grafana_image": "grafana/grafana:12.0.2", "llm_offline": False}
    variables["localhost"]["llm_secrets_dir"] = str(tmp_path)
    kept = tmp_path / "grafana_admin_password"
    decided(variables)
    assert not kept.exists(), "nobody looked at the host that watches"
    for password, known in ((b"of the first\n", "of the first\n"), (b"another", "of the first\n")):
        read = {"content": base64.b64encode(password).decode()}
        variables["watch"] |= {"__monitoring_grafana_there": {}, "__monitoring_grafana_password": read}
        decided(variables)
        assert kept.read_text() == known


def test_another_image_of_the_same_name_in_the_bundle_is_something_to_do(
    variables: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    grafana = "grafana/grafana:12.0.2"
    variables["localhost"]["llm_secrets_dir"] = str(tmp_path / "secrets")
    variables["gpu2"] |= {"monitoring_dcgm_image": IMAGE, "llm_bundle_dir": str(tmp_path)}
    more = {"monitoring_grafana_image": grafana, "monitoring_grafana_admin_password": "of the vault"}
    variables["watch"] |= {**more, "llm_bundle_dir": str(tmp_path)}

    def bundle(written: int, **ids: str) -> None:
        images = [{"reference": name, "id": ids[key]} for key, name in (("dcgm", IMAGE), ("grafana", grafana))]
        record = {"path": "images.tar", "kind": "image", "size": 1, "sha256": "0" * 64, "images": images}
        (tmp_path / "manifest.yml").write_text(json.dumps({"schema": 1, "files": [record]}))
        os.utime(tmp_path / "manifest.yml", (written, written))

    bundle(1, dcgm="sha256:1", grafana="sha256:2")
    keep_records(variables)
    assert needed(variables) == {"gpu1": [], "gpu2": [], "watch": []}
    bundle(2, dcgm="sha256:1", grafana="sha256:3")
    assert needed(variables) == {"gpu1": [], "gpu2": [], "watch": ["monitoring"]}
    bundle(3, dcgm="sha256:4", grafana="sha256:2")
    assert needed(variables) == {"gpu1": [], "gpu2": ["monitoring_exporters"], "watch": []}


def test_a_host_that_hands_its_logs_over_has_something_to_do(variables: dict[str, dict[str, Any]]) -> None:
    keep_records(variables)
    variables["gpu2"] |= {"monitoring_logs_kind": "loki", "monitoring_logs_url": "http://192.0.2.40:3100"}
    assert needed(variables) == {"gpu1": [], "gpu2": ["monitoring_exporters"], "watch": []}
    assert [host for host, text in decided(variables)["shipping"].items() if text] == ["gpu2"]
