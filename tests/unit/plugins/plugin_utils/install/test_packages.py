"""Facts of a host in, names of packages and repositories out: the systems that no test here runs on."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import (
    DOCKER_CE,
    ENGINE_NEEDS,
    TOOLKIT,
    Mirror,
    engine_options_for_cdi,
    missing_packages,
    package_plan,
    system_of,
    upstream,
)
from hypothesis import given
from hypothesis import strategies as st

# What ansible.builtin.setup says on them.
SYSTEMS: dict[str, tuple[str, str, str, str]] = {
    "debian11": ("Debian", "Debian", "11.11", "bullseye"),
    "debian12": ("Debian", "Debian", "12.5", "bookworm"),
    "debian13": ("Debian", "Debian", "13.1", "trixie"),
    "ubuntu20": ("Debian", "Ubuntu", "20.04", "focal"),
    "ubuntu22": ("Debian", "Ubuntu", "22.04", "jammy"),
    "ubuntu24": ("Debian", "Ubuntu", "24.04", "noble"),
    "rhel8": ("RedHat", "RedHat", "8.10", "Ootpa"),
    "rocky8": ("RedHat", "Rocky", "8.9", "Green Obsidian"),
    "rocky9": ("RedHat", "Rocky", "9.4", "Blue Onyx"),
    "alma9": ("RedHat", "AlmaLinux", "9.4", "Seafoam Ocelot"),
    "openeuler22": ("RedHat", "openEuler", "22.03", "LTS-SP3"),
    "kylin10": ("RedHat", "Kylin Linux Advanced Server", "V10", "Lance"),
}


def facts(name: str) -> dict[str, Any]:
    family, distribution, version, release = SYSTEMS[name]
    return {
        "os_family": family,
        "distribution": distribution,
        "distribution_version": version,
        "distribution_major_version": version.split(".")[0],
        "distribution_release": release,
        "architecture": "x86_64",
    }


@pytest.mark.parametrize(
    ("system", "names"),
    [
        ("debian11", ["docker.io"]),
        ("debian12", ["docker.io"]),
        ("debian13", ["docker.io", "docker-cli"]),
        ("ubuntu20", ["docker.io"]),
        ("ubuntu24", ["docker.io"]),
        ("rhel8", DOCKER_CE),
        ("rocky9", DOCKER_CE),
        ("openeuler22", ["docker-engine"]),
        ("kylin10", ["docker-engine"]),
    ],
)
def test_packages_of_the_distribution_or_dockers(system: str, names: list[str]) -> None:
    plan = package_plan(facts(system), "docker", "packages")
    assert plan["packages"] == [*names, "python3-requests"]
    assert plan["repository"] is None


@pytest.mark.parametrize(
    ("system", "url", "suite"),
    [
        ("debian12", "https://download.docker.com/linux/debian", "bookworm"),
        ("ubuntu24", "https://download.docker.com/linux/ubuntu", "noble"),
        ("rhel8", "https://download.docker.com/linux/rhel/8/x86_64/stable", None),
        ("rocky8", "https://download.docker.com/linux/centos/8/x86_64/stable", None),
        ("alma9", "https://download.docker.com/linux/centos/9/x86_64/stable", None),
        ("openeuler22", "https://download.docker.com/linux/centos/9/x86_64/stable", None),
        ("kylin10", "https://download.docker.com/linux/centos/8/x86_64/stable", None),
    ],
)
def test_dockers_own_repository(system: str, url: str, suite: str | None) -> None:
    plan = package_plan(facts(system), "docker", "repository", "28.5.1")
    assert plan["repository"]["url"] == url
    assert plan["repository"].get("suite") == suite
    assert plan["packages"] == ["docker-ce=28.5.1", "docker-ce-cli=28.5.1", "containerd.io", "python3-requests"]


@pytest.mark.parametrize(
    ("component", "system", "mirror", "url", "key"),
    [
        (
            "docker",
            "debian12",
            ("http://m/docker/", ""),
            "http://m/docker/linux/debian",
            "http://m/docker/linux/debian/gpg",
        ),
        ("docker", "rocky9", ("http://m", "http://m/k"), "http://m/linux/centos/9/x86_64/stable", "http://m/k"),
        ("toolkit", "debian12", ("http://m/n/", ""), "http://m/n/stable/deb/amd64", "http://m/n/gpgkey"),
        ("toolkit", "rocky9", ("http://m", "http://m/k"), "http://m/stable/rpm/x86_64", "http://m/k"),
    ],
)
def test_a_mirror_stands_in_the_publishers_place(
    component: str, system: str, mirror: tuple[str, str], url: str, key: str
) -> None:
    repository = package_plan(facts(system), component, "repository", "", Mirror(*mirror))["repository"]
    assert (repository["url"], repository["key"]) == (url, key)
    assert package_plan(facts(system), component, "packages", "", Mirror(*mirror))["repository"] is None


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_the_static_engine_needs(system: str) -> None:
    plan = package_plan(facts(system), "docker", "static")
    assert plan["packages"] == ENGINE_NEEDS[plan["family"]]
    assert "docker-ce" in plan["old"]
    assert package_plan(facts(system), "docker", "present")["packages"] == ["python3-requests"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_toolkit_is_the_same_everywhere(system: str) -> None:
    plan = package_plan(facts(system), "toolkit", "repository", "1.17.8")
    assert plan["packages"] == [f"{name}=1.17.8" for name in TOOLKIT]
    assert plan["repository"]["url"].endswith("/deb/amd64" if plan["family"] == "deb" else "/rpm/x86_64")
    assert "nvidia-docker2" in plan["old"]
    assert package_plan(facts(system), "toolkit", "bundle")["packages"] == []
    assert package_plan(facts(system), "toolkit", "present")["old"] == []


def test_releases_are_counted_as_their_distribution_counts() -> None:
    found = {
        name: system_of(facts(name)).release for name in ("debian12", "ubuntu24", "rocky9", "openeuler22", "kylin10")
    }
    assert found == {"debian12": "12", "ubuntu24": "24.04", "rocky9": "9", "openeuler22": "22.03", "kylin10": "v10"}


def test_a_system_that_is_none_of_them() -> None:
    plan = package_plan({"os_family": "Suse", "distribution": "SLES"}, "docker", "repository")
    assert (plan["family"], plan["repository"], plan["packages"]) == ("", None, ["python3-requests"])


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("20.10.24+dfsg1", None),
        ("24.0.9", None),
        ("25.0.0", {"features": {"cdi": True}}),
        ("28.1.1", {"features": {"cdi": True}}),
        ("28.2.0", {}),
        ("29.0.0", {}),
        ("0", None),
        ("", None),
    ],
)
def test_cdi_is_a_matter_of_the_engines_version(version: str, options: dict[str, Any] | None) -> None:
    assert engine_options_for_cdi(version) == options


@pytest.mark.parametrize(
    ("version", "theirs"),
    [
        ("5:28.5.1-1~debian.12~bookworm", "28.5.1"),
        ("20.10.24+dfsg1-1+deb12u1+b2", "20.10.24"),
        ("1.17.8-1", "1.17.8"),
        ("2.31", "2.31"),
    ],
)
def test_the_publishers_version(version: str, theirs: str) -> None:
    assert upstream(version) == theirs


def test_what_is_missing() -> None:
    lines = ["docker.io installed 20.10.24+dfsg1-1", "iptables half-configured 1.8", "tini installed 0.19", "odd"]
    assert missing_packages(["docker.io", "tini"], lines, "deb") == []
    assert missing_packages(["docker.io=20.10.24"], lines, "deb") == []
    assert missing_packages(["docker.io=26.1.5", "iptables", "x"], lines, "deb") == [
        "docker.io=*26.1.5*",
        "iptables",
        "x",
    ]
    assert missing_packages(["docker-ce=28.5.1"], [], "rpm") == ["docker-ce-28.5.1*"]


@given(st.lists(st.text()), st.lists(st.text()))
def test_whatever_a_package_manager_prints(wanted: list[str], lines: list[str]) -> None:
    assert len(missing_packages(wanted, lines, "deb")) <= len(wanted)
