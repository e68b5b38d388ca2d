# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command of a host's probe, which restarts what is dead."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import tmp_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.on_request import inner_port
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import is_venv
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Probe
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import LOOPBACK


def probe_section(member: Member, cluster: Sequence[str]) -> Probe:
    """What restarts what is dead, on each host that takes part. On the head it asks for tokens, and says how long a start may take.

    ``cluster`` is the command that asks Ray who is in its cluster.
    """
    folder, head, by_ray = f"{member.folder}/probe", member.is_head, member.deployment.by_ray
    start = ["/usr/bin/env", "python3", f"{folder}/llm-probe.py", "--weights", model_path(member.variables)]
    start += ["--measured", f"{folder}/measured.json"]
    command = [*start, "--failures", str(member.setting("probe_failures"))]
    command += ["--interval", str(member.setting("probe_interval_seconds"))]
    # Where a machine has several, each deployment has a probe of its own, with names of its own.
    if member.names["suffix"]:
        command += [f"--suffix={member.names['suffix']}", "--state", f"{member.names['state']}/state.json"]
    if member.deployment.engine.name != DEFAULT:
        command += [f"--server=llm-{member.deployment.engine.name}"]
    if is_venv(member.variables):
        command += ["--units"]
    # What a member that freezes would never tell: Ray's own processes, or the program that follows the head.
    if by_ray:
        command += ["--watch", "llm-ray:raylet,gcs_server"]
    elif not head:
        command += ["--watch", f"llm-{member.deployment.engine.name}"]
    if head:
        command += _of_server(member, cluster)
    return {
        "needed": head or member.host in member.deployment.planned,
        "folder": folder,
        "start": start,
        "command": command,
    }


def _of_server(member: Member, cluster: Sequence[str]) -> list[str]:
    # Not the program that would load it.
    url = f"http://{LOOPBACK}:{inner_port(member.variables)}" if member.on_request else member.url
    command = ["--url", url, "--model", member.served_model_name]
    command += ["--on-request"] if member.on_request else []
    if member.deployment.engine.middleware:
        # The folder that the server has as its /tmp, or of a unit its RuntimeDirectory.
        command += ["--inner", f"/run/{member.names['server']}" if is_venv(member.variables) else tmp_folder(member)]
    if member.kind != "token":
        command += ["--kind", member.kind]
    if member.enables("api_key_enabled"):
        command += ["--key", member.key_file]
    if member.deployment.joins_hosts:
        command += [
            "--followers",
            str(len(member.deployment.planned) - 1),
            "--meeting-port",
            str(member.setting("master_port")),
        ]
    if member.deployment.by_ray:
        command += [
            "--cluster",
            shlex.join(cluster),
            "--below",
            "llm-ray",
            "--above",
            f"llm-{member.deployment.engine.name}",
        ]
    if member.setting("start_seconds") is not None:
        command += ["--start-seconds", str(member.setting("start_seconds"))]
    return command
