# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles ray and vllm read on a host."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.probe import probe_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.benchmark import benchmark_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.collective import collective_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.ray import ray_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.server import vllm_section


def sections(member: Member, environment: Mapping[str, bool | str]) -> dict[str, object]:
    ray = ray_section(member, environment)
    return {
        "ray": ray,
        "vllm": {
            **vllm_section(member, environment),
            "probe": probe_section(member, ray["cluster"]),
            "collective": collective_section(member, environment),
            "benchmark": benchmark_section(member),
        },
    }
