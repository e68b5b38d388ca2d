"""gather on this machine, with a tree of /sys that has a GPU, and with programs that print what a host's would."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.modules import gather

from lab.sim.hardware import hardware, pci_tree
from tests.support.modules import run_module

ZONES = "public (active)\n  services: ssh\n\ntrusted\n  target: ACCEPT\n"


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def facts(root: Path, check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
    for path, text in pci_tree(hardware("gpu01", "Tesla V100-PCIE-16GB", 1)).items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    result = run_module("gather", root / "bin", {"sysfs_root": str(root / "sys"), **arguments}, check_mode)
    assert 0 < result["worked_seconds"] < result["time"]
    found: dict[str, Any] = result["ansible_facts"]
    return found


@pytest.mark.parametrize("check_mode", [False, True])
def test_all_in_one_go(tmp_path: Path, check_mode: bool) -> None:
    program(tmp_path / "bin/systemctl", "exit 3")
    found = facts(tmp_path, check_mode)
    assert (found["ansible_architecture"], found["ansible_kernel"]) == (platform.machine(), platform.release())
    names = [
        "distribution",
        "distribution_version",
        "distribution_major_version",
        "os_family",
        "pkg_mgr",
        "service_mgr",
    ]
    assert all(found[f"ansible_{name}"] for name in names)
    assert [gpu["name"] for gpu in found["llm_gpus_found"]] == ["Tesla V100-PCIE-16GB"]
    assert (found["llm_gpu"]["gpus"], found["llm_gpu"]["source"]) == (found["llm_gpus_found"], "pci")
    assert (found["llm_gpu_p2p"], found["llm_gpu_fabric"]) == (found["llm_gpu"]["p2p"], found["llm_gpu"]["fabric"])
    assert (found["llm_nics_found"], found["llm_rdma_found"]) == ([], []), "none in that tree"
    assert found["llm_dynamic_ports"]["first"] < found["llm_dynamic_ports"]["last"]
    assert all(isinstance(port, int) for port in found["llm_ssh_ports"] + found["llm_foreign_ports"])
    assert found["llm_memory_mib"] == found["llm_host"]["memory"]["total_mib"] > 0
    assert found["llm_host"]["kernel"] == platform.release()
    assert found["llm_disks"] == []
    assert found["llm_firewall"]["firewalld"] == {"running": False, "default_zone": "", "zones": ""}
    assert found["llm_network_state"] == {}
    assert found["llm_container_engine"] is None or set(found["llm_container_engine"]) == {"containers", "images"}


def test_this_machine_has_a_network() -> None:
    found = gather.network("/sys")
    assert "lo" in [interface["name"] for interface in found["llm_nics_found"]]


@pytest.mark.slow
def test_firewalld_that_runs(tmp_path: Path) -> None:
    program(tmp_path / "bin/systemctl", 'test "$*" = "is-active firewalld.service"')
    program(
        tmp_path / "bin/firewall-cmd", f"case $1 in --get-default-zone) echo public;; *) printf '{ZONES}\\n\\n';; esac"
    )
    assert facts(tmp_path)["llm_firewall"]["firewalld"] == {
        "running": True, "default_zone": "public", "zones": ZONES.rstrip(),
    }  # fmt: skip


def test_firewalld_whose_rules_cannot_be_read(tmp_path: Path) -> None:
    program(tmp_path / "bin/systemctl", "exit 0")
    program(tmp_path / "bin/firewall-cmd", "echo 'FirewallD is not running' >&2; exit 252")
    with pytest.raises(AssertionError, match="FirewallD is not running"):
        facts(tmp_path)


@pytest.mark.parametrize(
    ("settings", "enabled"), [("# ufw\nENABLED=yes\n", True), ("ENABLED=no\n", False), ("#ENABLED=yes\n", False)]
)
def test_ufw(tmp_path: Path, settings: str, enabled: bool) -> None:
    path, defaults = tmp_path / "ufw.conf", tmp_path / "default"
    assert gather.ufw(str(path), str(defaults)) == {"enabled": False, "default_input": ""}
    path.write_text(settings)
    defaults.write_text('IPV6=yes\nDEFAULT_INPUT_POLICY="ACCEPT"\nDEFAULT_OUTPUT_POLICY="DROP"\n')
    assert gather.ufw(str(path), str(defaults)) == {"enabled": enabled, "default_input": "ACCEPT"}


@pytest.mark.parametrize(
    ("text", "state"), [('{"network": "10.0.0.0/24"}', {"network": "10.0.0.0/24"}), ("{", {}), ("[]", {})]
)
def test_what_earlier_runs_decided(tmp_path: Path, text: str, state: dict[str, Any]) -> None:
    path = tmp_path / "state.json"
    assert gather.network_state(str(path)) == {}
    path.write_text(text)
    assert gather.network_state(str(path)) == state


def test_what_the_probe_says(tmp_path: Path) -> None:
    said = {"kind": "crashing", "said": "crashing: 3 starts", "starts": 3, "causes": ["ValueError: no"]}
    path = tmp_path / "state.json"
    for text in ("", "{", "[]", '{"form": 2}', '{"llm-vllm": {"kind": "loading"}}'):
        path.write_text(text)
        assert gather.probe_state(str(path)) == {}
    path.write_text(json.dumps({"form": 2, "llm-vllm": {**said, "counters": {"tokens": 1}}}))
    assert gather.probe_state(str(path)) == said
    path.unlink()
    assert gather.probe_state(str(path)) == {}


def test_disks_and_the_state_that_a_task_names(tmp_path: Path) -> None:
    program(tmp_path / "bin/systemctl", "exit 3")
    (tmp_path / "state.json").write_text(json.dumps({"network": "10.0.0.0/24"}))
    needs = [{"directory": "{docker_root}", "bytes": 7}, {"directory": str(tmp_path / "not/there"), "bytes": 1}]
    found = facts(tmp_path, needs=needs, docker_root=str(tmp_path / "docker"), state_file=str(tmp_path / "state.json"))
    (disk,) = found["llm_disks"]
    assert disk["needs"] == {str(tmp_path / "docker"): 7, str(tmp_path / "not/there"): 1}
    assert found["llm_network_state"] == {"network": "10.0.0.0/24"}


def test_processes_on_the_gpus(tmp_path: Path) -> None:
    program(tmp_path / "bin/systemctl", "exit 3")
    program(tmp_path / "bin/nvidia-smi", 'case "$*" in *compute-apps*) echo "1, init, 500";; *) exit 9;; esac')
    found = facts(tmp_path)["llm_host"]["gpu_processes"]
    assert found == [{"pid": 1, "process": "init", "used_mib": 500, "container": ""}]


@pytest.mark.slow
def test_a_call_that_asks_for_less_takes_nothing_back(tmp_path: Path) -> None:
    """The role network looks again in the middle of a run: what is known of other runs and of records has to stay known."""
    assert not {"llm_lock", "llm_records"} & set(facts(tmp_path))
    found = facts(tmp_path, lock_file=str(tmp_path / "lock.json"), records_dir=str(tmp_path / "records"))
    assert (found["llm_lock"]["given_back"], found["llm_records"]) == (0, {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "beside", "expected"),
    [
        ("echo 0.11.0; echo vllm; echo", True, {"version": "0.11.0", "ray": ""}),
        ("echo 0.11.0; echo vllm; echo 2.48.0", True, {"version": "0.11.0", "ray": "2.48.0"}),
        ("echo 0.3.0; echo; echo 2.9.2", False, {"version": "0.3.0", "ray": "2.9.2"}),
        ("echo 0.11.0; echo vllm", False, {"error": "no program {folder}/env/vllm"}),
        ("echo 'PackageNotFoundError: vllm' >&2; exit 1", True, {"error": "PackageNotFoundError: vllm"}),
        ("exit 3", True, {"error": "it ends with status 3"}),
    ],
)
def test_the_release_of_an_environment(tmp_path: Path, text: str, beside: bool, expected: dict[str, str]) -> None:
    program(tmp_path / "env/python3", text)
    if beside:
        program(tmp_path / "env/vllm", "")
    found = facts(tmp_path, python=str(tmp_path / "env/python3"), package="vllm")["llm_environment"]
    assert found == {name: said.format(folder=tmp_path) for name, said in expected.items()}


@pytest.mark.slow
def test_an_environment_that_is_not_there(tmp_path: Path) -> None:
    assert "llm_environment" not in facts(tmp_path), "who does not ask for it takes nothing back"
    assert facts(tmp_path, python="/nonexistent/python3", package="vllm")["llm_environment"] == {
        "error": "no such program"
    }


def test_units_that_run_the_server_are_found(tmp_path: Path) -> None:
    for name in ("llm-vllm.service", "llm-vllm-one.service", "llm-ray.service", "llm-probe.service"):
        (tmp_path / name).write_text(f"{gather.MADE}\n[Unit]\n")
    (tmp_path / "llm-vllm-x.service").write_text("# somebody else's\n[Unit]\n")
    assert gather.server_units(str(tmp_path)) == ["llm-ray", "llm-vllm", "llm-vllm-one"]


@pytest.mark.slow
def test_the_python_on_which_an_environment_is_made(tmp_path: Path) -> None:
    assert "llm_base_python" not in facts(tmp_path)
    found = facts(tmp_path, base_python=sys.executable)["llm_base_python"]
    assert found == {"python": "{0}.{1}".format(*sys.version_info[:2]), "glibc": platform.libc_ver()[1]}
    assert facts(tmp_path, base_python="/nonexistent/python3")["llm_base_python"] == {"error": "no such program"}
    for text, error in (
        ("echo broken >&2; exit 1", "broken"),
        ("exit 3", "it ends with status 3"),
        ("echo 3.10", "3.10"),
    ):
        program(tmp_path / "base/python3", text)
        assert facts(tmp_path, base_python=str(tmp_path / "base/python3"))["llm_base_python"] == {"error": error}


@pytest.mark.slow
def test_environments_that_were_made_are_found(tmp_path: Path) -> None:
    assert "llm_made_environments" not in facts(tmp_path)
    asked = {"records_dir": str(tmp_path / "records"), "host_dir": str(tmp_path / "llm")}
    assert facts(tmp_path, **asked)["llm_made_environments"] == []
    (tmp_path / "llm/venvs/0.3.0-abc").mkdir(parents=True)
    assert facts(tmp_path, **asked)["llm_made_environments"] == ["0.3.0-abc"]
