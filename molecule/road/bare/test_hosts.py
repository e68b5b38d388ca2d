"""The hosts are as bare metal is: nothing of ours on them, no way out, and the simulated cards in their slots."""

from __future__ import annotations

from typing import Any

import docker
import testinfra

from lab.config import STATE, load

LAB = load()
LAB_BUNDLE = STATE / "bundle"
testinfra_hosts = [f"ssh://{name}" for name in LAB.nodes]


def test_they_are_those_that_lab_yml_names() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == list(LAB.nodes) == ["node1", "node2", "node3"]


def test_systemd_has_booted(host: Any) -> None:
    assert host.file("/proc/1/comm").content_string.strip() == "systemd"
    assert host.run("systemctl is-active multi-user.target").stdout.strip() == "active"


def test_nothing_is_installed(host: Any) -> None:
    for program in ("docker", "dockerd", "nvidia-smi", "nvidia-ctk"):
        assert not host.exists(program)
    assert not host.file("/opt/llm").exists


def test_two_networks_and_no_way_out(host: Any) -> None:
    node = LAB.nodes[host.check_output("hostname")]
    addresses = host.check_output("ip -brief -4 address")
    assert f"{node.mgmt}/24" in addresses
    assert f"{node.data}/24" in addresses
    # Some engines give such a host a default route all the same; what is internal forwards nothing.
    networks = docker.from_env().networks
    assert all(networks.get(f"{LAB.name}-{name}").attrs["Internal"] for name in LAB.networks)


def test_the_cards_are_on_the_bus(host: Any) -> None:
    node = LAB.nodes[host.check_output("hostname")]
    cards = host.check_output("grep -l 0x10de /etc/lab/sys/bus/pci/devices/*/vendor").splitlines()
    assert len(cards) == node.gpus


def test_the_bundle_is_there() -> None:
    manifest = (LAB_BUNDLE / "manifest.yml").read_text()
    for kind in ("docker", "driver", "image", "model", "nvidia_container_toolkit", "os_packages"):
        assert f"kind: {kind}\n" in manifest
