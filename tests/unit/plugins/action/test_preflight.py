"""Preflight as ansible-playbook runs it, on this machine under several names: what is gathered, checked and left for later plays."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.sim.hardware import hardware, pci_tree
from tests.support.playbooks import playbook

# Playbooks in processes.
pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[4]
SHOW = """
- name: Preflight
  ansible.builtin.import_playbook: {playbook}
- name: Show
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Show
      ansible.builtin.debug:
        msg: "RESULT {{{{ hostvars | dict2items | rejectattr('key', 'eq', 'localhost') | items2dict | to_json }}}}"
"""
INVENTORY: dict[str, Any] = {
    "all": {
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
        "children": {
            "llm_deployments": {
                "children": {
                    "qwen": {"hosts": {"gpu01": None, "gpu02": None}},
                    "other": {"hosts": {"gpu03": None}},
                },
                "vars": {
                    "vllm_model": "org/a",
                    "vllm_version": "0.8.5",
                    "llm_offline": False,
                    "preflight_bundle_required": False,
                },
            }
        },
    }
}
# What depends on the machine that the test runs on, and that all hosts are this machine.
ELSEWHERE = ("system_not_supported", "architecture_not_supported", "kernel_too_old", "same_address", "disk_too_small")
ELSEWHERE += ("memory_too_small", "memory_below_weights", "shm_too_small", "port_taken", "service_foreign", "gpu_busy")
ELSEWHERE += (
    "no_shared_network",
    "host_name_unknown",
    "host_name_elsewhere",
    "hosts_same_machine_id",
    "hosts_same_name",
)
ELSEWHERE += ("host_in_wsl", "host_in_container", "cpu_features_missing", "kernel_locked", "numa_balancing_on")
ELSEWHERE += (
    "hugepages_reserved",
    "clock_unsynchronized",
    "resolver_missing",
    "packet_filters_mixed",
    "inodes_too_few",
)
ELSEWHERE += ("package_sources_conflict", "reboot_by_upgrades", "gpus_given_by_others", "engine_too_old")
ELSEWHERE += ("driver_blocked", "driver_options")
ELSEWHERE += (
    "kernel_settings_unfit",
    "kernel_table_full",
    "files_immutable",
    "cpu_isolated",
    "dkms_broken",
    "reboot_unsafe",
)
ELSEWHERE += ("package_source_unusable", "package_sources_none", "package_database_broken", "packages_excluded")
ELSEWHERE += (
    "proxy_silent",
    "packet_filter_refuses",
    "host_dir_filesystem",
    "engine_mirror_gone",
    "containers_renewed",
)
ELSEWHERE += ("engine_authorization", "engine_login_helper_missing", "toolkit_settings", "bond_not_aggregated")


class Workplace:
    """A folder with an inventory; its hosts have one GPU each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for path, text in pci_tree(hardware("gpu01", "Tesla V100-PCIE-16GB", 1)).items():
            self.write(path.lstrip("/"), text)
        self.write("inventory/hosts.yml", yaml.safe_dump(INVENTORY))
        self.write("play.yml", SHOW.format(playbook=REPOSITORY / "playbooks/preflight.yml"))

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def bundle(self) -> Path:
        content = b"x" * 1000
        record = {"path": "models/a/w", "kind": "model", "size": 1000, "sha256": hashlib.sha256(content).hexdigest()}
        image = {"path": "images/i", "kind": "image", "size": 1000, "sha256": record["sha256"]}
        known = {"reference": "vllm/vllm-openai:v0.8.5", "id": "sha256:0", "vllm_version": "0.8.5"}
        files = [{**record, "model": "org/a"}, {**image, "images": [known]}]
        self.write("bundle/manifest.yml", json.dumps({"schema": 1, "files": files}))
        for file in files:
            self.write(f"bundle/{file['path']}", content.decode())
        return self.root / "bundle"

    def play(self, *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        said = {
            "preflight_sysfs_root": str(self.root / "sys"),
            "preflight_severities": dict.fromkeys(ELSEWHERE, "ignore"),
            **variables,
        }
        done = playbook("-i", self.root / "inventory", self.root / "play.yml", "-e", json.dumps(said), *arguments)
        done.stdout += done.stderr
        return done

    def hosts(self, *arguments: str, **variables: Any) -> Mapping[str, Any]:
        """The variables of the hosts after a run that found nothing wrong."""
        done = self.play(*arguments, **variables)
        assert done.returncode == 0, done.stdout
        assert set(re.findall(r"changed=(\d+)", done.stdout)) == {"0"}
        (shown,) = re.findall(r'^    "msg": "RESULT (.*)"$', done.stdout, re.MULTILINE)
        hosts: Mapping[str, Any] = json.loads(json.loads(f'"{shown}"'))
        return hosts


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


@pytest.fixture
def report(workplace: Workplace) -> Path:
    return workplace.root / "inventory/.llm/reports/preflight.json"


def test_hosts_with_a_bundle(workplace: Workplace, report: Path) -> None:
    bundle = str(workplace.bundle())
    where = {"llm_host_dir": str(workplace.root / "llm"), "docker_data_root": str(workplace.root / "docker")}
    hosts = workplace.hosts(llm_offline=True, llm_bundle_dir=bundle, preflight_bundle_required=True, **where)
    assert {name: host["llm_deployment"] for name, host in hosts.items()} == {
        "gpu01": "qwen", "gpu02": "qwen", "gpu03": "other",
    }  # fmt: skip
    for host in hosts.values():
        facts = host["ansible_facts"]
        (disk,) = facts["llm_disks"]
        assert disk["needs"] == {where["docker_data_root"]: 2000, where["llm_host_dir"]: 2000}
        # They have one clock; what the module itself takes is not counted as doubt.
        clock = facts["llm_host"]["clock"]
        assert abs(clock["offset_seconds"]) <= clock["uncertainty_seconds"]
        assert [gpu["name"] for gpu in facts["llm_gpus_found"]] == ["Tesla V100-PCIE-16GB"]
        assert {"llm_interface", "ansible_distribution"} <= set(host)
    assert json.loads(report.read_text())["ok"]


@pytest.mark.parametrize("answers", [True, False])
def test_a_run_with_limit(workplace: Workplace, report: Path, answers: bool) -> None:
    if not answers:
        variables = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
        workplace.write("inventory/host_vars/gpu01.yml", json.dumps(variables))
    hosts = workplace.hosts("--limit", "gpu02,localhost", "--check")
    assert hosts["gpu02"]["llm_deployment"] == "qwen"
    assert hosts["gpu01"].get("llm_deployment") == ("qwen" if answers else None)
    assert ("llm_gpu" in hosts["gpu01"]["ansible_facts"]) is answers
    assert "llm_gpu" not in hosts["gpu03"]["ansible_facts"], "another deployment"
    assert not report.exists(), "check mode"


def test_hosts_tell_of_secrets_what_they_are_to_the_controller(workplace: Workplace) -> None:
    values = {"gpu01": "correct-horse", "gpu02": "battery-staple", "gpu03": "s3cret-of-gpu03"}
    for host, value in values.items():
        workplace.write(f"{host}/secrets/ray_token", value)
        workplace.write(f"inventory/host_vars/{host}.yml", json.dumps({"llm_host_dir": str(workplace.root / host)}))
    workplace.write("inventory/.llm/secrets/qwen_ray_token", "correct-horse\n")
    show = """
- ansible.builtin.import_playbook: {playbook}
- hosts: llm_deployments
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "{{{{ inventory_hostname }}}} {{{{ ansible_facts['llm_secrets'] }}}} {{{{ __preflight_secrets.results | length }}}}"
"""
    workplace.write("play.yml", show.format(playbook=REPOSITORY / "playbooks/preflight.yml"))
    done = workplace.play("-vvv", "--check", "--diff")
    assert done.returncode == 0, done.stdout
    said = {host: re.findall(rf'"msg": "{host} (.*)"', done.stdout) for host in values}
    assert said == {
        "gpu01": ["{'ray_token': 'same'} 0"],
        "gpu02": ["{'ray_token': 'differs'} 0"],
        "gpu03": ["{'ray_token': 'unknown'} 1"],
    }
    for value in values.values():
        shapes = (value, base64.b64encode(value.encode()).decode(), hashlib.sha256(value.encode()).hexdigest())
        assert not [shape for shape in shapes if shape in done.stdout]
    assert os.listdir(workplace.root / "inventory/.llm/secrets") == ["qwen_ray_token"], "check mode"


def test_what_is_wrong_is_told_at_once(workplace: Workplace, report: Path) -> None:
    severities = {**dict.fromkeys(ELSEWHERE, "ignore"), "kernel_too_old": "warning"}
    done = workplace.play(llm_cluster_interface="ib7", preflight_kernel_minimum="99.1", preflight_severities=severities)
    assert done.returncode == 2, done.stdout
    assert "3 problems with the hosts. Nothing has been changed." in done.stdout
    # All have the same kernel, so that is said once.
    assert "One warning about the hosts." in done.stdout
    # The head comes first.
    assert "The kernel of the host gpu03 is older than 99.1." in done.stdout
    assert "The same is true of gpu01, gpu02." in done.stdout
    assert "The kernel of the host gpu01" not in done.stdout
    for host in ("gpu01", "gpu02", "gpu03"):
        assert f"The interface ib7 is not on the host {host}." in done.stdout
    assert "llm_cluster_interface: ib7" in done.stdout
    assert "RESULT" not in done.stdout
    found = json.loads(report.read_text())
    assert (found["ok"], found["errors"], found["warnings"]) == (False, 3, 3)
