# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is started on each host of a deployment: Ray's node, vLLM, its probe, the all-reduce, the benchmark. Plain data for the roles."""

from __future__ import annotations

from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user, unit
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.benchmark import benchmark_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.collective import collective_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import container_environment
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import (
    cache_folder,
    model_folders,
    tmp_folder,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.probe import probe_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.ray import ray_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import USER, is_venv
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.server import server_section


def host_sections(member: Member) -> dict[str, Any]:
    """What the roles ray and vllm read."""
    environment = container_environment(member)
    interface = member.variables.get("llm_interface") or {}
    return {
        "is_head": member.is_head,
        "image": member.deployment.image,
        # The container of the head, which may be outside of this run.
        "server": names_on(member.deployment.head, member.deployment.names)["vllm"],
        "interface": interface.get("interface"),
        "address": member.address,
        **_for_user(member),
        "ray": ray_section(member, environment),
        "vllm": {
            **server_section(member, environment),
            "probe": probe_section(member),
            "collective": collective_section(member, environment),
            "benchmark": benchmark_section(member),
        },
    }


def _for_user(member: Member) -> dict[str, Any]:
    """The folders that the server writes to, as whom, and a command that says whether that user can serve."""
    if is_venv(member.variables):
        cache = unit.cache_folder(member)
        # systemd gives it a /tmp of its own.
        return {"tmp": {"path": cache, "uid": USER}, "cache": cache, "user_check": []}
    return {
        "tmp": {"path": tmp_folder(member), "uid": member.deployment.uid},
        "cache": cache_folder(member),
        "user_check": container_user.check_command(
            member.deployment.uid, member.deployment.image, model_folders(member)
        ),
    }
