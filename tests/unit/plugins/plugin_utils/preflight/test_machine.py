"""Where the rows about the machine, its packages and its fabric say nothing, or something milder: reports.yml shows where they speak."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.host_reports import found_codes, severity

LOADED = {"driver": {"loaded": "570.195.03", "installed": "570.195.03", "kernel_module": "open", "mismatch": False}}
OFF = {"module": "nvidia", "said": "alias nvidia off", "path": "/lib/modprobe.d/b.conf", "wholly": True}
LISTED = {"module": "nvidia", "said": "blacklist nvidia", "path": "/etc/modprobe.d/b.conf", "wholly": False}
PORT = {"device": "mlx5_0", "port": 1, "active": True, "state": "ACTIVE", "link_layer": "InfiniBand", "gids": []}


@pytest.mark.parametrize(
    ("blocked", "loaded", "severe"),
    [([OFF], False, "error"), ([OFF], True, "warning"), ([LISTED], False, "warning"), ([LISTED, OFF], False, "error")],
)
def test_a_driver_that_is_kept_away(blocked: list[dict[str, Any]], loaded: bool, severe: str) -> None:
    assert severity("driver_blocked", {"blocked_modules": blocked}, LOADED if loaded else {}) == severe
    assert severity("driver_blocked", {"blocked_modules": blocked, "container": "docker"}) == ""


@pytest.mark.parametrize(
    ("option", "found"),
    [
        ("NVreg_NvLinkDisable=1", True),
        ("NVreg_NvLinkDisable=0", False),
        ("NVreg_ModifyDeviceFiles=0", True),
        ("NVreg_DeviceFileMode=0666", False),
        ("NVreg_DeviceFileMode=438", False),
        ("NVreg_DeviceFileMode=0660", True),
        ("NVreg_OpenRmEnableUnsupportedGpus=1", False),
    ],
)
def test_options_of_the_module(option: str, found: bool) -> None:
    host = {"module_options": [{"said": option, "path": "/etc/modprobe.d/n.conf"}]}
    assert bool(severity("driver_options", host)) is found


@pytest.mark.parametrize(
    ("host", "code", "severe"),
    [
        ({"cpu_missing": ["avx2"]}, "cpu_features_missing", "warning"),
        ({"cpu_missing": ["sse4_2", "avx2"]}, "cpu_features_missing", "error"),
        ({"kernel_settings": {"kernel.modules_disabled": 1}, "container": "docker"}, "kernel_locked", ""),
        # With Secure Boot the kernel is locked down anyway, and the key of the module decides.
        ({"lockdown": "integrity", "secure_boot": True}, "kernel_locked", ""),
        ({"memory": {"total_mib": 515680, "hugepages_mib": 1024}}, "hugepages_reserved", ""),
        ({"clock_synchronized": None}, "clock_unsynchronized", ""),
        ({"clock_synchronized": False, "container": "docker"}, "clock_unsynchronized", ""),
        ({"container": "docker"}, "host_in_container", ""),
        ({"resolver": {"nameservers": ["10.0.0.1"], "search": [], "missing": ""}}, "resolver_missing", ""),
        ({"automatic_reboot": True, "automatic_upgrades": False}, "reboot_by_upgrades", ""),
        ({"engine": {"version": "28.5.1", "installed_by": "packages"}}, "engine_too_old", ""),
    ],
)
def test_where_little_or_nothing_is_wrong(host: dict[str, Any], code: str, severe: str) -> None:
    assert severity(code, host) == severe


def test_a_host_without_internet_needs_nobody_for_names() -> None:
    nobody = {"resolver": {"nameservers": [], "search": [], "missing": ""}}
    assert severity("resolver_missing", nobody, offline=True) == ""
    assert severity("resolver_missing", nobody, offline=False) == "warning"


def test_a_driver_that_is_there_serves_a_container_of_lxc() -> None:
    assert severity("host_in_container", {"container": "lxc"}, LOADED) == ""
    assert severity("host_in_container", {"container": "lxc"}, driver_method="present") == ""
    assert severity("host_in_container", {"container": "lxc"}) == "error"


@pytest.mark.parametrize(
    ("method", "version", "severe"), [("packages", "", "error"), ("packages", "26.1", ""), ("static", "", "")]
)
def test_packages_of_an_old_engine_stay_unless_a_version_is_asked_for(method: str, version: str, severe: str) -> None:
    host = {
        "engine": {"version": "20.10.5+dfsg1", "installed_by": "packages"},
        "packages": {"docker.io": "20.10.5+dfsg1-1"},
    }
    assert severity("engine_too_old", host, docker_method=method, docker_version=version) == severe


def test_a_mirror_of_the_site_is_another_repository() -> None:
    theirs = {"path": "/etc/apt/sources.list.d/x.list", "suite": "bookworm", "signed_by": "/k.gpg"}
    host = {"package_sources": [{**theirs, "url": "https://download.docker.com/linux/debian"}]}
    asked = {"docker_method": "repository", "toolkit_method": "present"}
    assert severity("package_sources_conflict", host, **asked) == "error"
    asked["docker_repository_url"] = "https://mirror.example/docker"
    assert severity("package_sources_conflict", host, **asked) == ""
    # What stands in the file that the role writes is replaced.
    mine = {"package_sources": [{**host["package_sources"][0], "path": "/etc/apt/sources.list.d/docker.sources"}]}
    assert severity("package_sources_conflict", mine, docker_method="repository", toolkit_method="present") == ""


def test_hosts_that_share_a_machine_are_no_copies() -> None:
    host = {"machine_id": "3f1c0a5e9b7d2c44", "name": {"name": "gpu01", "addresses": ["127.0.1.1"]}}
    codes = ("hosts_same_machine_id", "hosts_same_name")
    assert set(codes) <= set(found_codes({"found": {"host": host}}))
    assert codes[0] not in found_codes({"found": {"host": {**host, "container": "docker"}}})
    shared = found_codes({"found": {"host": host}, "settings": {"sharing": ["gpu01", "gpu02"]}})
    assert not set(codes) & set(shared)


@pytest.mark.parametrize(
    ("report", "code", "found"),
    [
        # A port that is down has no cable: nobody waits for a subnet manager.
        ({"rdma": [{**PORT, "active": False, "state": "DOWN"}]}, "rdma_port_waiting", False),
        ({"rdma": [{**PORT, "active": False, "state": "INIT"}], "alone": True}, "rdma_port_waiting", False),
        ({"second": {"speed_mbps": None}}, "link_speed_differs", False),
        # Beside InfiniBand the card of the interface may be as slow as it likes.
        ({"rdma": [{**PORT, "rate_gbps": 200.0}], "second": {"speed_mbps": 1000}}, "link_speed_differs", False),
        ({"gpus": {"name": "NVIDIA GeForce RTX 4090"}}, "gpudirect_missing", False),
        ({}, "gpudirect_missing", True),
    ],
)
def test_the_fabric(report: dict[str, Any], code: str, found: bool) -> None:
    driver = {"loaded": "535.129.03", "installed": "535.129.03", "kernel_module": "proprietary", "mismatch": False}
    host = {"modules": ["nvidia"], "kernel": "5.15.0-91-generic"}
    whole = {"rdma": [PORT], "found": {"host": host, "gpu": {"driver": driver}}, **report}
    assert (code in found_codes(whole)) is found
