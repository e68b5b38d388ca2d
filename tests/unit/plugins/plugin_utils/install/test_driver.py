"""Which driver drives which card, and what has to be done on a host: facts in, actions out."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.driver import (
    deb_key,
    driver_problems,
    headers_of,
    package_name,
    plan_driver,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("version", "capabilities"),
    [
        ("570.195.03", ["7.0", "7.0"]),
        ("580.95.05", ["6.0", "7.0"]),
        ("535.288.01", ["8.0"]),
        ("590.44.01", ["7.5", "9.0"]),
        ("610.10", ["12.0"]),
        ("470.256.02", ["3.7"]),
        ("390.157", ["2.0"]),
        ("590.44.01", []),
    ],
)
def test_what_fits_is_accepted(version: str, capabilities: list[str]) -> None:
    assert driver_problems(version, capabilities) == []


@pytest.mark.parametrize(
    ("version", "capability", "last"),
    [("590.44.01", "7.0", 580), ("581.1", "6.1", 580), ("580.95.05", "3.7", 470), ("535.1.1", "2.1", 390)],
)
def test_a_branch_that_is_too_new_is_refused(version: str, capability: str, last: int) -> None:
    (text,) = driver_problems(version, [capability, "9.0", capability])
    assert version in text
    assert f"compute capability {capability}" in text
    assert f"R{last} is the last branch" in text


def test_open_modules_need_turing() -> None:
    assert driver_problems("570.195.03", ["7.5"], "open") == []
    (text,) = driver_problems("570.195.03", ["7.0"], "open")
    assert "Allowed: proprietary" in text


def test_blackwell_has_only_open_modules_and_new_drivers_too() -> None:
    assert driver_problems("570.195.03", ["10.0"]) == []
    assert "Allowed: auto or open" in driver_problems("570.195.03", ["10.0"], "proprietary")[0]
    assert "R620" in driver_problems("620.10.01", ["8.0"], "proprietary")[0]
    assert "compute capabilities 7.0, 10.0" in driver_problems("570.195.03", ["10.0", "7.0"])[0]


def test_every_problem_is_told_at_once() -> None:
    assert len(driver_problems("590.44.01", ["7.0", "6.0"], "open")) == 4


@pytest.mark.parametrize("version", ["", "570", "latest", "570.195.03-1", "R570"])
def test_what_is_no_version_is_refused(version: str) -> None:
    (text,) = driver_problems(version, [])
    assert "as in 570.195.03" in text


@given(st.text())
def test_every_file_has_a_name(file: str) -> None:
    assert isinstance(package_name(file), str)


# -- what is done ------------------------------------------------------------------------------------------------------

BARE: dict[str, Any] = {
    "packages": {},
    "held": [],
    "broken": [],
    "runfile": False,
    "unowned": False,
    "kernel": "6.1.0-40-amd64",
    "headers": True,
    "module": False,
    "programs": {"gcc": True, "make": True, "dkms": True},
    "secure_boot": False,
}
NO_DRIVER = {"loaded": None, "installed": None, "branch": None, "kernel_module": None, "mismatch": False}
RUNS = {
    "loaded": "570.195.03",
    "installed": "570.195.03",
    "branch": "570",
    "kernel_module": "proprietary",
    "mismatch": False,
}
DEBIAN = ("Debian", "Debian")
NAMES = {"nvidia-kernel-dkms": "1", "nvidia-smi": "1", "libcuda1": "1", "nvidia-persistenced": "1"}


def decide(
    method: str = "packages",
    host: dict[str, Any] | None = None,
    driver: dict[str, Any] | None = None,
    system: tuple[str, str] = DEBIAN,
    nvswitches: int = 0,
    **wish: Any,
) -> dict[str, Any]:
    wanted = {"method": method, "version": "570.195.03", "capabilities": ["7.0"], **wish}
    wanted.update(distribution=system[0], os_family=system[1])
    return plan_driver({**BARE, **(host or {})}, {"driver": driver or NO_DRIVER, "nvswitches": nvswitches}, wanted)


@pytest.mark.parametrize(
    ("system", "source", "kind", "packages"),
    [
        (DEBIAN, "auto", "proprietary", "nvidia-kernel-dkms nvidia-smi libcuda1 nvidia-persistenced"),
        (DEBIAN, "nvidia", "open", "nvidia-kernel-open-dkms nvidia-driver-cuda nvidia-persistenced"),
        (("Ubuntu", "Debian"), "auto", "proprietary", "nvidia-headless-570-server nvidia-utils-570-server"),
        (("Ubuntu", "Debian"), "auto", "open", "nvidia-headless-570-server-open nvidia-utils-570-server"),
        (
            ("Ubuntu", "Debian"),
            "nvidia",
            "proprietary",
            "nvidia-dkms-570 libnvidia-compute-570 nvidia-utils-570 nvidia-compute-utils-570",
        ),
        (("Rocky", "RedHat"), "auto", "open", "kmod-nvidia-open-dkms nvidia-driver-cuda nvidia-persistenced"),
        (
            ("AlmaLinux", "RedHat"),
            "nvidia",
            "proprietary",
            "kmod-nvidia-latest-dkms nvidia-driver-cuda nvidia-persistenced",
        ),
        (
            ("Kylin Linux Advanced Server", "RedHat"),
            "auto",
            "open",
            "kmod-nvidia-open-dkms nvidia-driver-cuda nvidia-persistenced",
        ),
    ],
)
def test_the_packages_of_every_family(system: tuple[str, str], source: str, kind: str, packages: str) -> None:
    plan = decide(system=system, package_source=source, kernel_module=kind, capabilities=["8.0"])
    assert plan["problems"] == []
    assert plan["packages"] == packages.split()
    assert plan["install"] is True
    assert plan["manager"] == ("apt" if system[1] == "Debian" else "dnf")


@pytest.mark.parametrize(
    ("system", "wish", "reason"),
    [
        (("openEuler", "RedHat"), {}, "method runfile"),
        (("Gentoo", "Gentoo"), {}, "which packages make a driver on Gentoo"),
        (("Rocky", "RedHat"), {"package_source": "distribution"}, "Allowed: nvidia"),
        (("Ubuntu", "Debian"), {"version": "", "method": "packages"}, "Set nvidia_driver_version"),
    ],
)
def test_what_no_table_knows_is_refused(system: tuple[str, str], wish: dict[str, Any], reason: str) -> None:
    (text,) = decide(**{"system": system, **wish})["problems"]
    assert reason in text


def test_packages_that_are_named_need_no_table() -> None:
    plan = decide(system=("openEuler", "RedHat"), package_names=["my-driver"])
    assert (plan["problems"], plan["packages"]) == ([], ["my-driver"])


@pytest.mark.parametrize(
    ("version", "capabilities", "loaded", "kind"),
    [
        ("570.195.03", ["7.0"], None, "proprietary"),
        ("570.195.03", ["8.0"], None, "open"),
        ("535.261.03", ["8.0"], None, "proprietary"),
        ("535.261.03", ["10.0"], None, "open"),
        ("570.195.03", ["8.0"], "proprietary", "proprietary"),
        ("620.10.01", ["8.0"], "proprietary", "open"),
        ("570.195.03", ["7.0", "8.0"], "open", "proprietary"),
        ("570.195.03", [], None, "open"),
    ],
)
def test_the_kind_of_module_follows_the_cards(
    version: str, capabilities: list[str], loaded: str | None, kind: str
) -> None:
    plan = decide("runfile", driver={**NO_DRIVER, "kernel_module": loaded}, version=version, capabilities=capabilities)
    assert plan["problems"] == []
    assert plan["kernel_module"] == kind


def test_a_driver_that_is_there_is_left_alone() -> None:
    assert decide("runfile", host={"runfile": True, "module": True}, driver=RUNS)["install"] is False
    plan = decide(host={"packages": NAMES, "module": True}, driver=RUNS)
    assert (plan["install"], plan["build"], plan["uninstall_runfile"], plan["purge"]) == (False, False, False, [])


@pytest.mark.parametrize(
    ("method", "host", "driver"),
    [
        ("runfile", {"runfile": True}, {**RUNS, "loaded": None}),
        ("runfile", {"runfile": True}, {**RUNS, "installed": "535.1.1", "loaded": "535.1.1"}),
        ("packages", {"packages": NAMES, "broken": ["libcuda1"]}, RUNS),
        ("packages", {"packages": {"nvidia-smi": "1"}}, RUNS),
        ("packages", {"packages": NAMES}, {**RUNS, "installed": "535.1.1"}),
        ("present", {}, RUNS),
    ],
)
def test_what_is_half_there_is_installed_again(method: str, host: dict[str, Any], driver: dict[str, Any]) -> None:
    plan = decide(method, host=host, driver=driver)
    assert plan["problems"] == []
    assert plan["install"] is (method != "present")
    assert plan["repair"] is bool(host.get("broken"))


def test_one_kind_of_installation_makes_way_for_the_other() -> None:
    plan = decide("runfile", host={"packages": {**NAMES, "nvidia-fabricmanager-570": "570.195.03-1"}}, driver=RUNS)
    assert plan["purge"] == sorted(NAMES)
    assert plan["install"] is True
    plan = decide(host={"runfile": True, "packages": NAMES}, driver=RUNS)
    assert (plan["uninstall_runfile"], plan["install"], plan["purge"]) == (True, True, [])
    (text,) = decide(host={"unowned": True}, driver=RUNS)["problems"]
    assert "nvidia_driver_method runfile" in text


def test_another_kind_of_module_is_installed_when_it_is_asked_for() -> None:
    host = {"packages": {**NAMES, "nvidia-open-kernel-dkms": "1"}, "module": True}
    assert decide(host=host, driver=RUNS, capabilities=["8.0"], kernel_module="open")["install"] is True
    assert decide(host=host, driver=RUNS, capabilities=["8.0"])["install"] is False


def test_modules_that_do_not_drive_the_cards_are_no_driver() -> None:
    """Blackwell with the proprietary ones: the same version, which is loaded, is installed again with the open ones."""
    host = {"runfile": True, "module": True}
    plan = decide("runfile", host=host, driver=RUNS, capabilities=["12.0"])
    assert (plan["install"], plan["kernel_module"]) == (True, "open")
    assert (
        decide("runfile", host=host, driver={**RUNS, "kernel_module": "open"}, capabilities=["12.0"])["install"]
        is False
    )
    # Cards that no kind drives together are another problem.
    assert decide("runfile", host=host, driver=RUNS, capabilities=["7.0", "12.0"])["install"] is False
    assert decide("present", host=host, driver=RUNS, capabilities=["12.0"])["install"] is False


@pytest.mark.parametrize(
    ("system", "package", "file"),
    [
        (DEBIAN, "linux-headers-6.1.0-40-amd64", "linux-headers-6.1.0-40-amd64_6.1.153-1_amd64.deb"),
        (("Ubuntu", "Debian"), "linux-headers-6.1.0-40-amd64", "linux-headers-6.1.0-40-amd64_6.1.153-1_amd64.deb"),
        (("Rocky", "RedHat"), "kernel-devel-6.1.0-40-amd64", "kernel-devel-6.1.0-40-amd64.x86_64.rpm"),
        (("openEuler", "RedHat"), "kernel-devel-6.1.0-40-amd64", "kernel-devel-6.1.0-40-amd64.rpm"),
    ],
)
def test_headers_come_from_the_bundle_or_are_missed_there(system: tuple[str, str], package: str, file: str) -> None:
    host = {"headers": False, "programs": {}}
    plan = decide("runfile", host=host, system=system, bundled_files=["gcc_12_amd64.deb", file])
    assert plan["problems"] == []
    assert plan["build_packages"][-1] == package
    assert plan["build_packages"][:2] == ["gcc", "make"]
    other = file.replace("-40-", "-39-")
    (text,) = decide("runfile", host=host, system=system, bundled_files=[other])["problems"]
    assert "6.1.0-40-amd64" in text
    assert package in text
    assert package.replace("-40-", "-39-") in text
    assert decide("runfile", host=host, system=system, offline=False)["problems"] == []
    assert decide("runfile", host=host, system=system, build_enabled=False)["build_packages"] == []
    assert decide("runfile", host={**host, "runfile": True}, driver=RUNS, system=system)["build_packages"] == []


def test_what_builds_nothing_needs_no_headers() -> None:
    host = {"headers": False, "programs": {}}
    precompiled = ["linux-modules-nvidia-570-server-generic", "nvidia-utils-570-server"]
    plan = decide(host=host, system=("Ubuntu", "Debian"), package_names=precompiled)
    assert (plan["problems"], plan["build_packages"]) == ([], [])
    assert decide(host=host, build_packages=["my-headers"])["build_packages"] == ["my-headers"]


def test_a_new_kernel_gets_its_module_built() -> None:
    host = {"packages": NAMES, "headers": False}
    driver = {**RUNS, "loaded": None, "kernel_module": None}
    plan = decide(host=host, driver=driver, bundled_files=["linux-headers-6.1.0-40-amd64_1_amd64.deb"])
    assert (plan["install"], plan["build"]) == (False, True)
    assert plan["build_packages"] == ["linux-headers-6.1.0-40-amd64"]


def test_secure_boot_is_refused_before_anything_is_installed() -> None:
    host = {"secure_boot": True}
    (text,) = decide("runfile", host=host)["problems"]
    assert "nvidia_driver_signed_modules_enabled" in text
    assert decide("runfile", host=host, signed_modules=True)["problems"] == []
    assert decide("runfile", host={**host, "runfile": True}, driver=RUNS)["problems"] == []
    assert decide("present", host=host)["problems"] == []


@pytest.mark.parametrize(
    ("wish", "nvswitches", "package"),
    [
        ({"package_source": "nvidia"}, 6, "nvidia-fabricmanager-570"),
        ({"package_source": "nvidia"}, 0, ""),
        ({"package_source": "nvidia", "fabric_manager": "enabled"}, 0, "nvidia-fabricmanager-570"),
        ({"package_source": "nvidia", "fabric_manager": "disabled"}, 6, ""),
        ({"system": ("Ubuntu", "Debian")}, 4, "nvidia-fabricmanager-570"),
        ({"system": ("Rocky", "RedHat")}, 4, "nvidia-fabricmanager"),
        ({"fabric_manager_package": "my-manager"}, 4, "my-manager"),
        ({"method": "runfile", "package_source": "nvidia"}, 4, "nvidia-fabricmanager-570"),
        ({"method": "present"}, 4, ""),
    ],
)
def test_the_fabric_manager_is_only_where_nvswitches_are(wish: dict[str, Any], nvswitches: int, package: str) -> None:
    plan = decide(**{"nvswitches": nvswitches, "capabilities": ["8.0"], **wish})
    assert plan["problems"] == []
    assert plan["fabric_manager"] == package
    assert plan["install_fabric_manager"] is bool(package)


def test_a_fabric_manager_that_nobody_knows_is_asked_for() -> None:
    (text,) = decide(nvswitches=4, capabilities=["8.0"])["problems"]
    assert "nvidia_driver_fabric_manager_package" in text


def test_all_problems_at_once_in_both_languages() -> None:
    wish = {"method": "packages", "version": "590.44.01", "capabilities": ["7.0"], "kernel_module": "open"}
    wish.update(distribution="Debian", os_family="Debian", fabric_manager="enabled")
    host = {**BARE, "secure_boot": True, "headers": False}
    plans = [plan_driver(host, {"driver": NO_DRIVER, "nvswitches": 0}, wish, lang) for lang in ("en", "zh")]
    assert [len(plan["problems"]) for plan in plans] == [5, 5]
    assert not set(plans[0]["problems"]) & set(plans[1]["problems"])


MAYBE = st.booleans()
DRIVERS = st.fixed_dictionaries(
    {
        "loaded": st.sampled_from([None, "535.1.1", "570.195.03"]),
        "installed": st.sampled_from([None, "535.1.1", "570.195.03"]),
        "branch": st.none(),
        "kernel_module": st.sampled_from([None, "open", "proprietary"]),
        "mismatch": MAYBE,
    }
)
HOSTS = st.fixed_dictionaries(
    {
        "packages": st.sampled_from([{}, NAMES, {"nvidia-smi": "1"}]),
        "broken": st.sampled_from([[], ["libcuda1"]]),
        "runfile": MAYBE,
        "unowned": MAYBE,
        "headers": MAYBE,
        "module": MAYBE,
        "secure_boot": MAYBE,
    }
)


@given(
    st.sampled_from(["runfile", "packages", "repository", "present"]),
    HOSTS,
    DRIVERS,
    st.sampled_from([DEBIAN, ("Ubuntu", "Debian"), ("Rocky", "RedHat"), ("openEuler", "RedHat"), ("?", "?")]),
    st.sampled_from(["570.195.03", "590.44.01", ""]),
)
def test_whatever_a_host_looks_like(
    method: str, host: dict[str, Any], driver: dict[str, Any], system: tuple[str, str], version: str
) -> None:
    plan = decide(method, host, driver, system, version=version)
    if method == "present":
        assert not any(plan[action] for action in ("install", "build", "purge", "uninstall_runfile"))
    # Of two kinds of installation never both are removed, and never the wanted one.
    assert not (plan["purge"] and plan["uninstall_runfile"])
    assert not plan["purge"] or method == "runfile"
    assert not plan["uninstall_runfile"] or method in ("packages", "repository")
    # What makes way is followed by an installation.
    assert plan["install"] or not (plan["purge"] or plan["uninstall_runfile"] or plan["repair"])
    if host["secure_boot"] and plan["install"]:
        assert plan["problems"]


def test_versions_of_debian_packages_are_compared_as_dpkg_does() -> None:
    # In the order of dpkg --compare-versions.
    ordered = [
        "1.0~rc1-1", "1.0-1", "1.0+dfsg-1", "2.31-0ubuntu9.2", "2.31-0ubuntu9.7", "2.31-0ubuntu9.10",
        "2.36-9+deb12u9", "2.36-9+deb12u10", "1:1.0",
    ]  # fmt: skip
    assert sorted([*ordered[4:], *ordered[:4]], key=deb_key) == ordered


@given(st.text())
def test_every_version_has_a_key(version: str) -> None:
    assert deb_key(version) <= deb_key(version)


@pytest.mark.parametrize(
    ("method", "host", "refused"),
    [
        ("runfile", {"kernel_clang": "19", "clang": ""}, True),
        # The installer takes gcc all the same.
        ("runfile", {"kernel_clang": "19", "clang": "19"}, True),
        ("runfile", {"kernel_clang": "", "clang": "19"}, False),
        ("repository", {"kernel_clang": "19", "clang": ""}, True),
        ("repository", {"kernel_clang": "19", "clang": "19"}, False),
    ],
)
def test_a_kernel_that_clang_made(method: str, host: dict[str, Any], refused: bool) -> None:
    plan = decide(method, host, offline=False)
    assert any("clang 19" in text for text in plan["problems"]) is refused


@pytest.mark.parametrize(
    ("kernel_gcc", "gcc", "package", "cc"),
    [("12", "11", ["gcc-12"], "gcc-12"), ("12", "12", [], "cc"), ("11", "12", [], "cc"), ("", "9", [], "cc")],
)
def test_the_compiler_of_the_kernel_builds_the_module(kernel_gcc: str, gcc: str, package: list[str], cc: str) -> None:
    plan = decide("runfile", {"kernel_gcc": kernel_gcc, "gcc": gcc}, offline=False)
    assert (plan["build_packages"], plan["cc"]) == (package, cc)


def test_a_compiler_that_the_bundle_lacks_is_named() -> None:
    plan = decide("runfile", {"kernel_gcc": "12", "gcc": "11"}, bundled_files=["gcc_11_amd64.deb"])
    assert any("gcc-12" in text for text in plan["problems"])
    assert (
        decide("runfile", {"kernel_gcc": "12", "gcc": "11"}, bundled_files=["gcc-12_12.3_amd64.deb"])["problems"] == []
    )


@pytest.mark.parametrize(
    ("kernel", "package"),
    [
        ("6.1.0-40-amd64", "usual-6.1.0-40-amd64"),
        ("6.14.11-2-pve", "proxmox-headers-6.14.11-2-pve"),
        ("6.5.13-6-pve", "proxmox-headers-6.5.13-6-pve"),
        ("6.2.16-20-pve", "pve-headers-6.2.16-20-pve"),
        ("5.15.35-1-pve", "pve-headers-5.15.35-1-pve"),
        ("5.15.0-300.163.18.el9uek.x86_64", "kernel-uek-devel-5.15.0-300.163.18.el9uek.x86_64"),
        ("5.14.0-427.13.1.el9_4.aarch64+64k", "kernel-64k-devel-5.14.0-427.13.1.el9_4.aarch64"),
        ("5.14.0-427.13.1.el9_4.x86_64", "usual-5.14.0-427.13.1.el9_4.x86_64"),
        ("6.12.9+bpo-amd64", "usual-6.12.9+bpo-amd64"),
    ],
)
def test_what_the_headers_of_a_kernel_are_called(kernel: str, package: str) -> None:
    assert headers_of(kernel, "usual-{kernel}") == package
