"""What measures the GPUs of a host, and why; and that NVIDIA's exporter and nvidia-smi give the same names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import LANGUAGES, render
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.consoles import pages
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.dcgm import (
    counters,
    exporters,
    gpu_exporter,
    groups,
    refusal,
    release_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import alerts, table
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import deployment_ports

from tests.support import programs

IMAGE = "registry.example:5000/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04"
V100 = {"name": "Tesla V100-SXM2-32GB", "compute_capability": "7.0"}
# etc/default-counters.csv of NVIDIA/dcgm-exporter (00d6d344): what it measures unless told otherwise, and what it names in comments.
ON = [
    *(
        "SM_CLOCK",
        "MEM_CLOCK",
        "MEMORY_TEMP",
        "GPU_TEMP",
        "POWER_USAGE",
        "TOTAL_ENERGY_CONSUMPTION",
        "PCIE_TX_THROUGHPUT",
    ),
    *("PCIE_RX_THROUGHPUT", "PCIE_REPLAY_COUNTER", "GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL", "XID_ERRORS"),
    *("FB_FREE", "FB_USED", "NVLINK_BANDWIDTH_TOTAL", "VGPU_LICENSE_STATUS", "UNCORRECTABLE_REMAPPED_ROWS"),
    *("CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE"),
]
COMMENTED = [
    "ECC_SBE_VOL_TOTAL",
    "ECC_DBE_VOL_TOTAL",
    "ECC_SBE_AGG_TOTAL",
    "ECC_DBE_AGG_TOTAL",
    "RETIRED_SBE",
    "RETIRED_DBE",
    "RETIRED_PENDING",
]
# dcgm_fields.h of NVIDIA/DCGM: fields 235 to 238.
FIELDS = ["PCIE_MAX_LINK_GEN", "PCIE_MAX_LINK_WIDTH", "PCIE_LINK_GEN", "PCIE_LINK_WIDTH"]


def host(*gpus: dict[str, Any], driver: str | None = "535.183.01", **more: Any) -> dict[str, Any]:
    facts = {"llm_gpus_found": list(gpus or [V100]), "llm_gpu": {"driver": {"loaded": driver}}}
    return {"ansible_host": "192.0.2.1", "monitoring_dcgm_image": IMAGE, "ansible_facts": facts, **more}


def decided(variables: dict[str, Any], bundled: Any = (IMAGE,)) -> dict[str, Any]:
    return gpu_exporter("gpu01", variables, bundled)


def test_where_it_fits_nvidias_exporter_runs() -> None:
    found = decided(host())
    assert (found["exporter"], found["listen"]) == ("dcgm", "192.0.2.1:9400")
    assert IMAGE in found["why"]
    container = found["container"]
    assert container["image"] == IMAGE
    assert container["command"] == [
        *("--collectors", "/etc/llm-dcgm/counters.csv"),
        *("--address", "192.0.2.1:9400"),
        *("--collect-interval", "10000"),
    ]
    assert container["capabilities"] == []
    assert container["environment"]["NO_SETCAP"] == "1"
    assert container["volumes"] == ["/etc/llm-dcgm/counters.csv:/etc/llm-dcgm/counters.csv:ro"]
    assert found["counters"] == counters()


@pytest.mark.parametrize(
    ("variables", "bundled", "why"),
    [
        (host(monitoring_dcgm_image=""), (IMAGE,), "names no image"),
        (host(monitoring_gpu_exporter="textfile"), (IMAGE,), "monitoring_gpu_exporter"),
        (host(), (), "bundle does not hold"),
        (host(V100, {"name": "Tesla K40m", "compute_capability": "3.5"}), (IMAGE,), "Tesla K40m has 3.5"),
        (host(driver="418.226.00"), (IMAGE,), "needs driver 450, and 418.226.00"),
        ({**host(), "ansible_facts": {"llm_gpus_found": []}}, (IMAGE,), "no GPU"),
    ],
    ids=["no image", "asked", "not bundled", "old GPU", "old driver", "no GPU"],
)
def test_where_it_cannot_run_nvidia_smi_measures_and_the_reason_is_said(
    variables: dict[str, Any], bundled: Any, why: str
) -> None:
    found = decided(variables, bundled)
    assert found["exporter"] == "textfile"
    assert why in found["why"]
    assert "container" not in found
    for lang in LANGUAGES:
        assert gpu_exporter("gpu01", variables, bundled, lang)["why"]


@pytest.mark.parametrize(
    ("image", "driver", "exporter"),
    [
        (IMAGE, "450.80.02", "dcgm"),
        ("nvcr.io/nvidia/k8s/dcgm-exporter:2.0.13-2.1.2-ubuntu20.04", "418.226.00", "dcgm"),
        ("nvcr.io/nvidia/k8s/dcgm-exporter:2.4.6-2.6.10-ubuntu20.04", "418.226.00", "textfile"),
        ("nvcr.io/nvidia/k8s/dcgm-exporter:mine", "418.226.00", "textfile"),
        ("nvcr.io/nvidia/k8s/dcgm-exporter:mine", None, "dcgm"),
    ],
)
def test_the_release_says_which_driver_it_takes(image: str, driver: str | None, exporter: str) -> None:
    found = gpu_exporter("gpu01", host(driver=driver, monitoring_dcgm_image=image), None)
    assert found["exporter"] == exporter
    assert release_of("other@sha256:0") == table("dcgm.yml")["releases"][0]


def test_a_k80_is_taken_though_it_is_older() -> None:
    assert decided(host({"name": "Tesla K80", "compute_capability": "3.7"}))["exporter"] == "dcgm"
    assert decided(host({"name": "Quadro K620", "compute_capability": "3.7"}))["exporter"] == "textfile"


def test_what_is_demanded_and_cannot_be_is_refused() -> None:
    found = decided(host(monitoring_gpu_exporter="dcgm", driver="390.157"))
    assert (found["demanded"], found["fits"]) == (True, False)
    said = render([refusal("gpu01", found)])
    assert "390.157" in said
    assert "monitoring_gpu_exporter (gpu01)" in said
    assert decided(host(monitoring_gpu_exporter="dcgm"))["fits"]


def test_hosts_are_told_apart_by_the_reason() -> None:
    found = {"gpu01": decided(host()), "gpu02": decided(host()), "gpu03": decided(host(monitoring_dcgm_image=""))}
    assert list(groups(found).values()) == [["gpu01", "gpu02"], ["gpu03"]]
    assert exporters(found) == dict.fromkeys(("gpu01", "gpu02"), "192.0.2.1:9400")


def test_both_give_the_same_names() -> None:
    textfile = programs.load("monitoring/files/llm-textfile.py")
    asked = dict(line.split(", ")[:2] for line in counters().splitlines())
    assert list(asked) == [name for name, _text, _paths in textfile.GPU_METRICS]
    assert {name.removeprefix("DCGM_FI_DEV_") for name in asked} <= {*ON, *COMMENTED, *FIELDS}
    assert set(asked.values()) <= {"gauge", "counter"}
    # As its reader wants them: two commas in each line.
    assert all(line.count(",") == 2 for line in counters().splitlines())


def test_rules_and_pages_use_nothing_else_of_it() -> None:
    used = set(re.findall(r"DCGM_FI_\w+", str(alerts()) + str(pages())))
    assert len(used) > 5
    assert used <= set(table("dcgm.yml")["counters"])


def test_its_port_is_open_to_collectors_where_an_image_is_named() -> None:
    (port,) = [port for port in deployment_ports({"monitoring_dcgm_image": IMAGE}, watched=True) if port.name == "dcgm"]
    assert (port.first, port.reached_by) == (9400, "collectors")
    for variables, watched in (({}, True), ({"monitoring_dcgm_image": IMAGE}, False)):
        assert "dcgm" not in [port.name for port in deployment_ports(variables, watched=watched)]
