"""Hosts of the family of RHEL after site.yml and an upgrade of the driver: node1 has everything from packages, node2 from archives."""

from __future__ import annotations

import json
import ssl
import urllib.request
from typing import Any

import pytest
import testinfra

from lab.config import STATE, load

HOSTS = ("node1", "node2")
GATEWAY = load().nodes["node1"].mgmt


def on(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


@pytest.mark.parametrize("name", HOSTS)
def test_the_host_knows_rpm_and_nothing_of_debian(name: str) -> None:
    host = on(name)
    assert host.check_output("hostname") == name
    assert "Rocky Linux release 9" in host.check_output("cat /etc/redhat-release")
    assert host.run("command -v dpkg apt-get").rc != 0


def test_everything_of_the_first_host_is_packages() -> None:
    host = on("node1")
    versions = dict(
        line.split()
        for line in host.check_output("rpm --query --all --queryformat '%{NAME} %{VERSION}\\n'").splitlines()
    )
    assert versions["docker-ce"] == "20.10.24"
    assert versions["nvidia-container-toolkit"] == "1.17.8"
    for name in ("kmod-nvidia-latest-dkms", "nvidia-driver-cuda", "nvidia-persistenced"):
        assert versions[name] == "580.159.04", name
    assert "580.159.04" in host.check_output("cat /proc/driver/nvidia/version")
    assert "nvidia/580.159.04" in host.check_output("dkms status")


def test_the_new_driver_is_held_and_the_old_one_is_not() -> None:
    held = on("node1").check_output("dnf --quiet versionlock list").splitlines()
    assert len(held) == 5
    assert all("580.159.04" in line for line in held)


def test_the_second_host_has_archives_and_only_their_needs_as_packages() -> None:
    host = on("node2")
    names = set(host.check_output("rpm --query --all --queryformat '%{NAME}\\n'").splitlines())
    assert {"iptables-nft", "libseccomp", "device-mapper-libs", "python3-requests"} <= names
    assert not names & {"docker-ce", "nvidia-driver-cuda", "nvidia-container-toolkit"}
    assert "570.195.03" in host.check_output("cat /proc/driver/nvidia/version")


@pytest.mark.parametrize("name", HOSTS)
def test_repositories_of_the_bundle_are_off(name: str) -> None:
    host = on(name)
    assert "llm-bundle" in host.check_output("dnf --quiet repolist --all")
    assert host.run("dnf --quiet repolist --enabled").stdout.strip() == ""


def test_a_token_comes_through_the_gateway() -> None:
    key = (STATE / "secrets/gateway_key_alice").read_text().strip()
    request = urllib.request.Request(
        f"https://{GATEWAY}/v1/completions",
        data=json.dumps({"model": "tiny", "prompt": "Hello", "max_tokens": 1}).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    trusted = ssl.create_default_context(cafile=str(STATE / "secrets/gateway_ca.crt"))
    with urllib.request.urlopen(request, timeout=60, context=trusted) as answer:
        assert json.load(answer)["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize("name", HOSTS)
def test_a_rank_of_the_model_runs(name: str) -> None:
    host = on(name)
    assert "llm-ray" in host.check_output("docker ps --format '{{.Names}}'").splitlines()
    assert host.check_output("pgrep --count --full ray::RayWorkerProc") == "1"
