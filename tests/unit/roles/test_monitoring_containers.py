"""With what the containers of the role monitoring are started: its own tasks with its own variables, of which only the call of the engine is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.dcgm import gpu_exporter
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.grafana import grafana

from tests.support.playbooks import playbook
from tests.support.roles import ROLES, tasks_of

# Playbooks in processes.
pytestmark = pytest.mark.slow

ROLE = ROLES / "monitoring"
MODULE = "community.docker.docker_container"
DCGM = "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04"
GRAFANA = "grafana/grafana:12.0.2"
SETTINGS = {
    "monitoring_mode": "full",
    "monitoring_dir": "/etc/llm-monitoring",
    "monitoring_listen_address": "127.0.0.1",
    "monitoring_grafana_image": GRAFANA,
    "monitoring_grafana_port": 3000,
}


def started(folder: Path, file: str, offline: bool) -> dict[str, Any]:
    """What the engine would be asked for."""
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    gpus = {"localhost": gpu_exporter("localhost", {"ansible_host": "192.0.2.1", "monitoring_dcgm_image": DCGM}, None)}
    decided = {"gpus": gpus, "grafana": {"container": grafana(SETTINGS), "digest": "of its files"}}
    common = yaml.safe_load((ROLES / "common/vars/main.yml").read_text(encoding="utf-8"))
    compared = "_llm_container_comparisons"
    variables |= {"_monitoring_decided": decided, "llm_offline": offline, compared: common[compared]}
    (asked,) = [task[MODULE] for task in tasks_of(ROLE / "tasks" / file) if MODULE in task]
    # Without GPUs that are described to the engine no device is named, and JSON has no word for what a task omits.
    call = {name: value for name, value in asked.items() if "omit" not in str(value)}
    write = {"ansible.builtin.copy": {"content": "{{ __asked | to_json }}", "dest": str(folder / "asked.json")}}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {**variables, "ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "tasks": [{**write, "vars": {"__asked": call}}],
    }
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    done = playbook(folder / "play.yml", "-i", "localhost,", "-c", "local")
    assert done.returncode == 0, done.stdout
    found: dict[str, Any] = json.loads((folder / "asked.json").read_text())
    return found


@pytest.mark.parametrize(
    ("file", "image", "runtime"),
    [("dcgm.yml", DCGM, "nvidia"), ("grafana.yml", GRAFANA, None)],
    ids=["dcgm", "grafana"],
)
def test_it_has_no_rights_and_is_kept_small(tmp_path: Path, file: str, image: str, runtime: str | None) -> None:
    found = started(tmp_path, file, offline=True)
    assert (found["image"], found["pull"], found.get("runtime")) == (image, "never", runtime)
    assert found["cap_drop"] == ["ALL"]
    assert not found.get("capabilities")
    assert "privileged" not in found
    assert found["security_opts"] == ["no-new-privileges"]
    assert (found["network_mode"], found["memory"], found["restart_policy"]) == ("host", "512M", "unless-stopped")
    assert all(isinstance(value, str) for value in found["env"].values())
    assert len(found["labels"]) == 1
    assert started(tmp_path, file, offline=False)["pull"] == "missing"


def test_nvidias_exporter_listens_where_it_is_asked(tmp_path: Path) -> None:
    found = started(tmp_path, "dcgm.yml", offline=True)
    assert found["command"][found["command"].index("--address") + 1] == "192.0.2.1:9400"
    (volume,) = found["volumes"]
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    assert volume.split(":")[0] == variables["_monitoring_dcgm_counters"]
    assert found["name"] == variables["_monitoring_dcgm_container"]


@pytest.mark.parametrize("known", [False, True], ids=["a second controller", "the first controller"])
def test_the_password_of_grafana_is_read_only_where_the_controller_has_none(tmp_path: Path, known: bool) -> None:
    (tmp_path / "admin_password").write_text("0123456789")
    (tmp_path / "secrets").mkdir()
    if known:
        (tmp_path / "secrets/grafana_admin_password").touch()
    looks = list(tasks_of(ROLE / "tasks/grafana_password.yml"))
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    variables |= {"_monitoring_grafana_dir": str(tmp_path), "llm_secrets_dir": str(tmp_path / "secrets")}
    variables |= {"monitoring_grafana_image": GRAFANA, "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    said = "{{ __monitoring_grafana_password.content | default('') | b64decode }}"
    write = {"ansible.builtin.copy": {"content": said, "dest": str(tmp_path / "read")}}
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [*looks, write]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = playbook(tmp_path / "play.yml", "-i", "localhost,", "-c", "local")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "read").read_text() == ("" if known else "0123456789")


@pytest.mark.parametrize(("address", "there"), [("127.0.0.1", "127.0.0.1"), ("fd00::5", "[fd00::5]")])
def test_an_address_stands_before_a_port_as_it_has_to(tmp_path: Path, address: str, there: str) -> None:
    """In the addresses that tasks ask, and in the options that say where a program listens."""
    files = [ROLE / "defaults/main.yml", ROLE / "vars/main.yml"]
    variables = {key: value for file in files for key, value in yaml.safe_load(file.read_text()).items()}
    variables |= {"monitoring_listen_address": address, "monitoring_address": "192.0.2.1"}
    module = "baremetal.llm.wait"
    tasks = [task for file in ("main.yml", "grafana.yml") for task in tasks_of(ROLE / "tasks" / file)]
    asked = [task[module]["args"]["url"] for task in tasks if module in task]
    texts = {"urls": "\n".join(asked)}
    for name in ("prometheus", "prometheus-alertmanager"):
        texts[name] = (
            (ROLE / f"templates/{name}.conf.j2").read_text(encoding="utf-8").replace("# {{ ansible_managed }}", "")
        )
    writes = [
        {"ansible.builtin.template": {"src": str(tmp_path / f"{name}.j2"), "dest": str(tmp_path / name)}}
        for name in texts
    ]
    for name, text in texts.items():
        (tmp_path / f"{name}.j2").write_text(text)
    variables["ansible_python_interpreter"] = "{{ ansible_playbook_python }}"
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": writes}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = playbook(tmp_path / "play.yml", "-i", "localhost,", "-c", "local")
    assert done.returncode == 0, done.stdout
    urls = (tmp_path / "urls").read_text().splitlines()
    assert urls == [f"http://{there}:9090/-/ready", f"http://{there}:3000/api/health"]
    assert f"--web.listen-address={there}:9090 " in (tmp_path / "prometheus").read_text()
    assert f"--web.listen-address={there}:9093 " in (tmp_path / "prometheus-alertmanager").read_text()
