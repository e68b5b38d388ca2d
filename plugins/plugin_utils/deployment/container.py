# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ray's container and the server's have in common, and which rights and limits they get."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import device_files
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import (
    environment_place,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import gpus_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Container
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes

# A program in a container gets no rights that it was not started with, such as those of a setuid program.
SECURITY = ["no-new-privileges"]
# By which a container is known as the collection's; that of a deployment has its name.
LABEL = "baremetal.llm.deployment"
RDMA_DEVICES = "/dev/infiniband:/dev/infiniband"


def container(
    member: Member,
    kind: str,
    environment: Mapping[str, bool | str],
    entrypoint: list[str],
    command: list[str],
    volumes: list[str],
) -> Container:
    """What differs between hosts and the containers of a deployment; the rest stands in the tasks."""
    place = environment_place(member, kind)
    return {
        "image": member.deployment.image,
        # Also where it is root: an image may name a user of its own, who could not read the secrets.
        "user": member.deployment.user,
        "entrypoint": entrypoint,
        "command": command,
        "environment": {
            **member.deployment.engine.caches,
            **environment,
            **({"LLM_ENVIRONMENT_FILE": place} if place else {}),
        },
        "volumes": volumes,
        "etc_hosts": member.deployment.etc_hosts,
        "devices": [*devices(environment), *gpu_devices(member)],
        "ulimits": ulimits(member),
        "security_opts": SECURITY,
        "cap_drop": ["ALL"],
        "capabilities": capabilities(member),
        "pids_limit": int(member.variables["ray_pids_limit"]),
        "memory": memory(member),
    }


def gpu_devices(member: Member) -> list[str]:
    """The device files of the host's own GPUs, once the driver shows them."""
    facts = (member.variables.get("ansible_facts") or {}).get("llm_gpu") or {}
    return device_files(facts, gpus_of(member.variables))


def devices(environment: Mapping[str, object]) -> list[str]:
    """What containers need of the host for RDMA, where every host of the deployment has it."""
    return [RDMA_DEVICES] if str(environment.get("NCCL_IB_DISABLE", "1")) == "0" else []


def capabilities(member: Member) -> list[str]:
    """What is left of root's rights, without the CAP_ that engines before 19.03 do not know; another user has none."""
    if member.deployment.uid != container_user.ROOT:
        return []
    return [str(name) for name in member.variables["ray_capabilities"]]


def ulimits(member: Member) -> list[str]:
    locked = ["memlock:-1:-1"] if member.enabled("ray_memory_lock_enabled") else []
    return [*member.variables["ray_ulimits"], *locked]


def memory(member: Member) -> str:
    """In bytes; empty for all that the host has."""
    gib = member.variables.get("ray_memory_limit_gib")
    return str(int(float(gib) * changes.GIB)) if gib is not None else ""
