# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a deployment's server runs in a container, or from a Python environment that its host has."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import SCRIPTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Runtime, Secrets
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, setting

# Settings of an engine that is a Python program: whether it runs in a container, and the Python of an environment that somebody has made.
RUNTIME, PYTHON = "runtime", "python"
# On which interpreter a host makes an environment, where nobody has made one for it.
BASE_PYTHON = "base_python"
# For which GPUs somebody built the engine of an environment.
CAPABILITIES = "compute_capabilities"
CONTAINER, VENV = "container", "venv"
# Such a deployment has its machines for itself: the user and its group need no more names.
USER = f"llm-{DEFAULT}"
# Nothing where there is no such unit, as docker inspect prints nothing of a container that is not there.
_STATE_OF_UNIT = """\
systemctl cat -- "$0" >/dev/null 2>&1 || exit 1
echo "$(systemctl show --property=ActiveState --value -- "$0"), restarted $(systemctl show --property=NRestarts --value -- "$0") times"
"""


def is_venv(variables: Mapping[str, object]) -> bool:
    return bool(setting(variables, RUNTIME) == VENV)


def is_made(variables: Mapping[str, object]) -> bool:
    """Whether a host makes its environment, from wheels of the bundle."""
    return is_venv(variables) and not setting(variables, PYTHON)


def scripts_folder(variables: Mapping[str, object]) -> str:
    """Where the server sees its programs and its options: a service of the host sees them where they lie."""
    return f"{variables['llm_host_dir']}/scripts" if is_venv(variables) else SCRIPTS


def runtime_section(variables: Mapping[str, object], name: str) -> Runtime:
    """How the tasks ask about what has this name as a container or as a unit, whichever of them it is."""
    if not is_venv(variables):
        state = "{{.State.Status}}, restarted {{.RestartCount}} times"
        return {
            "name": name,
            "log": ["docker", "logs", "--tail", "2000", name],
            "log_of_start": ["docker", "logs", name],
            "end_of_log": ["docker", "logs", "--tail", "20", name],
            "state": ["docker", "inspect", "--format", state, name],
            # Prints something where it runs.
            "running": [
                "docker",
                "container",
                "ls",
                "--quiet",
                "--filter",
                f"name=^{name}$",
                "--filter",
                "status=running",
            ],
        }
    unit = f"{name}.service"
    journal = ["journalctl", "--no-pager", "--output=cat"]
    this_start = 'exec "$@" "_SYSTEMD_INVOCATION_ID=$(systemctl show --property=InvocationID --value "$0")"'
    return {
        "name": unit,
        "log": [*journal, f"--unit={unit}", "--lines=2000"],
        "log_of_start": ["sh", "-c", this_start, unit, *journal],
        "end_of_log": [*journal, f"--unit={unit}", "--lines=20"],
        "state": ["sh", "-c", _STATE_OF_UNIT, unit],
        "running": ["systemctl", "list-units", "--no-legend", "--plain", "--state=active", unit],
    }


def secrets_section(variables: Mapping[str, object]) -> Secrets:
    """Who may read the folder of the secrets and what is in it, beside root: the group of the containers, or of the units."""
    # With 2 what others write into the folder belongs to its group.
    return {"mode": "2750", "group": USER} if is_venv(variables) else {"mode": "0750", "group": "root"}
