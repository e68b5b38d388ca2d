# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command that runs the all-reduce over all ranks of a deployment."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import (
    LABEL,
    SECURITY,
    capabilities,
    devices,
    gpu_devices,
    ulimits,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import PYTHON, is_venv
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Collective, Links
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.unit import (
    run_limits,
    run_once,
    unit_environment,
)

# How long all of it may take; the tasks give it the same.
SECONDS = 180
# As docker's --env-file reads it.
_WITH_VARIABLES = 'while IFS= read -r variable || [ -n "$variable" ]; do export "$variable"; done; exec "$@"'


def collective_section(member: Member, environment: Mapping[str, bool | str]) -> Collective:
    """The all-reduce over every rank, run once as the service's containers or units are all the time."""
    nodes = member.deployment.plan["nodes"]
    ranks: list[int] = next((node["ranks"] for node in nodes if node["host"] == member.host), [])
    count = sum(member.deployment.gpus.values())
    # The GPUs of one that is loaded on request may be another deployment's at this moment.
    if not member.enabled("vllm_collective_enabled") or count < 2 or not ranks or member.on_request:
        return {"possible": False}
    program = f"{member.folder}/collective.py"
    where = [member.deployment.address(member.deployment.head), str(member.variables["vllm_collective_port"])]
    numbers = [str(count), str(ranks[0]), str(len(ranks))]
    venv = is_venv(member.variables)
    return {
        "possible": True,
        "hosts": member.deployment.planned,
        "program": program,
        # Through standard input, however long. What may be a secret is not in it, since no all-reduce needs it.
        "environment": unit_environment(member, environment, {}) if venv else dict(environment),
        "command": [*(_run(member, program) if venv else _docker_run(member, environment, program)), *where, *numbers],
        **_links(member, environment),
    }


def _docker_run(member: Member, environment: Mapping[str, bool | str], program: str) -> list[str]:
    return [
        *("docker", "run", "--rm", f"--name={member.names['collective']}", "--runtime=nvidia"),
        f"--label={LABEL}={member.deployment.name}",
        *("--network=host", "--ipc=host", "--userns=host"),
        f"--user={member.deployment.user}",
        *("--env-file=/dev/stdin", f"--volume={program}:/llm-collective.py:ro"),
        *(f"--device={device}" for device in (*devices(environment), *gpu_devices(member))),
        *(f"--security-opt={option}" for option in SECURITY),
        *("--cap-drop=ALL", *(f"--cap-add={name}" for name in capabilities(member))),
        *(f"--ulimit={limit.replace(':', '=', 1)}" for limit in ulimits(member)),
        *(f"--add-host={name}:{address}" for name, address in member.deployment.etc_hosts.items()),
        *("--entrypoint=python3", member.deployment.image, "/llm-collective.py"),
    ]


def _run(member: Member, program: str) -> list[str]:
    begun = run_once(SECONDS, *run_limits(member), unit=member.names["collective"])
    return [*begun, "/bin/bash", "-c", _WITH_VARIABLES, "bash", str(member.setting(PYTHON)), program]


def _links(member: Member, environment: Mapping[str, bool | str]) -> Links:
    """What the slowest link between the hosts claims to carry, or on one host the GPUs' own; None where no driver says. Ports of RDMA where NCCL has to
    use them."""
    planned = member.deployment.planned
    fabric = (member.variables.get("ansible_facts") or {}).get("llm_gpu_fabric") or {}
    if len(planned) > 1:
        interfaces = [member.deployment.variables[host].get("llm_interface") or {} for host in planned]
        rates = [int(entry.get("speed_mbps") or 0) for entry in interfaces]
    else:
        rates = [int(fabric.get("mbps") or 0)]
    known = [rate for rate in rates if rate]
    rdma = len(planned) > 1 and str(environment.get("NCCL_IB_DISABLE")) == "0"
    return {
        "link_mbps": min(known) if known else None,
        "link": None if len(planned) > 1 else fabric.get("via"),
        "link_rdma": str(environment.get("NCCL_IB_HCA", "")).lstrip("=") if rdma else "",
    }
