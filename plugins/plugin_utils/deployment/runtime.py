# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a deployment's server runs in a container, or from a Python environment that its host has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import SCRIPTS

RUNTIME, PYTHON = "vllm_runtime", "vllm_python"
# On which interpreter a host makes an environment, where nobody has made one for it.
BASE_PYTHON = "vllm_base_python"
# For which GPUs somebody built the vLLM of an environment.
CAPABILITIES = "vllm_compute_capabilities"
CONTAINER, VENV = "container", "venv"
# A deployment of one host that has its machine for itself: the user and its group need no more names.
USER = "llm-vllm"


def is_venv(variables: Mapping[str, Any]) -> bool:
    return variables.get(RUNTIME) == VENV


def is_made(variables: Mapping[str, Any]) -> bool:
    """Whether a host makes its environment, from wheels of the bundle."""
    return is_venv(variables) and not variables.get(PYTHON)


def scripts_folder(variables: Mapping[str, Any]) -> str:
    """Where the server sees its programs and its options: a service of the host sees them where they lie."""
    return f"{variables['llm_host_dir']}/scripts" if is_venv(variables) else SCRIPTS


def runtime_section(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What the tasks ask about a server, whichever way it runs; ``name`` is that of its container or of its unit."""
    if not is_venv(variables):
        return {
            "kind": CONTAINER,
            "name": name,
            "log": ["docker", "logs", "--tail", "2000", name],
            "log_of_start": ["docker", "logs", name],
            "secrets": {"mode": "0750", "group": "root"},
        }
    unit = f"{name}.service"
    journal = ["journalctl", "--no-pager", "--output=cat"]
    this_start = 'exec "$@" "_SYSTEMD_INVOCATION_ID=$(systemctl show --property=InvocationID --value "$0")"'
    return {
        "kind": VENV,
        "name": unit,
        "log": [*journal, f"--unit={unit}", "--lines=2000"],
        "log_of_start": ["sh", "-c", this_start, unit, *journal],
        # What is written into the folder belongs to its group.
        "secrets": {"mode": "2750", "group": USER},
    }
