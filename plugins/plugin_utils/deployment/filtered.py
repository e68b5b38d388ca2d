# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that is a Python program in one container, behind the collection's filter of paths (roles/common/files/llm_filtered.py)."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import container
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import file_volumes, server_volumes
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import SCRIPTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import (
    Container,
    LoneSection,
    Nothing,
    SmallFile,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.server_section import lone_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import is_open

# Who starts the server, with the Python of the image.
PYTHON = "python3"


def environment(member: Member) -> dict[str, str]:
    """The GPUs in the order of nvidia-smi, in which the plan counts them, and nothing from a hub."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def filtered_section(
    member: Member,
    variables: Mapping[str, bool | str],
    start: str,
    files: Mapping[str, SmallFile] | None = None,
    shm_size: str = "",
) -> LoneSection:
    """What the role of the engine reads on a host. ``start`` is its program in roles/<engine>/files, which gets the command line of the launch, ``files`` are
    small ones by their places in the container, and ``shm_size`` is that of a server that shares no memory with others of the host."""
    started, files = member.deployment.launch.get(member.host), files or {}
    made: Container | Nothing = {}
    if started:
        program = [PYTHON, f"{SCRIPTS}/{start}", "open" if is_open(member.variables) else "keyed"]
        kind = member.deployment.engine.name
        made = container(
            member, kind, variables, program, started["argv"], [*server_volumes(member), *file_volumes(files)]
        )
        # NCCL's threads meet in the host's shared memory where the GPUs do not reach each other: --ipc=host in docs/en/llm/api_server.md of LMDeploy, and in
        # docs/get_started/install.md of SGLang.
        if shm_size:
            made["shm_size"] = shm_size
        else:
            made["ipc_mode"] = "host"
    return lone_section(member, made, {}, list(files.values()))
