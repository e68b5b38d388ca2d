"""What `auto` means on a host: what fits stays, what this collection has installed it goes on to manage."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.docker import DROP_IN, STATIC_UNIT, decide_engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.driver import decide_driver
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import BUNDLED, for_bundle, method_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.toolkit import decide_toolkit

from tests.support.roles import defaults

ROLES = sorted(BUNDLED)
NOTHING: dict[str, Any] = {"ours": "", "fits": False, "bundled": False, "offline": False, "has_repository": True}
UBUNTU = {
    "distribution": "Ubuntu",
    "distribution_version": "22.04",
    "distribution_major_version": "22",
    "distribution_release": "jammy",
    "os_family": "Debian",
    "architecture": "x86_64",
}
PACKAGE_UNIT = "/usr/lib/systemd/system/docker.service"


@pytest.mark.parametrize("role", ROLES)
def test_the_order_of_what_counts(role: str) -> None:
    own = BUNDLED[role]
    assert method_of(role, "packages", **{**NOTHING, "ours": own, "fits": True}) == "packages"
    assert method_of(role, "auto", **{**NOTHING, "ours": "repository", "fits": True}) == "repository"
    assert method_of(role, "auto", **{**NOTHING, "fits": True, "bundled": True}) == "present"
    assert method_of(role, "auto", **{**NOTHING, "bundled": True}) == own
    assert method_of(role, "auto", **{**NOTHING, "offline": True}) == own
    assert method_of(role, "auto", **NOTHING) == "repository"
    assert method_of(role, "auto", **{**NOTHING, "has_repository": False}) == "packages"
    # A host without internet can lack all of it.
    assert for_bundle(role, "auto") == own
    assert for_bundle(role, "present") == "present"


def engine(units: list[str], ours: list[str] = (), **variables: Any) -> dict[str, Any]:  # type: ignore[assignment]
    found = {"units": units, "ours": ours, "config": {}, "held": 0, "flags": {}}
    mine = {**defaults("docker"), **defaults("common"), "ansible_facts": UBUNTU, "inventory_hostname": "h", **variables}
    section, refused = decide_engine(mine, list, found)
    assert refused == ""
    return section


def test_an_engine_that_somebody_has_installed_stays() -> None:
    online = {"llm_offline": False}
    assert engine([PACKAGE_UNIT], **online)["method"] == "present"
    assert engine([PACKAGE_UNIT], **online)["other_kind"] is False
    assert engine([PACKAGE_UNIT], [DROP_IN], **online)["method"] == "packages"
    assert (
        engine([PACKAGE_UNIT], [DROP_IN, "/etc/apt/sources.list.d/docker.sources"], **online)["method"] == "repository"
    )
    assert engine([], **online)["method"] == "repository"
    # A unit in /etc alone says nothing: others put theirs there, too.
    assert engine([STATIC_UNIT], **online)["method"] == "present"
    assert engine([STATIC_UNIT, PACKAGE_UNIT], **online)["method"] == "present"
    # An archive of the role's own that somebody has hidden behind a package is mended as before.
    static = {"docker_method": "static", "docker_version": "28.5.1", "docker_switch_enabled": True}
    assert engine([STATIC_UNIT, PACKAGE_UNIT], [STATIC_UNIT], **static)["other_kind"]
    assert not engine([STATIC_UNIT], [STATIC_UNIT], **static)["other_kind"]


def test_a_toolkit_that_somebody_has_installed_stays() -> None:
    def method(toolkit: str, ours: list[str], records: dict[str, Any] | None = None, **variables: Any) -> str:
        facts = {**UBUNTU, "llm_records": records or {}}
        mine = {
            **defaults("nvidia_container_toolkit"),
            **defaults("common"),
            "llm_offline": False,
            "inventory_hostname": "h",
        }
        section, refused = decide_toolkit(
            {**mine, "ansible_facts": facts, **variables}, list, {"engine": "28.5.1", "toolkit": toolkit, "ours": ours}
        )
        assert refused == ""
        return str(section["method"])

    said = "NVIDIA Container Toolkit CLI version 1.17.8"
    sources = ["/etc/apt/sources.list.d/nvidia-container-toolkit.sources"]
    assert method("", []) == "repository"
    assert method(said, []) == "present"
    assert method(said, sources) == "present"  # of NVIDIA's own instructions
    assert method(said, sources, {"nvidia_container_toolkit": {}}) == "repository"
    assert (
        method(said, ["/opt/llm/bundle/nvidia_container_toolkit/x.tar.gz"], nvidia_container_toolkit_version="1.17.8")
        == "bundle"
    )
    assert method(said, [], nvidia_container_toolkit_version="1.18.0") == "repository"


@pytest.mark.parametrize(
    ("driver", "source", "version", "method"),
    [
        ({"loaded": "570.195.03", "installed": "570.195.03"}, "nvidia-smi", "", "present"),
        ({"loaded": "570.195.03", "installed": "570.195.03"}, "nvidia-smi", "570.195.03", "present"),
        ({"loaded": "570.195.03", "installed": "570.195.03"}, "nvidia-smi", "580.95.05", "repository"),
        ({"loaded": "570.195.03", "installed": "580.95.05", "mismatch": True}, "nvidia-smi", "", "repository"),
        ({"loaded": "610.43.02", "installed": "610.43.02"}, "nvidia-smi", "", "repository"),  # too new for a V100
        ({"loaded": "570.195.03", "installed": "570.195.03"}, "pci", "", "repository"),  # it answers nobody
        ({}, "pci", "", "repository"),
    ],
)
def test_a_driver_that_drives_all_gpus_stays(driver: dict[str, Any], source: str, version: str, method: str) -> None:
    gpu = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
    gpus = {"driver": driver, "source": source, "gpus": [gpu], "problems": [], "nvswitches": 0}
    host = {
        "packages": [],
        "broken": [],
        "runfile": False,
        "unowned": False,
        "kernel": "5.15.0-1",
        "headers": True,
        "module": False,
        "programs": {},
        "secure_boot": False,
        "ours": [],
    }
    mine = {**defaults("nvidia_driver"), **defaults("common"), "ansible_facts": UBUNTU, "inventory_hostname": "h"}
    mine |= {"llm_offline": False, "nvidia_driver_version": version}
    section, _refused = decide_driver(mine, list, {"gpus": gpus, "driver": host})
    assert section["method"] == method
    assert section["install"] is (method != "present")
    if method == "repository" and not version:
        # The branch that is recommended for the card names the packages.
        assert "nvidia-headless-570-server" in section["packages"]
