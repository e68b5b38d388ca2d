# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit of systemd that runs vLLM from a Python environment of the host, and what it may do there."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import ulimits
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import DEVICES
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import CACHES
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import gpus_of, gpus_of_machine
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import model_folders
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import CACHE
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import PYTHON, USER

# Of containers: what the container toolkit reads, and Ray, which is not there.
_OF_CONTAINERS = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
_OF_RAY = ("RAY_",)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where NVIDIA's kernel modules make devices: under their names in /proc/devices (which one a driver has depends on its branch), and under their
# paths. systemd ignores a device that the host does not have.
_DEVICE_GROUPS = ("nvidia", "nvidia-frontend", "nvidia-caps", "nvidia-uvm")
_DEVICES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_LISTEN_LOW = "CAP_NET_BIND_SERVICE"
# What systemd takes away from the service, beside its user: see systemd.exec(5). A release that does not know one of these ignores it, with a
# warning in the journal. Memory that can be written and run stays allowed, because torch and Triton compile at run time.
_SANDBOX = """\
NoNewPrivileges=yes
UMask=0077
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
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


def cache_folder(member: Member) -> str:
    """A folder for each release and kind of GPU, as containers have it for each image."""
    kinds = sorted({str(gpu["compute_capability"]) for gpu in gpus_of(member.variables)})
    return f"{member.folder}/cache/venv-{member.deployment.vllm_version}-{'-'.join(kinds)}"


def unit_section(
    member: Member, environment: Mapping[str, Any], started: Mapping[str, Any], api_paths: Sequence[str], reads: str
) -> dict[str, Any]:
    """The unit with its environment, which may hold secrets and is therefore no part of the unit's text."""
    name = member.names["vllm"]
    environment_file = f"{member.folder}/secrets/{name}.env"
    return {
        "name": f"{name}.service",
        "path": f"/etc/systemd/system/{name}.service",
        "user": USER,
        "python": str(member.variables[PYTHON]),
        "text": _text(member, (started.get("config") or started)["argv"], environment_file, reads),
        "environment_file": environment_file,
        "environment": _environment(member, environment, started, api_paths),
        "user_check": [
            *("runuser", "-u", USER, "--", str(member.variables[PYTHON]), "-I", "-c"),
            *(container_user.program("/dev"), *model_folders(member)),
        ],
    }


def _environment(
    member: Member, environment: Mapping[str, Any], started: Mapping[str, Any], api_paths: Sequence[str]
) -> dict[str, str]:
    cache = cache_folder(member)
    asked = {**environment, **member.variables["vllm_environment"]}
    kept = {
        name: value
        for name, value in asked.items()
        if name in member.variables["vllm_environment"] or (name not in _OF_CONTAINERS and not name.startswith(_OF_RAY))
    }
    found = {
        "PATH": f"{posixpath.dirname(str(member.variables[PYTHON]))}:{_PATH}",
        **container_user.ENVIRONMENT,
        **{variable: path.replace(CACHE, cache, 1) for variable, path in CACHES.items()},
        **kept,
        **started["environment"],
        "LLM_API_PATHS": " ".join(api_paths),
        "LLM_API_KEY_FILE": member.key_file,
        "LLM_SECRETS_DIR": posixpath.dirname(member.key_file),
        "LLM_STARTS_FILE": f"/run/{member.names['vllm']}/starts",
    }
    if member.variables.get(DEVICES):
        found["CUDA_VISIBLE_DEVICES"] = str(member.variables[DEVICES])
    return {
        variable: str(value).lower() if isinstance(value, bool) else str(value) for variable, value in found.items()
    }


def _text(member: Member, argv: Sequence[str], environment_file: str, reads: str) -> str:
    name, mine = member.names["vllm"], member.variables
    command = ["/bin/bash", f"{member.folder}/scripts/start-vllm.sh", "0", *argv]
    low = int(mine["vllm_port"]) < container_user.FIRST_FREE_PORT
    capabilities = [f"CapabilityBoundingSet={_LISTEN_LOW if low else ''}"]
    capabilities += [f"AmbientCapabilities={_LISTEN_LOW}"] if low else []
    nodes = [*_DEVICES, *(f"/dev/nvidia{index}" for index in range(len(gpus_of_machine(mine))))]
    lines = [
        "# Made by baremetal.llm: changes are overwritten.",
        # Of what the server reads when it starts: another content is another unit, which is started anew.
        f"# {reads}",
        "[Unit]",
        f"Description=vLLM, {member.deployment.name}".replace("%", "%%"),
        "Wants=network-online.target",
        "After=network-online.target nvidia-persistenced.service",
        # start-vllm.sh makes the pauses between starts longer by itself.
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
        f"ReadWritePaths={cache_folder(member)}",
        "LogRateLimitIntervalSec=0",
        f"TasksMax={mine['ray_pids_limit']}",
        *map(_limit, ulimits(member)),
        *_SANDBOX.splitlines(),
        *(f"DeviceAllow=char-{group} rw" for group in _DEVICE_GROUPS),
        *(f"DeviceAllow={node} rw" for node in nodes),
        *capabilities,
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


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
