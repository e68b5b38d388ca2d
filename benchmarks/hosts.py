# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are not fresh against what is asked of them: no decision stops what runs, removes what is somebody else's, or leaves a file with which
its program does not start.

usage: python benchmarks/hosts.py [--count N] [--seed N] [--dockerd PROGRAM]

Each case draws what is there (an engine by packages, static archive, snap or none; its flags, daemon.json and swarm; packages and units of others;
mounts, Secure Boot, compilers, GPUs; settings of the kernel, its modules, apt and packet filters; machine or container) and what is asked (methods and
variables of the roles docker and nvidia_driver), and puts both through preflight and
the decisions of these roles, as a run does. What preflight or a role refuses, is not decided. Of what is decided is counted:

  stopped   a service of others that stops: a restart of an engine in a swarm, an engine that makes room without being asked to, containerd of others
  removed   packages or drivers that the collection has not installed, without its variable for that
  invalid   daemon.json that its own command line, or ``dockerd --validate`` where --dockerd names an engine since 23.0, does not go with; sources of apt
            that apt does not read, because two of them name different keys for one repository
  useless   what cannot work there: a driver for a kernel that loads none, an engine whose containers start no threads, files without a place in the file
            system's table

Exit status 1 where one of the four is not 0, or where too few cases were decided to mean anything.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE / ".collections"), str(HERE)]

from ansible_collections.baremetal.llm.plugins.module_utils import _daemon_json  # noqa: E402
from ansible_collections.baremetal.llm.plugins.module_utils._engine_flags import arguments, colliding  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.docker import decide_engine  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.driver import plan_driver  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import check_hosts  # noqa: E402

from tests.support.host_reports import BARE_DRIVER, CARD, ENGINE, LIMITS  # noqa: E402

COUNT, SEED = 500, 38
# Fewer decided cases say that everything is refused, which is no way to be safe.
LEAST_DECIDED = 0.25
DROP_IN = "/etc/systemd/system/docker.service.d/override.conf"
FLAGS: dict[str, tuple[str, ...]] = {
    "log-driver": ("--log-driver=journald", "--log-driver=json-file"),
    "log-opts": ("--log-opt max-size=10m",),
    "live-restore": ("--live-restore",),
    "data-root": ("--data-root /data/docker",),
    "default-address-pools": ("--default-address-pool base=10.201.0.0/16,size=24",),
    "registry-mirrors": ("--registry-mirror=https://mirror.example.org",),
    "runtimes": ("--add-runtime nvidia=/usr/bin/nvidia-container-runtime", "--add-runtime oci=/usr/bin/oci"),
    "selinux-enabled": ("--selinux-enabled",),
    "hosts": ("-H fd://",),
}
CONFIGS: tuple[dict[str, Any], ...] = (
    {},
    {"live-restore": True},
    {"log-driver": "journald", "log-opts": {"tag": "x"}},
    {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}},
    {"userns-remap": "default"},
    {"data-root": "/data/docker"},
    {"bip": "10.99.0.1/24"},
    {"insecure-registries": ["10.0.0.9:5000"]},
)
ASKED: tuple[dict[str, Any], ...] = (
    {},
    {"docker_daemon_options": {"live-restore": True}},
    {"docker_daemon_options": {"log-driver": "local"}},
    {"docker_data_root": "/data/docker"},
    {"docker_data_root": "/mnt/big"},
    {"docker_address_pools": [{"base": "10.213.0.0/16", "size": 24}]},
    {"docker_registry_mirrors": ["https://registry.example.org"]},
    {"docker_switch_enabled": True},
)
FOREIGN = (
    {},
    {"podman": "4.9.4", "runc": "1.1.12"},
    {"containerd": "1.6.20", "kubelet": "1.31.2", "runc": "1.1.5"},
    {"podman-docker": "4.9.4"},
)
FACTS = {
    "distribution": "Debian",
    "distribution_version": "12.5",
    "distribution_major_version": "12",
    "distribution_release": "bookworm",
    "os_family": "Debian",
    "architecture": "x86_64",
    "pkg_mgr": "apt",
}
REPOSITORY = {"path": "/etc/apt/sources.list.d/docker.list", "url": "https://download.docker.com/linux/debian"}
# Sources of apt that others left: none, with the key of the role, with another one, of another release, and two that do not go together.
OTHERS_KEY = "/usr/share/keyrings/docker-archive-keyring.gpg"
SOURCES: tuple[list[dict[str, str]], ...] = (
    *([],) * 20,
    [{**REPOSITORY, "suite": "bookworm", "signed_by": "/etc/apt/keyrings/docker.asc"}],
    [{**REPOSITORY, "suite": "bookworm", "signed_by": OTHERS_KEY}],
    [{**REPOSITORY, "suite": "bookworm", "signed_by": ""}],
    [{**REPOSITORY, "suite": "bullseye", "signed_by": OTHERS_KEY}],
    [
        {**REPOSITORY, "suite": "bookworm", "signed_by": OTHERS_KEY},
        {**REPOSITORY, "path": "/etc/apt/sources.list.d/old.list", "suite": "bookworm", "signed_by": ""},
    ],
)
KERNELS = ("6.1.0-40-amd64",) * 39 + ("5.15.167.4-microsoft-standard-WSL2",)
LOCKS: tuple[dict[str, Any], ...] = (
    *({},) * 37,
    {"kernel_settings": {"kernel.modules_disabled": 1}},
    {"lockdown": "integrity"},
    {
        "blocked_modules": [
            {"module": "nvidia", "said": "alias nvidia off", "path": "/lib/modprobe.d/x.conf", "wholly": True}
        ]
    },
)
# What is worth a word, and stops nothing.
REMARKS: tuple[dict[str, Any], ...] = (
    {},
    {"packet_filters": {"legacy": ["filter", "nat"], "program": "nf_tables"}},
    {"kernel_settings": {"kernel.numa_balancing": 1}, "numa_nodes": 2},
    {"memory": {"total_mib": 128000, "hugepages_mib": 64000}},
    {"resolver": {"nameservers": [], "search": [], "missing": "../run/systemd/resolve/stub-resolv.conf"}},
    {"cpu_missing": ["avx2"]},
    {"automatic_upgrades": True, "automatic_reboot": True},
    {"clock_synchronized": False},
)
ARCHIVE = {"kind": "docker", "version": "28.5.1", "path": "docker/docker-28.5.1.tgz", "sha256": "0" * 64, "size": 1}


class Case:
    """One host and what is asked of it."""

    def __init__(self, draw: random.Random) -> None:
        self.engine = draw.choice(("", "packages", "packages", "static", "snap", "foreign_static"))
        self.flags = {}
        if self.engine in ("packages", "foreign_static"):
            for directive in draw.sample(sorted(FLAGS), draw.choice((0, 0, 1, 2, 3))):
                self.flags[directive] = {
                    "said": draw.choice(FLAGS[directive]),
                    "path": draw.choice((DROP_IN, "/etc/sysconfig/docker")),
                }
        self.config = dict(draw.choice(CONFIGS)) if self.engine else {}
        # An engine that runs does so with its flags and its file.
        for directive in colliding(self.flags, self.config):
            self.config.pop(directive)
        self.swarm = (
            draw.choice(("inactive", "inactive", "active")) if self.engine and not self.live_restore else "inactive"
        )
        self.packages = dict(draw.choice(FOREIGN))
        if self.engine == "packages":
            self.packages |= {"docker.io": "20.10.24", "containerd": "1.6.20", "runc": "1.1.5"}
        self.kubernetes = "kubelet" in self.packages
        self.method = draw.choice(("auto", "auto", "auto", "present", "packages", "repository", "static"))
        self.offline = draw.random() < 0.6
        self.bundled = draw.random() < 0.7
        self.asked = dict(draw.choice(ASKED))
        self.held = draw.choice((0, 0, 12))
        self.driver = draw.choice(("", "", "packages", "runfile"))
        self.driver_method = draw.choice(("auto", "present", "packages", "runfile"))
        self.noexec = draw.random() < 0.1
        self.secure_boot = draw.random() < 0.1
        self.gpu = draw.choice(
            ({}, {}, {}, {"mig_enabled": True}, {"persistence_enabled": False}, {"fabric_state": "In Progress"})
        )
        self.gcc = draw.choice((("12", "12"), ("12", "11"), ("", "")))
        self.version = draw.choice(("28.5.1", "28.5.1", *("26.1.5",) * 16, "20.10.7")) if self.engine else ""
        self.sources = list(draw.choice(SOURCES))
        self.kernel = draw.choice(KERNELS)
        self.container = draw.choice((*("",) * 39, "lxc"))
        self.lock = dict(draw.choice(LOCKS)) if not self.container else {}
        self.remark = {**draw.choice(REMARKS), **self.lock}
        self.free_inodes = draw.choice((None, *(61_000_000,) * 28, 250))
        self.slurm = draw.random() < 0.1

    @property
    def live_restore(self) -> bool:
        return self.config.get("live-restore") is True or "live-restore" in self.flags

    @property
    def installed_by(self) -> str:
        return {"foreign_static": "static"}.get(self.engine, self.engine)

    @property
    def units(self) -> list[str]:
        found = {"packages": ["/lib/systemd/system/docker.service"], "static": ["/etc/systemd/system/docker.service"]}
        # Somebody else's from an archive looks like ours, but for the record and the files of the role.
        return found.get(self.installed_by, [])

    def preflight(self) -> list[str]:
        """The errors that end a run before the first change."""
        engine = {
            "installed_by": self.installed_by,
            "flags": self.flags,
            "config": self.config,
            "swarm": self.swarm,
            "version": self.version,
        }
        mount = {
            "path": "/opt/llm",
            "mount": "/opt",
            "type": "ext4",
            "options": ["rw", *(["noexec"] if self.noexec else [])],
        }
        host = {
            "engine": engine,
            "packages": self.packages,
            "mounts": [{**mount, "ftype": None}],
            "units": {
                **({"containerd.service": "active", "kubelet.service": "active"} if self.kubernetes else {}),
                **({"slurmd.service": "active"} if self.slurm else {}),
            },
            "package_sources": self.sources,
            "kernel": self.kernel,
            "container": self.container,
            **self.remark,
            "secure_boot": self.secure_boot,
            "module": {},
            "ssh_client": "10.0.0.250",
            "routes": [{"network": "10.0.0.0/24", "interface": "eth0"}],
        }
        loaded = "570.195.03" if self.driver else None
        facts = {
            **FACTS,
            "llm_nics_found": [
                {"name": "eth0", "addresses": ["10.0.0.1/24"], "speed_mbps": 10000, "mtu": 1500, "up": True}
            ],
            "llm_gpus_found": [{"index": 0, **CARD, **(self.gpu if loaded else {})}],
        }
        settings = {
            "host": host,
            "gpu": {"driver": {"loaded": loaded}, "nvswitches": 0},
            "docker_method": self.method,
            "offline": self.offline,
            "driver_method": self.driver_method,
            "docker_address_pools": self.asked.get("docker_address_pools", []),
            "toolkit_method": "present",
            "disks": [self.disk],
        }
        found = check_hosts({"x": {"hosts": ["gpu01"], "head": "gpu01"}}, {"gpu01": facts}, {"gpu01": settings}, LIMITS)
        return [entry["code"] for entry in found["problems"]]

    @property
    def disk(self) -> dict[str, Any]:
        """Where the images come to."""
        room = {"mount": "/", "available_bytes": 1 << 40, "total_bytes": 1 << 41, "free_inodes": self.free_inodes}
        return {**room, "needs": {"/var/lib/docker": 20 << 30}, "needed_bytes": 20 << 30}

    def decide_engine(self) -> tuple[dict[str, Any], str]:
        variables = {**ENGINE, "docker_method": self.method, "llm_offline": self.offline, **self.asked}
        variables["ansible_facts"] = FACTS
        variables["llm_bundle_dir"] = "/srv/bundle" if self.bundled else ""
        found = {
            "units": self.units,
            "ours": [],
            "config": self.config,
            "held": self.held,
            "flags": self.flags,
            "swarm": self.swarm,
            "installed_by": self.installed_by,
        }
        return decide_engine(variables, lambda: [ARCHIVE] if self.bundled else [], found)

    def decide_driver(self) -> dict[str, Any]:
        kernel_gcc, gcc = self.gcc
        installed = {"nvidia-driver-570": "570.195.03"} if self.driver == "packages" else {}
        host = {
            **BARE_DRIVER,
            "packages": installed,
            "runfile": self.driver == "runfile",
            "kernel_gcc": kernel_gcc,
            "gcc": gcc,
        }
        loaded = "570.195.03" if self.driver else None
        driver = {"loaded": loaded, "installed": loaded, "branch": "570", "kernel_module": "open", "mismatch": False}
        method = self.driver_method
        if method == "auto":
            method = "present" if loaded else "runfile"
        wish = {"method": method, "version": "570.195.03" if method != "present" else "", "capabilities": ["9.0"]}
        wish |= {
            "distribution": "Debian",
            "os_family": "Debian",
            "offline": self.offline,
            "bundled_files": ["gcc-12_12_amd64.deb"],
        }
        return plan_driver({**host, "secure_boot": self.secure_boot}, {"driver": driver, "nvswitches": 0}, wish)


def validated(dockerd: str, config: Mapping[str, Any], flags: Mapping[str, Mapping[str, str]]) -> str:
    """Why the engine would not start with it; nothing where it would."""
    collisions = colliding(flags, config)
    if collisions or not dockerd:
        return ", ".join(collisions)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as stream:
        json.dump(config, stream)
        stream.flush()
        command = [dockerd, "--validate", "--config-file", stream.name, *arguments(flags)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip()[-200:] if done.returncode else ""


def unreadable(sources: list[dict[str, str]], repository: Mapping[str, str] | None) -> str:
    """Why apt would read none of its sources, with that of the role among them; nothing where it would."""
    keys: dict[tuple[str, str], str] = {}
    mine = [{**repository, "signed_by": "/etc/apt/keyrings/docker.asc"}] if repository else []
    for entry in (*sources, *mine):
        place = (entry["url"].rstrip("/"), entry["suite"])
        if keys.setdefault(place, entry["signed_by"]) != entry["signed_by"]:
            return f"two keys for {place[0]} {place[1]}"
    return ""


def useless(case: Case, section: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[str]:
    """What is decided and cannot work."""
    installs = bool(plan["install"]) and not plan["problems"]
    if installs and not case.driver and (case.lock or case.container or "microsoft" in case.kernel):
        yield "a driver that the kernel does not load"
    stays = section["method"] in ("present", "packages") and case.installed_by == "packages"
    if stays and case.version == "20.10.7":
        yield "an engine whose containers start no threads"
    if case.free_inodes == 250:
        yield "files without a place"


def judge(case: Case, dockerd: str) -> tuple[str, list[str]]:
    """refused or decided, and what is wrong with what was decided."""
    if case.preflight():
        return "refused by preflight", []
    section, refused = case.decide_engine()
    if refused:
        return "refused by the role docker", []
    wrong = []
    config = _daemon_json.merge(case.config, section["daemon_options"])
    config = _daemon_json.merge(config, {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}})
    stays = section["method"] != "static"  # which writes the unit anew
    flags = (
        case.flags
        if stays
        else {name: flag for name, flag in case.flags.items() if "/docker.service.d/" in flag["path"]}
    )
    why = validated(dockerd, config, flags)
    if why:
        wrong.append(f"invalid: {why}")
    if case.swarm == "active" and config.get("live-restore"):
        wrong.append("invalid: live-restore in a swarm")
    switch = bool(case.asked.get("docker_switch_enabled"))
    if section["other_kind"] and not switch:
        wrong.append("stopped: an engine makes room")
    if case.swarm == "active" and section["other_kind"] and not switch:
        wrong.append("stopped: services of a swarm")
    if (
        case.kubernetes
        and section["method"] in ("static", "repository")
        and case.engine != "packages"
        and not case.installed_by
    ):
        wrong.append("stopped: containerd of Kubernetes")
    if section["method"] == "repository" and {"runc", "containerd", "podman-docker"} & set(case.packages):
        wrong.append("removed: packages of others")
    why = unreadable(case.sources, section.get("repository"))
    if why and section["method"] in ("packages", "repository") and not case.engine:
        wrong.append(f"invalid: {why}")
    plan = case.decide_driver()
    wrong += [f"useless: {each}" for each in useless(case, section, plan)]
    if not plan["problems"] and case.driver and case.driver_method in ("auto", "present"):
        if plan["purge"] or plan["uninstall_runfile"] or plan["install"]:
            wrong.append("removed: a driver of others")
    return "decided", wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--dockerd", default="", help="an engine since 23.0, whose --validate is asked as well")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    outcomes: Counter[str] = Counter()
    kinds = Counter({"stopped": 0, "removed": 0, "invalid": 0, "useless": 0})
    for number in range(options.count):
        case = Case(draw)
        outcome, wrong = judge(case, options.dockerd)
        outcomes[outcome] += 1
        for what in wrong:
            kinds[what.split(":")[0]] += 1
            print(f"host {number}: {what} ({case.engine or 'no engine'}, {case.method}, {case.asked})")
    print(f"{options.count} hosts: " + ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())))
    print("of the decisions: " + ", ".join(f"{count} {name}" for name, count in kinds.items()))
    enough = outcomes["decided"] >= LEAST_DECIDED * options.count
    if not enough:
        print(f"too few decisions: at least {LEAST_DECIDED:.0%} are needed")
    return 1 if sum(kinds.values()) or not enough else 0


if __name__ == "__main__":
    sys.exit(main())
