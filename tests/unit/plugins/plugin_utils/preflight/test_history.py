"""Where the rows of the table say nothing, or something milder: what stands in reports.yml shows where they speak."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import check_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.surroundings import needs_proxy

from tests.support.host_reports import LIMITS, found_codes

LOADED = {"loaded": "570.195.03", "installed": "570.195.03", "kernel_module": "open", "mismatch": False}
CARDS = [{"bus_id": "00000000:3B:00.0", "kernel_driver": "nouveau"}]


def severity(found: dict[str, Any], code: str, **settings: Any) -> str:
    """Of a finding on one host; empty where there is none."""
    facts = {
        "distribution": "Debian",
        "distribution_version": "12",
        "os_family": "Debian",
        "architecture": "x86_64",
        "pkg_mgr": "apt",
        "llm_nics_found": [],
        "llm_gpus_found": [{"index": 0, "name": "A10", "compute_capability": "8.6", "bus_id": "00000000:3B:00.0"}],
    }
    result = check_hosts({"q": {"hosts": ["a"]}}, {"a": facts}, {"a": {**found, **settings}}, LIMITS)
    return next((one["severity"] for one in [*result["problems"], *result["warnings"]] if one["code"] == code), "")


@pytest.mark.parametrize(
    ("kernels", "running", "codes"),
    [
        ({}, "6.1.0-40-amd64", []),
        ({"6.1.0-40-amd64": True}, "6.1.0-40-amd64", []),
        ({"6.1.0-40-amd64": True, "6.1.0-41-amd64": True}, "6.1.0-40-amd64", []),
        ({"6.1.0-40-amd64": True, "6.1.0-41-amd64": False}, "6.1.0-40-amd64", ["kernel_without_driver"]),
        # Older ones, and those of another flavour, are not what boots next.
        ({"6.1.0-40-amd64": True, "6.1.0-9-amd64": False}, "6.1.0-40-amd64", []),
        ({"6.1.0-40-amd64": True, "6.1.0-41-cloud-amd64": False}, "6.1.0-40-amd64", []),
        (
            {"5.14.0-427.13.1.el9_4.x86_64": True, "5.14.0-503.11.1.el9_5.x86_64": False},
            "5.14.0-427.13.1.el9_4.x86_64",
            ["kernel_without_driver"],
        ),
        ({"6.1.0-41-amd64": True}, "6.1.0-40-amd64", ["kernel_modules_gone"]),
    ],
)
def test_kernels(kernels: dict[str, bool], running: str, codes: list[str]) -> None:
    found = {"host": {"kernels": kernels, "kernel": running}, "gpu": {"driver": LOADED}}
    assert found_codes({"alone": True, "found": found}) == codes


def test_a_host_that_works_until_its_reboot_is_only_warned() -> None:
    host = {"kernels": {"6.1.0-41-amd64": True}, "kernel": "6.1.0-40-amd64"}
    working = {"host": {**host, "engine": {"version": "28.5.1"}}, "gpu": {"driver": LOADED}}
    assert severity(working, "kernel_modules_gone") == "warning"
    assert severity({"host": host, "gpu": {"driver": {}}}, "kernel_modules_gone") == "error"


@pytest.mark.parametrize(("method", "severe"), [("auto", ""), ("runfile", ""), ("present", "error")])
def test_nouveau_is_a_finding_only_where_nobody_sends_it_away(method: str, severe: str) -> None:
    assert severity({"gpu": {"bus": CARDS}}, "gpu_bound_elsewhere", driver_method=method) == severe


@pytest.mark.parametrize(
    ("name", "severe"), [("nvidia", ""), ("", ""), ("nvidiafb", "warning"), ("nvidia-vgpu-vfio", "warning")]
)
def test_other_drivers_whose_names_begin_alike(name: str, severe: str) -> None:
    bus = [{"bus_id": "00000000:5E:00.0", "kernel_driver": name}]
    assert severity({"gpu": {"bus": bus}}, "gpu_bound_elsewhere") == severe


def test_a_card_of_a_virtual_machine_beside_others_is_a_warning() -> None:
    bus = [{"bus_id": "00000000:5E:00.0", "kernel_driver": "vfio-pci"}]
    assert severity({"gpu": {"bus": bus}}, "gpu_bound_elsewhere") == "warning"


def test_a_window_of_a_card_that_works_is_none_of_our_business() -> None:
    bus = [{"bus_id": "00000000:3B:00.0", "window_missing": True}]
    assert severity({"gpu": {"bus": bus, "source": "pci"}}, "gpu_without_window") == "error"
    assert severity({"gpu": {"bus": bus, "source": "nvidia-smi"}}, "gpu_without_window") == ""


@pytest.mark.parametrize(("method", "severe"), [("auto", "warning"), ("packages", "warning"), ("present", "error")])
def test_a_driver_that_the_role_will_replace_is_a_warning(method: str, severe: str) -> None:
    driver = {**LOADED, "loaded": "620.10", "kernel_module": "proprietary"}
    gpus = {"llm_gpus_found": [{"index": 0, "compute_capability": "12.0"}]}
    found = {"gpu": {"driver": driver}}
    codes = found_codes({"alone": True, "found": found, "facts": gpus, "settings": {"driver_method": method}})
    assert codes == ["driver_unfit"]
    old = {"gpu": {"driver": {**LOADED, "kernel_module": "proprietary"}}}
    assert severity(old, "driver_unfit", driver_method=method) == ""


@pytest.mark.parametrize(
    ("mode", "severe"), [("Default", ""), (None, ""), ("Exclusive_Process", "warning"), ("Prohibited", "error")]
)
def test_compute_modes(mode: str | None, severe: str) -> None:
    gpus = [{"index": 0, "compute_mode": mode}]
    assert severity({"own_gpus": gpus}, "gpu_compute_mode") == severe


@pytest.mark.parametrize(
    ("status", "severe"),
    [(None, ""), ("Licensed (Expiry: 2027-1-1)", ""), ("Unlicensed", "warning"), ("Unlicensed (Restricted)", "error")],
)
def test_licences(status: str | None, severe: str) -> None:
    assert severity({"own_gpus": [{"index": 0, "license_status": status}]}, "gpu_unlicensed") == severe


def test_a_power_limit_that_the_inventory_asks_for_is_no_finding() -> None:
    gpus = [{"index": 0, "power_limit_watts": {"now": 250, "default": 300}}]
    assert severity({"own_gpus": gpus}, "gpu_power_limited", power_limit_watts=0) == "warning"
    assert severity({"own_gpus": gpus}, "gpu_power_limited", power_limit_watts=250) == ""


def test_packages_of_a_driver_that_are_held_or_ours() -> None:
    host = {"driver_packages": {"libnvidia-compute-570": "1"}, "automatic_upgrades": True}
    gpu = {"driver": LOADED}
    assert severity({"host": host, "gpu": gpu}, "driver_not_held", driver_method="present") == "warning"
    held = {**host, "driver_held": ["libnvidia-compute-570"]}
    assert severity({"host": held, "gpu": gpu}, "driver_not_held", driver_method="present") == ""
    assert severity({"host": host, "gpu": gpu}, "driver_not_held", driver_method="packages") == ""


@pytest.mark.parametrize(
    ("kind", "code"), [("ext4", ""), ("xfs", ""), ("btrfs", ""), ("nfs4", "error"), ("9p", "error")]
)
def test_where_an_engine_can_keep_images(kind: str, code: str) -> None:
    mounts = [{"path": "/var/lib/docker", "mount": "/var", "type": kind, "options": ["rw"], "ftype": 1}]
    assert severity({"host": {"mounts": mounts}}, "engine_filesystem") == code
    # One that makes no overlays does not care.
    other = {"mounts": mounts, "engine": {"storage_driver": "fuse-overlayfs"}}
    assert severity({"host": other}, "engine_filesystem") == ""


def test_the_folder_of_the_collection_may_be_elsewhere_than_the_share() -> None:
    mounts = [{"path": "/opt/llm", "mount": "/", "type": "ext4", "options": ["rw"]}]
    mounts += [{"path": "/var/lib/docker", "mount": "/", "type": "ext4", "options": ["rw"]}]
    for code in ("host_dir_shared", "host_dir_in_memory", "mount_read_only"):
        assert severity({"host": {"mounts": mounts}, "host_dir": "/opt/llm"}, code) == ""


@pytest.mark.parametrize(("method", "severe"), [("auto", "warning"), ("present", "error")])
def test_the_runtime_of_nvidia_comes_with_the_toolkit(method: str, severe: str) -> None:
    engine = {"config": {"default-runtime": "nvidia"}, "missing_runtimes": ["nvidia"]}
    assert severity({"host": {"engine": engine}}, "engine_runtime_missing", toolkit_method=method) == severe
    assert severity({"host": {"engine": {"missing_runtimes": ["old"]}}}, "engine_runtime_missing") == ""


def test_an_offline_host_asks_no_proxy_for_images() -> None:
    engine = {
        "proxy": "http://p:3128",
        "no_proxy": "",
        "config": {"insecure-registries": ["10.0.0.9:5000", "10.1.0.0/16"]},
    }
    assert severity({"host": {"engine": engine}}, "engine_proxy_hides") == "warning"
    assert severity({"host": {"engine": engine}}, "engine_proxy_hides", offline=True) == ""


@pytest.mark.parametrize(
    ("host", "no_proxy", "asked"),
    [
        ("registry.site.example", "", True),
        ("registry.site.example", "*", False),
        ("registry.site.example", "site.example", False),
        ("registry.site.example", ".site.example", False),
        ("registry.site.example", "localhost, registry.site.example:5000", False),
        ("registry.site.example", "other.example", True),
        ("10.0.0.9", "10.0.0.0/8", False),
        ("10.0.0.9", "192.168.0.0/16,10.0.0.9", False),
        ("10.0.0.9", "192.168.0.0/16", True),
        ("badsite.example", "site.example", True),
    ],
)
def test_who_is_asked_of_a_proxy(host: str, no_proxy: str, asked: bool) -> None:
    assert needs_proxy(host, no_proxy) is asked


def test_a_masked_target_keeps_a_desktop_awake() -> None:
    awake = {"units": {"display-manager.service": "active"}}
    assert severity({"host": awake}, "host_may_sleep") == ""
    asleep = {"units": {"display-manager.service": "active", "sleep.target": "inactive"}}
    assert severity({"host": asleep}, "host_may_sleep") == "warning"


def test_an_engine_that_runs_without_the_parser_goes_on() -> None:
    missing = {"apparmor": {"enabled": True, "parser": False}}
    assert severity({"host": missing}, "apparmor_parser_missing") == "error"
    assert severity({"host": {**missing, "engine": {"version": "20.10.24"}}}, "apparmor_parser_missing") == "warning"
    assert severity({"host": {"apparmor": {"enabled": False, "parser": False}}}, "apparmor_parser_missing") == ""
