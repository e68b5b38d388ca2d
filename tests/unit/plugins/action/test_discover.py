"""discover, played: what was gathered of hosts becomes an inventory in the folder of whoever runs it, which plans as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.playbooks import ROOT, playbook

RTX4090 = {"name": "NVIDIA GeForce RTX 4090", "memory_mib": 24564, "compute_capability": "8.9"}
A6000 = {"name": "NVIDIA RTX A6000", "memory_mib": 49140, "compute_capability": "8.6"}
MODEL = "Qwen/Qwen2.5-14B-Instruct"


def facts(gpus: list[dict[str, Any]], release: str, driver: str = "", docker: str = "") -> dict[str, Any]:
    """As the module gather says them of an Ubuntu host with internet."""
    return {
        "distribution": "Ubuntu",
        "distribution_version": release,
        "llm_gpus_found": gpus,
        "llm_gpu": {"driver": {"loaded": driver}},
        "llm_memory_mib": 257000,
        "llm_host": {"kernel": "6.8.0-51-generic"},
        "llm_discovered": {
            "versions": {"docker": docker, "toolkit": ""},
            "disks": [{"path": "/opt", "available_bytes": 900 << 30}],
            "reached": ["https://huggingface.co"],
            "models": [],
        },
    }


HOSTS = {
    "192.0.2.1": facts([RTX4090] * 4, "22.04", "550.90.07", "28.1.1"),
    "192.0.2.2": facts([RTX4090] * 4, "22.04"),
    "192.0.2.3": facts([A6000] * 2, "24.04"),
    "192.0.2.4": facts([A6000] * 2, "24.04"),
}


def play(folder: Path, known: dict[str, dict[str, Any]], *arguments: str) -> tuple[int, str]:
    """The action on what is known of these hosts, in a folder."""
    (folder / "known.json").write_text(json.dumps(known), encoding="utf-8")
    tasks = [
        {
            "ansible.builtin.add_host": {
                "name": "{{ item }}",
                "groups": ["found"],
                "ansible_user": "ubuntu",
                "ansible_become": True,
            },
            "loop": list(HOSTS),
        },
        {
            "ansible.builtin.set_fact": {
                "cacheable": True,
                **{name: f"{{{{ known[item].{name} }}}}" for name in facts([], "")},
            },
            "vars": {"known": known},
            "when": "item in known",
            "loop": list(known),
            "delegate_to": "{{ item }}",
            "delegate_facts": True,
        },
        {"baremetal.llm.discover": {"hosts": list(HOSTS), "dest": "inventories/fleet", "model": MODEL}},
    ]
    (folder / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]), encoding="utf-8"
    )
    environment = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PWD": str(folder)}
    done = playbook("play.yml", *arguments, cwd=folder, environment=environment)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_four_hosts_with_two_kinds_of_gpus_get_an_inventory_that_plans(tmp_path: Path) -> None:
    site = {"docker_repository_url": "https://mirror.example/docker", "bundle_huggingface_token": "hf_of-nobody"}
    status, said = play(tmp_path, HOSTS, "-e", json.dumps(site))
    assert status == 0, said
    assert "Written: inventories/fleet" in said
    inventory = tmp_path / "inventories" / "fleet"
    settings = yaml.safe_load((inventory / "group_vars/all.yml").read_text(encoding="utf-8"))
    assert settings["llm_offline"] is False
    # Mirrors are the fleet's; a secret is not for such a file.
    assert settings["docker_repository_url"] == "https://mirror.example/docker"
    assert "bundle_huggingface_token" not in settings
    assert "llm_registry_mirrors" not in settings
    assert settings["ansible_become"] is True
    assert not [name for name in settings if name.endswith("_method")]
    done = playbook("playbooks/plan.yml", "-i", inventory)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(" on ")[1] for line in done.stdout.splitlines() if ": starts. " in line] == [
        "1 x 4 NVIDIA GeForce RTX 4090.",
        "1 x 4 NVIDIA GeForce RTX 4090.",
        "1 x 2 NVIDIA RTX A6000.",
        "1 x 2 NVIDIA RTX A6000.",
    ]
    # Again: what is there stays.
    before = {path: path.read_bytes() for path in inventory.rglob("*.yml")}
    status, said = play(tmp_path, {**HOSTS, "192.0.2.4": facts([A6000], "24.04")})
    assert status == 0, said
    assert "exists and stays as it is" in said
    assert {path: path.read_bytes() for path in inventory.rglob("*.yml")} == before


@pytest.mark.slow
def test_one_host_that_does_not_answer_keeps_the_inventory_from_being_written(tmp_path: Path) -> None:
    status, said = play(tmp_path, {name: found for name, found in HOSTS.items() if name != "192.0.2.3"})
    assert status != 0
    assert "192.0.2.3 does not answer" in said
    assert "Traceback" not in said
    assert not (tmp_path / "inventories").exists()


@pytest.mark.slow
def test_gpus_that_vllm_does_not_serve_are_told_which_engine_does(tmp_path: Path) -> None:
    p40 = {"name": "Tesla P40", "memory_mib": 24576, "compute_capability": "6.1"}
    status, said = play(tmp_path, {name: facts([p40], "22.04") for name in HOSTS})
    assert status != 0
    assert f"{MODEL} by engine and format, on hosts with 1 x Tesla P40 each (number of hosts: 4)" in said
    assert "\nllama.cpp  Q8_0 " in said
    assert "Traceback" not in said
    assert not (tmp_path / "inventories").exists()
