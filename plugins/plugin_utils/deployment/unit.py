# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The units of systemd that run Ray and the engine from a Python environment of the host, and what they may do there."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import devices, memory, ulimits
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import DEVICES, PLACES
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import closed_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import gpus_of, gpus_of_machine
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import model_folders
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import CACHE
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import PYTHON, USER, is_venv
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import HostsFile, Nothing, Unit

# Of containers: what the container toolkit reads. Of Ray: what nobody reads without it.
_OF_CONTAINERS = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
_OF_RAY = "RAY_"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The folder below /var/lib that systemd makes for Ray's unit and for the server's: the sockets of Ray's session, and those through which the engine's ranks
# in Ray's unit hear its engine, lie where both find them (TMPDIR), while each unit has a /tmp of its own. All hosts have it in the same place,
# because a worker takes over the path of its head (_init_temp in python/ray/_private/node.py). The path is short, because that of a socket
# has 107 bytes at most, and Ray adds about 70.
_STATE = USER
_TMP = f"/var/lib/{_STATE}"
# Where NVIDIA's kernel modules make devices: under their names in /proc/devices (which one a driver has depends on its branch), and under their
# paths. systemd ignores a device that the host does not have.
_DEVICE_GROUPS = ("nvidia", "nvidia-frontend", "nvidia-caps", "nvidia-uvm")
_DEVICES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
# The same of RDMA (drivers/infiniband/core/uverbs_main.c and ucma.c of Linux).
_RDMA_DEVICES = ("char-infiniband_verbs", "/dev/infiniband/rdma_cm")
_LISTEN_LOW = "CAP_NET_BIND_SERVICE"
# What systemd takes away from a service, beside its user: see systemd.exec(5). A release that does not know one of these ignores it, with a
# warning in the journal. Memory that can be written and run stays allowed, because torch and Triton compile at run time.
_SANDBOX = """\
NoNewPrivileges=yes
UMask=0077
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateMounts=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
DevicePolicy=closed
"""
# A part of that for a program that runs once, with what every release of systemd knows: systemd-run fails where it does not know one.
_SANDBOX_OF_ONE_RUN = (f"User={USER}", f"Group={USER}", "NoNewPrivileges=yes", "ProtectHome=yes", "PrivateTmp=yes")
# How many seconds systemd waits longer than who started the program: without its client it would run on.
_LONGER_SECONDS = 10
# Which roles/common/tasks/user.yml gives it.
_CHECK_SECONDS = 300


def cache_folder(member: Member) -> str:
    """A folder for each release and kind of GPU, as containers have it for each image."""
    kinds = sorted({str(gpu["compute_capability"]) for gpu in gpus_of(member.variables)})
    return f"{member.folder}/cache/venv-{member.deployment.version}-{'-'.join(kinds)}"


def hosts_file(member: Member) -> HostsFile | Nothing:
    """What the units see in place of /etc/hosts: that of the host, with the names of the ranks, which containers get from the engine."""
    names = member.deployment.etc_hosts if is_venv(member.variables) else {}
    text = "".join(f"{address} {name}\n" for name, address in names.items())
    return {"path": f"{member.folder}/scripts/hosts", "text": text} if text else {}


def unit_section(member: Member, kind: str, environment: Mapping[str, str], command: Sequence[str], reads: str) -> Unit:
    """The unit of one of the engine's roles with its environment, which may hold secrets and is therefore no part of the unit's text.

    ``reads`` is a digest of what the program reads when it starts: another content is another unit, which is started anew.
    """
    name = str(member.names.get(kind))
    environment_file = f"{member.folder}/secrets/{name}.env"
    return {
        "name": f"{name}.service",
        "path": f"/etc/systemd/system/{name}.service",
        "text": _text(member, kind, environment, command, environment_file, reads),
        "environment_file": environment_file,
        "environment": dict(environment),
        # Those whose values are in no decision; the role knows them.
        "closed": closed_names(member),
    }


def unit_environment(
    member: Member, environment: Mapping[str, bool | str], more: Mapping[str, object]
) -> dict[str, str]:
    """That of a container, with the places of the host, and with ``more`` of this program."""
    cache, by_ray, asked = cache_folder(member), member.deployment.by_ray, member.setting("environment") or {}
    kept = {
        name: value
        for name, value in environment.items()
        if name in asked or (name not in _OF_CONTAINERS and (by_ray or not name.startswith(_OF_RAY)))
    }
    found = {
        "PATH": f"{posixpath.dirname(str(member.setting(PYTHON)))}:{_PATH}",
        "LLM_PYTHON": str(member.setting(PYTHON)),
        **container_user.ENVIRONMENT,
        **({"TMPDIR": _TMP} if by_ray else {}),
        **{variable: path.replace(CACHE, cache, 1) for variable, path in member.deployment.engine.caches.items()},
        **kept,
        **more,
    }
    if member.variables.get(DEVICES):
        found |= _visible_devices(member)
    return {
        variable: str(value).lower() if isinstance(value, bool) else str(value) for variable, value in found.items()
    }


def _visible_devices(member: Member) -> dict[str, str]:
    """By UUID, or for a release that reads numbers by nvidia-smi's index, which counts in the order of the bus. CUDA's own order is another."""
    if member.deployment.engine.devices_by_index(member.deployment.version):
        return {"CUDA_VISIBLE_DEVICES": str(member.variables[PLACES]), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {"CUDA_VISIBLE_DEVICES": str(member.variables[DEVICES])}


def run_once(seconds: int, *properties: str, unit: str = "") -> list[str]:
    """The beginning of a command that runs one program as the user of the units, and ends as that does.

    Who starts it gives it so many seconds. It is a unit too, of this name, or of one that systemd makes.
    """
    limit = f"RuntimeMaxSec={seconds + _LONGER_SECONDS}"
    asked = [f"--property={each}" for each in (*_SANDBOX_OF_ONE_RUN, limit, *properties)]
    named = [f"--unit={unit}"] if unit else []
    return ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", *named, *asked, "--"]


def run_limits(member: Member) -> list[str]:
    """The properties of one run that opens connections to other hosts as Ray and the engine do."""
    return [*map(_limit, ulimits(member)), *_seen_hosts(member)]


def user_check(member: Member) -> list[str]:
    """A command that fails where the user of the units cannot run the environment's Python, read the models or use the GPUs."""
    program = container_user.program("/dev", member.deployment.engine.module)
    return [*run_once(_CHECK_SECONDS), str(member.setting(PYTHON)), "-I", "-c", program, *model_folders(member)]


def _text(
    member: Member,
    kind: str,
    environment: Mapping[str, str],
    command: Sequence[str],
    environment_file: str,
    reads: str,
) -> str:
    name, mine, by_ray = str(member.names.get(kind)), member.variables, member.deployment.by_ray
    engine = member.deployment.engine
    low = kind == engine.name and int(member.setting("port")) < container_user.FIRST_FREE_PORT
    capabilities = [f"CapabilityBoundingSet={_LISTEN_LOW if low else ''}"]
    capabilities += [f"AmbientCapabilities={_LISTEN_LOW}"] if low else []
    nodes = [*_DEVICES, *(f"/dev/nvidia{index}" for index in range(len(gpus_of_machine(mine))))]
    found = [*(f"char-{group}" for group in _DEVICE_GROUPS), *nodes, *(_RDMA_DEVICES if devices(environment) else ())]
    title = engine.title if kind == engine.name else kind.capitalize()
    lines = [
        "# Made by baremetal.llm: changes are overwritten.",
        f"# {reads}",
        "[Unit]",
        f"Description={title}, {member.deployment.name}".replace("%", "%%"),
        "Wants=network-online.target",
        "After=network-online.target nvidia-persistenced.service",
        *(_above(member) if kind == engine.name and by_ray else ()),
        # The engine's script makes the pauses between starts longer by itself, and start-ray.sh waits for the head.
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        f"User={USER}",
        f"Group={USER}",
        f"EnvironmentFile={environment_file}",
        f"ExecStart={' '.join(map(quoted, command))}",
        "Restart=always",
        "RestartSec=1",
        "KillMode=mixed",
        "TimeoutStopSec=15",
        f"RuntimeDirectory={name}",
        "RuntimeDirectoryPreserve=restart",
        *((f"StateDirectory={_STATE}", "StateDirectoryMode=0700") if by_ray else ()),
        f"ReadWritePaths={cache_folder(member)}",
        *_seen_hosts(member),
        "LogRateLimitIntervalSec=0",
        # Docker takes 0 and less for no limit, and systemd a word.
        f"TasksMax={mine['ray_pids_limit'] if int(mine['ray_pids_limit']) > 0 else 'infinity'}",
        *([f"MemoryMax={memory(member)}"] if memory(member) else ()),
        *map(_limit, ulimits(member)),
        *_SANDBOX.splitlines(),
        *(f"DeviceAllow={device} rw" for device in found),
        *capabilities,
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _above(member: Member) -> list[str]:
    """The server's ranks are processes of Ray's unit, and its head connects to that Ray alone: where Ray ends, so does the server."""
    below = f"{member.names['ray']}.service"
    return [f"Wants={below}", f"After={below}", f"PartOf={below}"]


def _seen_hosts(member: Member) -> list[str]:
    found = hosts_file(member)
    return [f"BindReadOnlyPaths={found['path']}:/etc/hosts"] if found else []


def quoted(word: str) -> str:
    """A word of a command line as systemd reads it (systemd.service(5), systemd.syntax(7))."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("%", "%%").replace("$", "$$") + '"'


def _limit(ulimit: str) -> str:
    """Docker's name:soft:hard as systemd has it."""
    name, _colon, values = ulimit.partition(":")
    soft, _colon, hard = values.partition(":")
    said = ["infinity" if value == "-1" else value for value in (soft, hard or soft)]
    return f"Limit{name.upper()}={':'.join(said)}"
