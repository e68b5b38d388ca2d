"""Where the rows about packages, the engine, the toolkit, cards and disks say nothing, or something milder: reports.yml shows where they speak."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.host_reports import found_codes, severity

LOADED = {"driver": {"loaded": "570.195.03", "installed": "570.195.03", "kernel_module": "open", "mismatch": False}}
DONE = {"docker_method": "present", "toolkit_method": "present", "driver_method": "present"}
GONE = {
    "url": "https://apt.kubernetes.io",
    "suite": "kubernetes-xenial",
    "path": "/k.list",
    "signed_by": "",
    "key_missing": "",
}
RPM = {
    "distribution": "Rocky",
    "distribution_version": "9.4",
    "distribution_major_version": "9",
    "os_family": "RedHat",
    "pkg_mgr": "dnf",
}
COMPAT = "/usr/local/cuda-12.8/compat/libcuda.so.1"


@pytest.mark.parametrize(
    ("host", "more", "code", "severe"),
    [
        ({"package_sources": [GONE]}, {}, "package_source_unusable", "error"),
        ({"package_sources": [GONE]}, DONE, "package_source_unusable", "warning"),
        ({"package_sources": [{**GONE, "suite": "cloud-sdk"}]}, {}, "package_source_unusable", "error"),
        (
            {"package_sources": [{**GONE, "url": "https://packages.cloud.google.com/apt", "suite": "cloud-sdk"}]},
            {},
            "package_source_unusable",
            "",
        ),
        (
            {"package_sources": [{**GONE, "url": "https://vault.centos.org/8-stream"}]},
            {},
            "package_source_unusable",
            "",
        ),
        ({"packages_broken": ["x"]}, {}, "packages_unfinished", "error"),
        ({"packages_broken": ["x"]}, DONE, "packages_unfinished", "warning"),
        ({"packages_broken": ["x"]}, {"driver_method": "packages"}, "packages_unfinished", "warning"),
        # What is there already, or not asked for, may be left alone.
        ({"package_excludes": [{"said": "kernel*", "path": "/d"}]}, {"facts": RPM}, "packages_excluded", "error"),
        (
            {"package_excludes": [{"said": "kernel*", "path": "/d"}], "packages": {"kernel-devel": "5.14.0"}},
            {"facts": RPM},
            "packages_excluded",
            "",
        ),
        (
            {"package_excludes": [{"said": "docker*", "path": "/d"}]},
            {"docker_method": "static", "toolkit_method": "present"},
            "packages_excluded",
            "",
        ),
        (
            {"held": ["docker-ce"], "packages": {"docker-ce": "5:24.0.7-1"}},
            {"docker_method": "repository"},
            "packages_excluded",
            "",
        ),
        ({"apt": None}, {}, "python_without_apt", ""),
        ({"apt": False}, {"facts": RPM}, "python_without_apt", ""),
    ],
)
def test_packages(host: dict[str, Any], more: dict[str, Any], code: str, severe: str) -> None:
    assert severity(code, host, **more) == severe


@pytest.mark.parametrize(
    ("host", "more", "code", "severe"),
    [
        ({"masked": ["nvidia-persistenced.service"]}, {}, "unit_masked", "warning"),
        ({"masked": ["docker.socket"], "units": {"docker.service": "active"}}, {}, "unit_masked", ""),
        ({"masked": ["docker.service"], "units": {"docker.service": "active"}}, {}, "unit_masked", "error"),
        # Another one is installed in its place, or it runs.
        (
            {"units": {"docker.service": "failed"}, "engine": {"installed_by": "packages"}},
            {"docker_method": "static"},
            "engine_failed",
            "warning",
        ),
        (
            {"units": {"docker.service": "failed"}, "engine": {"installed_by": "packages", "version": "28.5.1"}},
            {},
            "engine_failed",
            "",
        ),
        (
            {"cgroup": 1, "packages": {"nvidia-container-toolkit": "1.3.0-1"}},
            {"toolkit_method": "present"},
            "toolkit_too_old",
            "",
        ),
        (
            {"cgroup": 2, "packages": {"nvidia-container-toolkit": "1.3.0-1"}},
            {"toolkit_method": "repository"},
            "toolkit_too_old",
            "",
        ),
        ({"toolkit_settings": {"nvidia-container-cli.root": "/run/nvidia/driver"}}, {}, "toolkit_settings", "warning"),
        ({"toolkit_settings": {"nvidia-container-cli.root": "/"}}, {}, "toolkit_settings", ""),
    ],
)
def test_engine_and_toolkit(host: dict[str, Any], more: dict[str, Any], code: str, severe: str) -> None:
    assert severity(code, host, **more) == severe


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        ("6.1.0-18-rt-amd64", True),
        ("5.6.17-rt10-xanmod1", True),
        ("4.18.0-553.rt7.342.el8_10.x86_64", True),
        ("5.14.0-427.el9.x86_64+rt", True),
        ("6.8.1-1015-realtime", True),
        ("6.8.0-60-lowlatency", False),
        ("6.1.0-18-amd64", False),
        ("5.15.0-1.smartos.x86_64", False),
        ("6.1.0-art5", False),
    ],
)
def test_kernels_of_real_time(kernel: str, found: bool) -> None:
    assert (severity("kernel_realtime", {"kernel": kernel}) == "error") is found
    assert severity("kernel_realtime", {"kernel": kernel}, LOADED) == ""
    assert severity("kernel_realtime", {"kernel": kernel}, driver_method="present") == ""


@pytest.mark.parametrize(
    ("path", "version", "more", "severe"),
    [
        (COMPAT, "560.35.05", {}, "warning"),
        (COMPAT, "560.35.05", {"python": "/opt/v/bin/python"}, "error"),
        (COMPAT, "575.57.08", {}, ""),
        (
            COMPAT,
            "575.57.08",
            {"facts": {"llm_gpus_found": [{"index": 0, "name": "NVIDIA GeForce RTX 4090"}]}},
            "warning",
        ),
        (COMPAT, "", {}, "warning"),
        ("/usr/lib/libcuda.so.1", "575.57.08", {}, "warning"),
        ("/usr/lib/libcuda.so.1", "570.195.03", {}, ""),
        ("/usr/lib/wsl/lib/libcuda.so.1", "", {}, ""),
    ],
)
def test_libraries_of_other_drivers(path: str, version: str, more: dict[str, Any], severe: str) -> None:
    host = {"driver_libraries": [{"name": "libcuda.so.1", "path": path, "version": version}]}
    assert severity("driver_library_foreign", host, LOADED, **more) == severe
    # Without a driver there is none to be hidden, and one that waits for a reboot is another finding.
    assert severity("driver_library_foreign", host) == ""
    assert severity("driver_library_foreign", host, {"driver": {**LOADED["driver"], "mismatch": True}}) == ""


@pytest.mark.parametrize(
    ("host", "card", "found"),
    [
        ({}, {"memory_used_mib": 1024}, True),
        ({}, {"memory_used_mib": 700}, False),
        ({}, {"memory_used_mib": 9000, "mig_enabled": True}, False),
        ({}, {"memory_used_mib": 7269, "virtualization": "VGPU"}, False),
        ({"units": {"display-manager.service": "active"}}, {"memory_used_mib": 1500}, False),
        (
            {"services": [{"service": "ollama", "pid": 9, "process": "ollama", "container": ""}]},
            {"memory_used_mib": 9000},
            False,
        ),
    ],
)
def test_memory_that_somebody_holds(host: dict[str, Any], card: dict[str, Any], found: bool) -> None:
    facts = {"llm_gpus_found": [{"index": 0, "name": "NVIDIA A10", "bus_id": "x", **card}]}
    assert bool(severity("gpu_memory_held", host, LOADED, facts=facts)) is found


@pytest.mark.parametrize(
    ("names", "links", "found"),
    [
        # Two cards of three have a bridge.
        (
            ["NVIDIA A40"] * 3,
            [{"GPU1": "NV4", "GPU2": "SYS"}, {"GPU0": "NV4", "GPU2": "SYS"}, {"GPU0": "SYS", "GPU1": "SYS"}],
            False,
        ),
        (
            ["Tesla V100-SXM2-16GB"] * 3,
            [{"GPU1": "NV2", "GPU2": "SYS"}, {"GPU0": "NV2", "GPU2": "SYS"}, {"GPU0": "SYS", "GPU1": "SYS"}],
            True,
        ),
        # Bridges of two kinds of cards have different numbers of links.
        (["A", "A", "B", "B"], [{"GPU1": "NV4"}, {"GPU0": "NV4"}, {"GPU3": "NV12"}, {"GPU2": "NV12"}], False),
        (["A", "A"], [{"GPU1": "NV4", "NIC0": "NV9"}, {"GPU0": "NV4"}], False),
        (["A", "A"], [{"GPU1": "PHB"}, {"GPU0": "PHB"}], False),
    ],
)
def test_links_of_cards(names: list[str], links: list[dict[str, str]], found: bool) -> None:
    facts = {"llm_gpus_found": [{"index": at, "name": name, "bus_id": str(at)} for at, name in enumerate(names)]}
    gpu = {**LOADED, "topology": {f"GPU{at}": mine for at, mine in enumerate(links)}}
    assert bool(severity("nvlink_fewer", {}, gpu, facts=facts)) is found


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ([8, 7], True),
        ([4, 3], True),
        ([8, 6], True),
        ([8, 8], False),
        ([8, 4], False),
        ([2, 1], False),
        ([7, 7], False),
    ],
)
def test_cards_that_a_twin_has(counts: list[int], found: bool) -> None:
    assert ("gpus_fewer_than_twins" in found_codes({"counts": counts})) is found


def test_a_number_of_cards_that_is_declared() -> None:
    declared = {"settings": {"gpus": [{"name": "NVIDIA H100 80GB HBM3"}] * 7}}
    assert "gpus_fewer_than_twins" not in found_codes({"counts": [8, 7], **declared})


@pytest.mark.parametrize(
    ("unmounted", "engine", "found"),
    [
        (["/data"], {}, False),
        (["/opt"], {}, True),
        (["/opt/llm2"], {}, False),
        (["/data"], {"data_root": "/data/docker"}, True),
        (["/"], {}, False),
    ],
)
def test_file_systems_that_are_not_mounted(unmounted: list[str], engine: dict[str, str], found: bool) -> None:
    assert (severity("mount_missing", {"unmounted": unmounted, "engine": engine}) == "error") is found


@pytest.mark.parametrize(("backend", "found"), [("", True), ("nftables", True), ("iptables", False)])
def test_a_firewalld_that_writes_with_the_same_program(backend: str, found: bool) -> None:
    host = {"packet_filters": {"legacy": ["filter"], "program": "legacy", "firewalld": backend}}
    report = {"found": {"host": host}, "facts": {"llm_firewall": {"firewalld": {"running": True}}}}
    assert ("packet_filters_mixed" in found_codes(report)) is found


@pytest.mark.parametrize(
    ("bridge", "found"), [("br-lan", False), ("br-ex", False), ("br-0123456789ab", True), ("docker0", True)]
)
def test_a_bridge_of_the_site_is_no_network_of_the_engine(bridge: str, found: bool) -> None:
    host = {"ssh_client": "10.0.0.250", "routes": [{"network": "10.0.0.0/24", "interface": bridge}]}
    assert ("engine_pools_overlap" in found_codes({"alone": True, "found": {"host": host}})) is found


@pytest.mark.parametrize(
    ("desktop", "used", "found"),
    [("active", 62, False), ("active", 2048, True), ("active", None, True), ("", 62, True)],
)
def test_programs_that_a_desktop_draws_with(desktop: str, used: int | None, found: bool) -> None:
    process = {"pid": 5, "process": "gnome-text-editor", "used_mib": used, "container": ""}
    host = {"units": {"display-manager.service": desktop}, "gpu_processes": [process]}
    assert ("gpu_busy" in found_codes({"alone": True, "found": {"host": host}})) is found


@pytest.mark.parametrize(
    ("declared", "found"), [(None, True), ([{"name": "NVIDIA GeForce RTX 3090"}], False), ([{}, {}], True)]
)
def test_cards_of_an_unknown_kind_that_the_inventory_names(declared: list[dict[str, str]] | None, found: bool) -> None:
    gpu = {
        "problems": [
            {"code": "unknown_pci_device", "detail": "the NVIDIA device 2204 at x is not in the table of GPUs"}
        ]
    }
    report = {"alone": True, "found": {"gpu": gpu}, "settings": {"gpus": declared}}
    assert ("unknown_pci_device" in found_codes(report)) is found


@pytest.mark.parametrize(("used", "found"), [(0, True), (None, True), (612, False)])
def test_a_desktop_on_a_card_keeps_the_driver_awake(used: int | None, found: bool) -> None:
    host = {"units": {"display-manager.service": "active"}}
    report = {
        "alone": True,
        "found": {"host": host, "gpu": LOADED},
        "gpus": {"persistence_enabled": False, "memory_used_mib": used},
    }
    assert ("gpu_persistence_off" in found_codes(report)) is found


@pytest.mark.parametrize(("name", "found"), [("NVIDIA GeForce RTX 4090", False), ("NVIDIA L40S", True)])
def test_cards_that_no_other_device_may_read(name: str, found: bool) -> None:
    seat = {"bus_id": "x", "redirecting": ["0000:10:00.0"], "iommu": "DMA-FQ"}
    port = {"device": "mlx5_0", "port": 1, "active": True, "link_layer": "Ethernet", "interface": "eth0", "gids": []}
    report = {"found": {"gpu": {"bus": [seat]}}, "gpus": {"name": name, "compute_capability": "8.9"}, "rdma": [port]}
    codes = found_codes(report)
    assert ("iommu_translates" in codes, "pci_redirects" in codes) == (found, found)


@pytest.mark.parametrize(
    ("firewalls", "alone", "found"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"firewalld": {"running": True}}, False, False),
        ({"ufw": {"enabled": False}}, False, True),
    ],
)
def test_rules_of_somebody_else(firewalls: dict[str, Any], alone: bool, found: bool) -> None:
    host = {"packet_filters": {"legacy": [], "program": "nf_tables", "refuses": "-A INPUT -j DROP"}}
    report = {"found": {"host": host}, "facts": {"llm_firewall": firewalls}, "alone": alone}
    assert ("packet_filter_refuses" in found_codes(report)) is found


@pytest.mark.parametrize(
    ("code", "host"),
    [
        ("clocksource_slow", {"clocksource": "hpet"}),
        ("cpu_held_slow", {"cpu_frequency": {"driver": "acpi-cpufreq", "governor": "powersave"}}),
    ],
)
def test_in_a_container_the_processor_is_somebody_elses(code: str, host: dict[str, Any]) -> None:
    assert severity(code, host) == "warning"
    assert severity(code, {**host, "container": "docker"}) == ""
    assert severity("cpu_held_slow", {"cpu_frequency": {"driver": "amd-pstate-epp", "governor": "powersave"}}) == ""


@pytest.mark.parametrize(
    ("source", "problems", "line", "found"),
    [
        ("pci", [], "NVRM: GPU 0000:a1:00.0: RmInitAdapter failed! (0x62:0x40:2168)", True),
        ("pci", [], "NVRM: nvAssertOkFailedNoLog: Assertion failed", False),
        (
            "nvidia-smi",
            [{"code": "gpu_lost", "detail": "x"}],
            "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.",
            True,
        ),
        ("nvidia-smi", [], "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", False),
    ],
)
def test_what_the_driver_says(source: str, problems: list[dict[str, str]], line: str, found: bool) -> None:
    gpu = {**LOADED, "source": source, "problems": problems, "kernel_log": ["NVRM: something else", line]}
    assert (severity("gpu_driver_said", {}, gpu) == "error") is found


RUNNING = {"kernel": "5.14.0-503.11.1.el9_5.x86_64"}


def lock(name: str, version: str) -> dict[str, Any]:
    return {"package_locks": [{"name": name, "version": version, "path": "/etc/dnf/plugins/versionlock.list"}]}


@pytest.mark.parametrize(
    ("host", "more", "code", "severe"),
    [
        (
            {"package_sources_malformed": [{"said": "<html>", "path": "/a.list"}]},
            {},
            "package_source_unusable",
            "error",
        ),
        (
            {"package_sources_malformed": [{"said": "<html>", "path": "/a.list"}]},
            DONE,
            "package_source_unusable",
            "warning",
        ),
        (
            {"package_sources_malformed": [{"said": "<html>", "path": "/a.list"}]},
            {"offline": True},
            "package_source_unusable",
            "",
        ),
        (
            {"package_sources_malformed": [{"said": "<html>", "path": "/a.list"}]},
            {"facts": RPM},
            "package_source_unusable",
            "",
        ),
        (
            {"package_sources": [{**GONE, "url": "http://archive.debian.org/debian", "suite": "bullseye-backports"}]},
            {},
            "package_source_unusable",
            "",
        ),
        (
            {"package_sources": [{**GONE, "url": "http://deb.debian.org/debian", "suite": "bookworm-backports"}]},
            {},
            "package_source_unusable",
            "",
        ),
        (
            {"package_sources": [{**GONE, "url": "http://deb.debian.org/debian", "suite": "buster-backports"}]},
            {},
            "package_source_unusable",
            "error",
        ),
        (
            {"package_sources": [{**GONE, "url": "http://archive.ubuntu.com/ubuntu", "suite": "focal-backports"}]},
            {},
            "package_source_unusable",
            "",
        ),
        ({"package_sources": []}, {"facts": RPM}, "package_sources_none", "error"),
        ({"package_sources": []}, {"facts": RPM, "offline": True}, "package_sources_none", ""),
        ({"package_sources": []}, {"facts": RPM, **DONE}, "package_sources_none", ""),
        ({"package_sources": None}, {"facts": RPM}, "package_sources_none", ""),
        ({"package_sources": []}, {}, "package_sources_none", ""),
        ({"packages_readable": False}, {}, "package_database_broken", "error"),
        ({"packages_readable": False}, DONE, "package_database_broken", "warning"),
        ({"packages_readable": None}, {}, "package_database_broken", ""),
        ({"immutable": ["/etc/group"]}, {}, "files_immutable", "error"),
        ({"immutable": ["/etc/group"]}, DONE, "files_immutable", "warning"),
        ({"immutable": []}, {}, "files_immutable", ""),
        ({"shares_silent": ["/mnt/x"]}, {}, "share_silent", "warning"),
        (
            {"shares_silent": ["/mnt/x"], "mounts": [{"path": "/opt/llm", "mount": "/mnt/x"}]},
            {},
            "share_silent",
            "error",
        ),
        ({"shares_silent": ["/mnt/x"], "mounts": [{"path": "/opt/llm", "mount": "/"}]}, {}, "share_silent", "warning"),
        ({"shares_silent": []}, {}, "share_silent", ""),
        ({**RUNNING, **lock("kernel-devel", "5.14.0-503.11.1.el9_5")}, {"facts": RPM}, "packages_excluded", ""),
        ({**RUNNING, **lock("kernel*", "5.14.0-503*")}, {"facts": RPM}, "packages_excluded", ""),
        ({**RUNNING, **lock("kernel*", "5.14.0-362*")}, {"facts": RPM}, "packages_excluded", "error"),
        (
            {**RUNNING, **lock("kernel-devel", "5.14.0-362"), "packages": {"kernel-devel": "5.14.0"}},
            {"facts": RPM},
            "packages_excluded",
            "",
        ),
        # A version that nobody asks for is as good as any.
        (
            {**RUNNING, **lock("docker-ce", "24.0.7-1.el9")},
            {"facts": RPM, "docker_method": "repository"},
            "packages_excluded",
            "",
        ),
        (
            {**RUNNING, **lock("docker-ce", "24.0.7-1.el9")},
            {"facts": RPM, "docker_method": "repository", "docker_version": "28.5.1"},
            "packages_excluded",
            "error",
        ),
        ({**RUNNING, **lock("nvidia-driver", "570.195.03-1.el9")}, {"facts": RPM}, "packages_excluded", ""),
    ],
)
def test_where_packages_come_from(host: dict[str, Any], more: dict[str, Any], code: str, severe: str) -> None:
    assert severity(code, host, **more) == severe


PROXIES = {"package_proxies": [{"said": "http://localhost:3142/", "path": "/etc/apt/apt.conf.d/01proxy"}]}
OTHERS = [{"port": 22}]


@pytest.mark.parametrize(
    ("host", "more", "severe"),
    [
        ({**PROXIES, "listeners": OTHERS}, {}, "error"),
        ({**PROXIES, "listeners": OTHERS}, DONE, "warning"),
        ({**PROXIES, "listeners": OTHERS, "engine": {"version": "28.5.1"}}, {}, "warning"),
        ({**PROXIES, "listeners": [{"port": 3142}]}, {}, ""),
        ({**PROXIES, "listeners": OTHERS}, {"offline": True}, ""),
        # Nobody looked who listens.
        (PROXIES, {}, ""),
        ({"package_proxies": [{"said": "http://proxy.example:3142", "path": "/p"}], "listeners": OTHERS}, {}, ""),
        ({"package_proxies": [{"said": "http://localhost", "path": "/p"}], "listeners": OTHERS}, {}, ""),
        ({"package_proxies": [{"said": "http://localhost:no", "path": "/p"}], "listeners": OTHERS}, {}, ""),
        ({"engine": {"proxy": "http://127.0.0.1:7890"}, "listeners": OTHERS}, {}, "warning"),
        # With a bundle the engine asks nobody.
        ({"engine": {"proxy": "http://127.0.0.1:7890"}, "listeners": OTHERS}, {"pulls": False}, ""),
        ({"environment_proxy": {"proxy": "127.0.0.1:7890"}, "listeners": OTHERS}, {}, "warning"),
    ],
)
def test_proxies_on_the_host_itself(host: dict[str, Any], more: dict[str, Any], severe: str) -> None:
    assert severity("proxy_silent", host, **more) == severe


HELPER = {"docker_helper": {"program": "docker-credential-desktop", "path": "/root/.docker/config.json"}}
CLOSED = {"engine": {"config": {"registry-mirrors": ["https://docker.mirrors.ustc.edu.cn/"]}}}


@pytest.mark.parametrize(
    ("host", "more", "code", "severe"),
    [
        (HELPER, {}, "engine_login_helper_missing", "error"),
        (HELPER, {"pulls": False}, "engine_login_helper_missing", ""),
        (HELPER, {"registry_credentials": True}, "engine_login_helper_missing", ""),
        (CLOSED, {}, "engine_mirror_gone", "warning"),
        (CLOSED, {"pulls": False}, "engine_mirror_gone", ""),
        (CLOSED, {"docker_registry_mirrors": ["https://mirror.example"]}, "engine_mirror_gone", ""),
        ({"engine": {"config": {"registry-mirrors": ["https://mirrors.ustc.edu.cn"]}}}, {}, "engine_mirror_gone", ""),
        (
            {"engine": {"flags": {"authorization-plugins": {"said": "--authorization-plugin=opa", "path": "/u"}}}},
            {},
            "engine_authorization",
            "warning",
        ),
        ({"toolkit_ldconfig_missing": "/sbin/ldconfig.real"}, {}, "toolkit_settings", "error"),
        ({"toolkit_ldconfig_missing": ""}, {}, "toolkit_settings", ""),
        ({"mounts": [{"path": "/opt/llm", "mount": "/d", "type": "ntfs3"}]}, {}, "host_dir_filesystem", "error"),
        ({"mounts": [{"path": "/opt/llm", "mount": "/d", "type": "fuse.mergerfs"}]}, {}, "host_dir_filesystem", ""),
        (
            {
                "mounts": [
                    {"path": "/opt/llm", "mount": "/", "type": "xfs"},
                    {"path": "/tmp", "mount": "/e", "type": "vfat"},
                ]
            },
            {},
            "host_dir_filesystem",
            "",
        ),
    ],
)
def test_whom_the_engine_asks(host: dict[str, Any], more: dict[str, Any], code: str, severe: str) -> None:
    assert severity(code, host, **more) == severe


@pytest.mark.parametrize(
    ("image", "state", "found"),
    [
        ("containrrr/watchtower", "running", True),
        ("nickfedor/watchtower:1.11@sha256:aa", "running", True),
        ("registry.example:5000/watchtower:latest", "running", True),
        ("containrrr/watchtower", "exited", False),
        ("org/watchtower-exporter:1", "running", False),
    ],
)
def test_containers_that_renew_others(image: str, state: str, found: bool) -> None:
    engine = {"containers": [{"id": "1", "name": "w", "image": image, "state": state}], "images": []}
    assert (severity("containers_renewed", {}, facts={"llm_container_engine": engine}) == "warning") is found
    assert severity("containers_renewed", {}, facts={"llm_container_engine": None}) == ""


@pytest.mark.parametrize(
    ("networks", "found"),
    [
        (["10.0.0.0/24"], False),
        (["10.0.0.2", "10.0.0.1/32"], False),
        (["10.9.0.0/16"], True),
        (["nonsense"], True),
        ([], True),
    ],
)
def test_rules_that_let_in_the_other_hosts_before(networks: list[str], found: bool) -> None:
    host = {"packet_filters": {"refuses": "nft: inet filter input", "lets_in": networks}}
    assert ("packet_filter_refuses" in found_codes({"found": {"host": host}})) is found
