"""gpu_facts on hosts with and without a driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.sim.hardware import hardware, pci_tree
from lab.sim.runfile import build_runfile
from tests.support.modules import REPOSITORY, run_module

CAPTURES = REPOSITORY / "tests/data/nvidia_smi"
SMI = """#!/bin/sh
case "$*" in
*query-gpu=*compute_cap*) {query} ;;
*query-gpu=*) cat {folder}/old.csv ;;
"topo -m") cat {captures}/topo.txt ;;
"-q -x") cat {captures}/smi.xml ;;
*) exit 1 ;;
esac
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with one V100 on the PCI bus and no driver."""
    for path, text in pci_tree(hardware("gpu01", "Tesla V100-PCIE-16GB", 1)).items():
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (tmp_path / "bin").mkdir()
    return tmp_path


def gpu_facts(host: Path, check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
    roots = {"sysfs_root": str(host / "sys"), "proc_root": str(host / "proc")}
    result = run_module("gpu_facts", host / "bin", {**roots, **arguments}, check_mode)
    assert result["ansible_facts"]["llm_gpus_found"] == result["gpu_facts"]["gpus"]
    found: dict[str, Any] = result["gpu_facts"]
    return found


def smi(host: Path, query: str) -> None:
    program = host / "bin/nvidia-smi"
    program.write_text(SMI.format(query=query, folder=host, captures=CAPTURES))
    program.chmod(0o755)


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_bare_host(host: Path, check_mode: bool) -> None:
    facts = gpu_facts(host, check_mode)
    assert facts["source"] == "pci"
    assert facts["gpus"][0]["name"] == "Tesla V100-PCIE-16GB"


def test_a_host_with_a_driver(host: Path) -> None:
    smi(host, f"cat {CAPTURES}/query.csv")
    (host / "proc/driver/nvidia").mkdir(parents=True)
    (host / "proc/driver/nvidia/version").write_text((CAPTURES / "procversion.txt").read_text())
    facts = gpu_facts(host)
    assert facts["source"] == "nvidia-smi"
    assert [gpu["name"] for gpu in facts["gpus"]] == ["NVIDIA H200"] * 2
    assert facts["topology"]["GPU0"] == {"GPU1": "NV18"}
    assert facts["p2p"]["GPU0"] == {"GPU1": True}
    assert facts["gpus"][1]["link"]["width"] == 16
    assert facts["problems"] == []
    assert facts["driver"]["loaded"] == "580.159.04"


def test_an_old_driver_that_knows_no_compute_capability(host: Path) -> None:
    smi(host, "echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2")
    (host / "old.csv").write_text(
        "index, uuid, name, memory.total [MiB], pci.bus_id\n0, GPU-1, Tesla V100-PCIE-16GB, 16160 MiB, 00000000:3B:00.0\n"
    )
    (gpu,) = gpu_facts(host)["gpus"]
    assert (gpu["memory_mib"], gpu["compute_capability"]) == (16160, "7.0")


def test_a_driver_that_is_not_loaded(host: Path) -> None:
    smi(host, "echo 'NVIDIA-SMI has failed because it could not communicate'; exit 9")
    facts = gpu_facts(host)
    assert facts["source"] == "pci"
    assert [entry["code"] for entry in facts["problems"]] == ["nvidia_smi_failed"]
    assert "has failed" in facts["problems"][0]["detail"]


def test_the_host_of_the_lab_answers_all_of_it(tmp_path: Path, host: Path) -> None:
    """Its stand-in of nvidia-smi, asked by the module."""
    root = tmp_path / "lab"
    (root / "etc/lab").mkdir(parents=True)
    content = hardware("gpu01", "Tesla V100-SXM2-16GB", 2)
    content["gpus"][1]["fields"] = {
        "pcie.link.width.current": "8",
        "ecc.errors.uncorrected.volatile.total": "2",
        "retired_pages.pending": "Yes",
        "temperature.gpu": "90",
        "clocks_event_reasons.hw_thermal_slowdown": "Active",
    }
    (root / "etc/lab/hardware.json").write_text(json.dumps(content))
    runfile = build_runfile("570.195.03", tmp_path)
    environment = {**os.environ, "LAB_ROOT": str(root)}
    subprocess.run(["sh", runfile, "--silent"], env=environment, check=True, capture_output=True)
    program = host / "bin/nvidia-smi"
    program.write_text(f'#!/bin/sh\nLAB_ROOT={root} exec {sys.executable} {root}/usr/bin/nvidia-smi "$@"\n')
    program.chmod(0o755)
    facts = gpu_facts(host)
    well, ill = facts["gpus"]
    assert facts["source"] == "nvidia-smi"
    assert facts["p2p"] == {"GPU0": {"GPU1": True}, "GPU1": {"GPU0": True}}
    assert facts["problems"] == []
    assert well["link"] == {"generation": 3, "generation_max": 3, "width": 16, "width_max": 16}
    assert well["ecc"]["volatile"] == {"corrected": 0, "uncorrected": 0}
    assert well["throttle_reasons"] == []
    assert (ill["link"]["width"], ill["ecc"]["volatile"]["uncorrected"], ill["temperature_celsius"]) == (8, 2, 90)
    assert ill["retired_pages"]["pending"] is True
    assert ill["throttle_reasons"] == ["hw_thermal_slowdown"]


def test_one_that_hangs_is_ended(host: Path) -> None:
    smi(host, "sleep 30")
    facts = gpu_facts(host, timeout_seconds=1)
    assert facts["source"] == "pci"
    assert facts["problems"][0]["detail"] == "no answer within 1 seconds"
