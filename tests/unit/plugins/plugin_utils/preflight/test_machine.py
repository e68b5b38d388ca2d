"""Where the rows about the machine, its packages and its fabric say nothing, or something milder: reports.yml shows where they speak."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.host_reports import finding, found_codes, severity

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


def settings(**said: int) -> dict[str, Any]:
    return {"kernel_settings": {name.replace("__", "."): value for name, value in said.items()}}


@pytest.mark.parametrize(
    ("host", "code", "severe"),
    [
        (settings(vm__overcommit_memory=2), "kernel_settings_unfit", "warning"),
        # 0 is the kernel's own choice, 1 what Redis asks for.
        (settings(vm__overcommit_memory=1), "kernel_settings_unfit", ""),
        ({**settings(vm__overcommit_memory=2), "container": "lxc"}, "kernel_settings_unfit", ""),
        (settings(vm__panic_on_oom=2), "kernel_settings_unfit", "warning"),
        ({**settings(kernel__pid_max=32768), "cpus": 48}, "kernel_settings_unfit", "warning"),
        # What the kernel takes itself, and what systemd sets.
        ({**settings(kernel__pid_max=32768), "cpus": 32}, "kernel_settings_unfit", ""),
        ({**settings(kernel__pid_max=49152), "cpus": 48}, "kernel_settings_unfit", ""),
        ({**settings(kernel__pid_max=4194304), "cpus": 256}, "kernel_settings_unfit", ""),
        (settings(kernel__pid_max=32768), "kernel_settings_unfit", ""),
        (
            settings(net__netfilter__nf_conntrack_max=0, net__netfilter__nf_conntrack_count=0),
            "kernel_table_full",
            "",
        ),
        (
            settings(net__netfilter__nf_conntrack_max=100, net__netfilter__nf_conntrack_count=89),
            "kernel_table_full",
            "",
        ),
        (
            settings(net__netfilter__nf_conntrack_max=100, net__netfilter__nf_conntrack_count=90),
            "kernel_table_full",
            "warning",
        ),
        # Without a number of connections there is no room for more either: 0 is as many as there are.
        (settings(net__netfilter__nf_conntrack_count=90), "kernel_table_full", ""),
        ({**settings(net__ipv4__neigh__default__gc_thresh3=1024), "neighbours": 921}, "kernel_table_full", ""),
        ({**settings(net__ipv4__neigh__default__gc_thresh3=1024), "neighbours": 922}, "kernel_table_full", "warning"),
        ({**settings(net__ipv4__neigh__default__gc_thresh3=0), "neighbours": 3}, "kernel_table_full", ""),
        ({"cpus": 64, "cpus_isolated": [62, 63]}, "cpu_isolated", ""),
        ({"cpus": 64, "cpus_isolated": list(range(16))}, "cpu_isolated", "warning"),
        ({"cpus": 64, "cpus_isolated": []}, "cpu_isolated", ""),
        ({"boot_stops": ["/scratch"]}, "reboot_unsafe", "warning"),
        ({"boot_stops": ["/scratch"], "container": "lxc"}, "reboot_unsafe", ""),
    ],
)
def test_settings_of_the_kernel_and_the_next_boot(host: dict[str, Any], code: str, severe: str) -> None:
    assert severity(code, host) == severe


@pytest.mark.parametrize(
    ("said", "more", "ports"),
    [
        ({"first": 1024, "last": 65535, "reserved": ""}, {}, "8000,29502"),
        ({"first": 1024, "last": 65535, "reserved": "7999-8001"}, {}, "29502"),
        ({"first": 1024, "last": 65535, "reserved": "8000,29502"}, {}, ""),
        # The kernel's own range, and one that others choose for more connections.
        ({"first": 32768, "last": 60999, "reserved": ""}, {}, ""),
        ({"first": 30000, "last": 65535, "reserved": ""}, {}, ""),
        ({"first": 32768, "last": 60999, "reserved": ""}, {"ports": {"vllm_port": 40000}}, "40000"),
        (
            {"first": 9000, "last": 9999, "reserved": ""},
            {"services": [{"port": 9100, "variable": "x", "program": ""}]},
            "9100",
        ),
        ({}, {}, ""),
    ],
)
def test_ports_that_the_kernel_gives_away(said: dict[str, Any], more: dict[str, Any], ports: str) -> None:
    found = finding("ports_handed_out", {"ports_handed_out": said}, **more)
    assert bool(found) is bool(ports)
    assert not ports or f"({ports})" in found["what"]


def test_a_passphrase_matters_where_nobody_is_there() -> None:
    host = {"boot_passphrases": ["root"]}
    assert severity("reboot_unsafe", host) == "warning"  # a driver will be installed
    assert severity("reboot_unsafe", host, LOADED) == ""
    assert severity("reboot_unsafe", host, driver_method="present") == ""
    upgrades = {"automatic_upgrades": True, "automatic_reboot": True}
    assert severity("reboot_unsafe", {**host, **upgrades}, LOADED) == "warning"


@pytest.mark.parametrize(
    ("more", "severe"),
    [
        ({"driver_method": "packages"}, "error"),
        ({"driver_method": "auto"}, "error"),
        # The installer builds without dkms, and so does the bundle.
        ({"driver_method": "runfile"}, "warning"),
        ({"driver_method": "auto", "offline": True}, "warning"),
        ({"driver_method": "present"}, "warning"),
    ],
)
def test_dkms_that_stops(more: dict[str, Any], severe: str) -> None:
    host = {"dkms_broken": ["/var/lib/dkms/nvidia/390.48"]}
    assert severity("dkms_broken", host, **more) == severe
    assert severity("dkms_broken", host, LOADED, **more) == "warning"


@pytest.mark.parametrize(
    ("servers", "listeners", "offline", "found"),
    [
        (["127.0.0.53"], [], False, True),
        (["127.0.0.53"], [{"port": 53}], False, False),
        (["127.0.0.53", "10.0.0.53"], [], False, False),
        (["::1"], [], False, True),
        (["127.0.0.53"], None, False, False),
        (["127.0.0.53"], [], True, False),
    ],
)
def test_resolvers_on_the_host_itself(servers: list[str], listeners: Any, offline: bool, found: bool) -> None:
    host = {"resolver": {"nameservers": servers, "search": [], "missing": ""}, "listeners": listeners}
    assert (severity("resolver_missing", host, offline=offline) == "warning") is found


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


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ({}, False),
        ({"mlx5_1": {"active": False}}, True),
        # Slower ones are for storage, and NCCL uses none of them.
        ({"mlx5_1": {"rate_gbps": 100.0}}, True),
        # One host without any goes by sockets, and so do the others.
        ({"mlx5_0": {"active": False}, "mlx5_1": {"active": False}}, False),
    ],
)
def test_ports_that_another_host_has(second: dict[str, Any], found: bool) -> None:
    ports = [{**PORT, "device": name, "rate_gbps": 400.0} for name in ("mlx5_0", "mlx5_1")]
    assert ("rdma_ports_fewer" in found_codes({"rdma": ports, "second_rdma": second})) is found


@pytest.mark.parametrize(
    ("links", "found"),
    [
        ([(1, True), (2, True)], True),
        ([(1, True), (1, True)], False),
        ([(1, True), (2, False)], False),
        ([(None, True), (2, True)], False),
    ],
)
def test_links_of_a_bond(links: list[tuple[int | None, bool]], found: bool) -> None:
    bond = {
        "name": "bond0",
        "addresses": ["10.0.0.N/24"],
        "kind": "bond",
        "up": True,
        "members": ["a", "b"],
        "mtu": 1500,
        "speed_mbps": 10000,
    }
    members = [
        {
            "name": name,
            "addresses": [],
            "kind": "ethernet",
            "master": "bond0",
            "up": up,
            "aggregator": group,
            "mtu": 1500,
            "speed_mbps": 10000,
        }
        for name, (group, up) in zip("ab", links, strict=True)
    ]
    assert ("bond_not_aggregated" in found_codes({"interfaces": [bond, *members]})) is found
