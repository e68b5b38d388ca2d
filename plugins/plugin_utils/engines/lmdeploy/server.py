# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LMDeploy's API server on a host: its command line, its container and its probe."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.filtered import filtered_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment, Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.on_request import inner_port, is_local
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import CACHE
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Started
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy.arguments import NAME, lmdeploy_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import since
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import LOOPBACK

# Who starts the server (roles/lmdeploy/files), with the Python of the image: docker/Dockerfile has /opt/py3/bin in front of PATH.
START = "start_lmdeploy.py"
# What Triton compiles for the steps that TurboMind leaves to PyTorch, and CUDA's own compiler (CUDA programming guide, environment variables).
CACHES = {"TRITON_CACHE_DIR": f"{CACHE}/triton", "CUDA_CACHE_PATH": f"{CACHE}/cuda"}
# From this release on the server counts by itself (--disable-metrics of lmdeploy/cli/utils.py); before, it was asked to.
_COUNTS_SINCE = "0.11.0"


def launch(deployment: Deployment) -> dict[str, Started]:
    """The command line on the head."""
    mine = deployment.variables[deployment.head]
    options = {
        "model_name": str(setting(mine, "served_model_name") or setting(mine, "model")),
        "server_name": LOOPBACK if is_local(mine) else "0.0.0.0",
        "server_port": inner_port(mine),
        "backend": "turbomind",
        **({} if since(deployment.version, _COUNTS_SINCE) else {"enable_metrics": True}),
        **deployment.plan["settings"],
    }
    argv = lmdeploy_arguments(model_path(mine), options, deployment.version)
    return {deployment.head: {"argv": argv, "environment": {}}}


def sections(member: Member, variables: Mapping[str, bool | str]) -> dict[str, object]:
    return {NAME: filtered_section(member, variables, START)}
