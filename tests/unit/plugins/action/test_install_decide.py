"""What the roles nvidia_driver, docker and nvidia_container_toolkit do on a host: from their defaults, the bundle and what they found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import trust_as_template
from ansible_collections.baremetal.llm.plugins.action import install_decide

ROLES = Path(__file__).resolve().parents[4] / "roles"
DEBIAN = {
    "distribution": "Debian",
    "distribution_version": "12.9",
    "distribution_major_version": "12",
    "distribution_release": "bookworm",
    "os_family": "Debian",
    "architecture": "x86_64",
}
ROCKY = {**DEBIAN, "distribution": "Rocky", "distribution_major_version": "9", "os_family": "RedHat"}
OF_DEBIAN = {"distribution": "debian", "release": "12", "arch": "amd64"}
BUNDLE = [
    {"kind": "docker", "version": "28.5.1", "path": "docker/docker-28.5.1.tgz"},
    {"kind": "nvidia_container_toolkit", "version": "1.17.8", "path": "toolkit/t.tar.gz"},
    {"kind": "driver", "method": "runfile", "version": "570.195.03", "path": "driver/N.run"},
    {"kind": "driver", "method": "packages", **OF_DEBIAN, "version": "550.1.1", "path": "driver/a_550.1.1_amd64.deb"},
    {"kind": "os_packages", **OF_DEBIAN, "path": "os_packages/linux-headers-6.1.0-40-amd64_1_amd64.deb"},
]
DAEMON = {"log-driver": "json-file", "log-opts": {"max-size": "50m", "max-file": "3"}, "live-restore": True}
NOTHING: dict[str, Any] = {"units": [], "config": {}, "held": 0, "flags": {}}
UNIT = "/etc/systemd/system/docker.service"
HOST = {
    "packages": {},
    "held": [],
    "broken": [],
    "runfile": False,
    "unowned": False,
    "kernel": "6.1.0-40-amd64",
    "headers": False,
    "module": False,
    "programs": {"gcc": True, "make": True},
    "secure_boot": False,
}
DRIVER = {"loaded": None, "installed": None, "kernel_module": None, "mismatch": False}


def gpus(**driver: Any) -> dict[str, Any]:
    """What gpu_facts and driver_facts find on a host with a V100."""
    card = {"name": "Tesla V100", "compute_capability": "7.0"}
    return {"gpus": {"gpus": [card], "driver": {**DRIVER, **driver}, "nvswitches": 0}, "driver": HOST}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    files = [{**record, "sha256": f"{number}" * 64, "size": 1} for number, record in enumerate(BUNDLE)]
    (tmp_path / "manifest.yml").write_text(yaml.safe_dump({"schema": 1, "files": files}))
    return tmp_path


def decide(
    role: str, bundle: Path | None, found: Mapping[str, Any], facts: Mapping[str, Any] = DEBIAN, **said: Any
) -> dict[str, Any]:
    """The result of the action for a role that is used alone: its own defaults, and what a play says."""
    variables: dict[str, Any] = {}
    for name in ("common", role):
        variables |= yaml.safe_load((ROLES / name / "defaults/main.yml").read_text(encoding="utf-8"))
    task = Task()
    task.args = {"role": role, "found": dict(found)}
    action = install_decide.ActionModule(
        task, SimpleNamespace(_shell=SimpleNamespace(tmpdir="")), None, DataLoader(), None
    )
    action._load_name = "install_decide"
    result: dict[str, Any] = action.run(
        task_vars={
            **variables,
            **({"llm_bundle_dir": str(bundle)} if bundle else {}),
            "ansible_facts": facts,
            "inventory_hostname": "gpu01",
            **said,
        }
    )
    assert not result.get("changed")
    return result


# -- docker -----------------------------------------------------------------------------------------------------------
def test_the_engine_of_the_bundle(bundle: Path) -> None:
    found = decide("docker", bundle, NOTHING)
    folder = "/usr/local/lib/docker-engine"
    assert (found["wanted"], found["version_dir"], found["mark"]) == (
        "28.5.1",
        f"{folder}/28.5.1",
        f"{folder}/28.5.1/.complete-000000000000",
    )
    assert found["packages"] == ["iptables", "libdevmapper1.02.1", "libseccomp2", "python3-requests"]
    assert found["daemon_options"] == DAEMON
    assert (found["other_kind"], found["packaged"], found["damaged"]) == (False, False, False)
    assert found["left"] == {
        "settings": {"/etc/docker/daemon.json": DAEMON},
        "paths": [
            "/etc/systemd/system/containerd.service",
            UNIT,
            f"{folder}/current",
            "/etc/docker/llm-engine.env",
            "/opt/llm/bundle/docker/docker-28.5.1.tgz",
        ],
        "trees": [f"{folder}/28.5.1"],
        "links": [f"/usr/local/bin/* -> {folder}/current"],
        "groups": ["docker"],
        "units": ["containerd.service", "docker.service"],
        "started": {
            "containerd.service": [
                "/etc/systemd/system/containerd.service",
                f"{folder}/current",
                "/etc/docker/llm-engine.env",
            ],
            "docker.service": [UNIT, f"{folder}/current", "/etc/docker/llm-engine.env"],
        },
    }


def test_an_engine_that_is_older_than_its_files_is_named(bundle: Path) -> None:
    differs = {
        "llm_records": {"docker": {"differs": ["started docker.service", "paths /etc/systemd/system/docker.service"]}}
    }
    assert decide("docker", bundle, NOTHING)["older"] == []
    assert decide("docker", bundle, NOTHING, facts={**DEBIAN, **differs})["older"] == ["docker.service"]


def test_what_a_play_says_counts(bundle: Path) -> None:
    found = decide(
        "docker",
        bundle,
        NOTHING,
        docker_packages=[],
        docker_log_max_files=trust_as_template("{{ 2 + 3 }}"),
        docker_data_root="/data",
        docker_registry_mirrors=["https://m"],
        docker_address_pools=[{"base": "10.9.0.0/16", "size": 24}],
        docker_daemon_options={"log-opts": {"compress": "true"}, "live-restore": False},
    )
    assert found["packages"] == []
    assert found["daemon_options"] == {
        "log-driver": "json-file",
        "log-opts": {"max-size": "50m", "max-file": "5", "compress": "true"},
        "live-restore": False,
        "data-root": "/data",
        "registry-mirrors": ["https://m"],
        "default-address-pools": [{"base": "10.9.0.0/16", "size": 24}],
    }


def test_a_packaged_engine_needs_no_bundle() -> None:
    found = decide("docker", None, NOTHING, docker_method="packages")
    assert (found["wanted"], found["packaged"]) == ("", True)
    assert found["left"]["packages"] == found["packages"] == ["docker.io", "python3-requests"]
    assert found["left"]["paths"] == [
        "/etc/systemd/system/containerd.service.d/baremetal-llm.conf",
        "/etc/docker/llm-engine.env",
        "/etc/systemd/system/docker.service.d/baremetal-llm.conf",
    ]
    present = decide("docker", None, {**NOTHING, "units": [UNIT]}, docker_method="present")
    assert (present["other_kind"], present["left"]["units"]) == (False, ["docker.service"])
    assert not {"paths", "packages", "trees"} & set(present["left"])


def test_an_engine_of_the_other_kind_makes_room_where_that_is_allowed(bundle: Path) -> None:
    packaged = {**NOTHING, "units": ["/usr/lib/systemd/system/docker.service"]}
    assert decide("docker", bundle, packaged)["method"] == "present"
    asked = {"docker_method": "static"}
    assert "has a Docker Engine already" in decide("docker", bundle, packaged, **asked)["msg"]
    assert decide("docker", bundle, packaged, docker_switch_enabled=True, **asked)["other_kind"]
    static = {**NOTHING, "units": [UNIT], "ours": [UNIT]}
    assert not decide("docker", bundle, static)["other_kind"]
    assert decide("docker", None, static, docker_method="packages", docker_switch_enabled="yes")["other_kind"]
    by_hand = {**NOTHING, "units": [UNIT]}
    assert decide("docker", bundle, by_hand)["method"] == "present"
    assert "has a Docker Engine already" in decide("docker", bundle, by_hand, **asked)["msg"]


def test_everything_that_is_wrong_with_the_engine_is_told_at_once() -> None:
    found = {"units": ["/lib/systemd/system/docker.service"], "config": {"data-root": "/old"}, "held": 2, "flags": {}}
    refused = decide("docker", None, found, docker_method="static", docker_data_root="/new", llm_language="zh")
    assert refused["failed"]
    for part in ("gpu01", "3. ", "/old"):
        assert part in refused["msg"]
    allowed = decide("docker", None, {**found, "units": []}, docker_method="present", docker_data_root="/old")
    assert allowed["daemon_options"]["data-root"] == "/old"


def test_what_the_record_says_of_programs_that_are_others(bundle: Path) -> None:
    def damaged(*differs: str) -> bool:
        facts = {**DEBIAN, "llm_records": {"docker": {"differs": list(differs)}}}
        return bool(decide("docker", bundle, NOTHING, facts)["damaged"])

    assert damaged("units docker.service", "trees /usr/local/lib/docker-engine/28.5.1")
    assert not damaged("units docker.service")


# -- the container toolkit --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("engine", "enabled", "cdi", "options"),
    [
        ("28.5.1", True, True, {}),
        ("27.5.1", True, True, {"features": {"cdi": True}}),
        ("27.5.1", False, False, {}),
        ("20.10.24", True, False, {}),
        ("", True, False, {}),
    ],
)
def test_the_toolkit_of_the_bundle(
    bundle: Path, engine: str, enabled: bool, cdi: bool, options: dict[str, Any]
) -> None:
    found = decide("nvidia_container_toolkit", bundle, {"engine": engine}, nvidia_container_toolkit_cdi_enabled=enabled)
    assert (found["wanted"], found["packages"], found["cdi"]) == ("1.17.8", [], cdi)
    assert found["daemon_options"] == {"runtimes": {"nvidia": {"runtimeArgs": None}}, **options}
    unit = "/etc/systemd/system/llm-gpu-devices.service"
    assert found["left"]["paths"] == ["/etc/cdi/nvidia.yaml", unit, "/opt/llm/bundle/toolkit/t.tar.gz"]
    assert found["left"]["units"] == ["llm-gpu-devices.service"]
    assert "nvidia-docker2" in found["old_packages"]


def test_the_toolkit_from_its_publisher() -> None:
    said = {"nvidia_container_toolkit_method": "repository", "nvidia_container_toolkit_version": "1.17.8"}
    assert "llm_offline" in decide("nvidia_container_toolkit", None, {}, **said)["msg"]
    found = decide("nvidia_container_toolkit", None, {}, llm_offline=False, **said)
    assert "nvidia-container-toolkit=1.17.8" in found["packages"]
    assert found["left"]["packages"] == found["packages"]
    assert found["repository"]["suite"] == "/"
    named = decide(
        "nvidia_container_toolkit", None, {}, llm_offline=False, nvidia_container_toolkit_packages=["p"], **said
    )
    assert named["packages"] == ["p"]


# -- the driver -------------------------------------------------------------------------------------------------------
def test_the_installer_of_the_bundle(bundle: Path) -> None:
    found = decide("nvidia_driver", bundle, gpus(), nvidia_driver_runfile_options=["--no-drm"])
    assert (found["wanted"], found["install"], found["by_packages"]) == ("570.195.03", True, False)
    assert found["match"] == {"method": "runfile", "version": "570.195.03"}
    assert found["build_packages"] == ["linux-headers-6.1.0-40-amd64"]
    assert found["runfile_options"][-2:] == ["--kernel-module-type=proprietary", "--no-drm"]
    assert (found["apt_environment"], found["new_kernel_module"]) == ({}, "")
    assert found["left"]["units"] == ["nvidia-persistenced.service"]
    assert len(found["left"]["paths"]) == 7


@pytest.mark.parametrize(("version", "option"), [("550.163.01", False), ("560.28.03", True), ("580.95.05", True)])
def test_the_installer_is_told_the_kind_of_module_where_it_knows_that(bundle: Path, version: str, option: bool) -> None:
    runs = gpus(installed=version, loaded=version, kernel_module="proprietary")
    found = decide("nvidia_driver", bundle, runs, nvidia_driver_version=version)
    assert ("--kernel-module-type=proprietary" in found["runfile_options"]) is option


def test_a_kind_of_module_that_takes_the_place_of_another_has_to_be_loaded(bundle: Path) -> None:
    runs = gpus(installed="570.195.03", loaded="570.195.03", kernel_module="open")
    found = decide("nvidia_driver", bundle, runs, nvidia_driver_method="runfile")
    assert (found["install"], found["new_kernel_module"]) == (True, "proprietary")


def test_the_packages_of_the_bundle_for_this_system(bundle: Path) -> None:
    said = {
        "nvidia_driver_method": "packages",
        "nvidia_driver_build_packages": ["h"],
        "nvidia_driver_kernel_module": "proprietary",
    }
    found = decide("nvidia_driver", bundle, gpus(), **said)
    assert (found["wanted"], found["match"]) == ("550.1.1", {"method": "packages", **OF_DEBIAN, "version": "550.1.1"})
    assert found["apt_environment"] == {"APT_CONFIG": "/opt/llm/apt/apt.conf"}
    assert found["new_kernel_module"] == "proprietary"
    assert found["apt_packages"] == found["packages"]
    of_rocky = decide("nvidia_driver", bundle, gpus(), ROCKY, **said)
    assert "Rocky 9" in of_rocky["msg"]


def test_dnf_takes_one_version_of_everything() -> None:
    said = {"nvidia_driver_method": "repository", "nvidia_driver_version": "570.195.03", "llm_offline": False}
    found = decide("nvidia_driver", None, gpus(), ROCKY, nvidia_driver_fabric_manager="enabled", **said)
    assert found["dnf_packages"] == [
        "kmod-nvidia-latest-dkms-570.195.03*",
        "nvidia-driver-cuda-570.195.03*",
        "nvidia-persistenced-570.195.03*",
        "nvidia-fabricmanager-570.195.03*",
    ]
    assert found["dnf_needs"] == ["kernel-devel-6.1.0-40-amd64", "python3-dnf-plugin-versionlock"]
    assert found["left"]["units"] == ["nvidia-persistenced.service", "nvidia-fabricmanager.service"]
    loose = decide("nvidia_driver", None, gpus(), ROCKY, nvidia_driver_hold_enabled=False, **said)
    assert "python3-dnf-plugin-versionlock" not in loose["dnf_needs"]


def test_a_driver_that_is_there_is_left_as_it_is() -> None:
    runs = gpus(installed="535.1.1", loaded="535.1.1", kernel_module="open")
    found = decide("nvidia_driver", None, runs, nvidia_driver_method="present", nvidia_driver_kernel_module="open")
    assert (found["install"], found["wanted"], found["new_kernel_module"]) == (False, "", "")
    assert found["left"] == {"driver": ["nvidia"], "paths": [], "units": []}


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"nvidia_driver_version": "580.1.1"}, "holds no driver with"),
        ({"nvidia_driver_version": "590.44.01"}, "R580 is the last branch"),
        ({"llm_gpus": [{"compute_capability": "10.0"}]}, "7.0, 10.0"),
        ({"llm_bundle_dir": ""}, "nvidia_driver_version"),
        (
            {
                "nvidia_driver_method": "repository",
                "nvidia_driver_version": "570.195.03",
                "nvidia_driver_repository_url": "https://mirror",
            },
            "nvidia_driver_repository_url: https://mirror",
        ),
    ],
)
def test_what_a_host_cannot_have(bundle: Path, said: dict[str, Any], part: str) -> None:
    refused = decide("nvidia_driver", bundle, gpus(), **said)
    assert refused["failed"]
    assert part in refused["msg"]


def test_a_refusal_in_another_language(bundle: Path) -> None:
    secured = {**gpus(), "driver": {**HOST, "secure_boot": True}}
    assert "mokutil" in decide("nvidia_driver", bundle, secured)["msg"]
    assert "安全启动" in decide("nvidia_driver", bundle, secured, llm_language="zh")["msg"]
