# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of the light hosts, and the bundle that it names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.scale.artefacts import IMAGE, MODEL
from benchmarks.scale.hosts import NETWORK, Host


def deployments(hosts: Sequence[Host], added: Sequence[Host] = ()) -> dict[str, list[Host]]:
    """Half of the hosts serve alone, the others in pairs. Hosts that were added serve alone."""
    pairs = len(hosts) // 4
    paired, alone = hosts[: 2 * pairs], [*hosts[2 * pairs :], *added]
    found = {f"pair_{number:03}": list(paired[2 * number : 2 * number + 2]) for number in range(pairs)}
    return found | {f"single_{host.name}": [host] for host in alone}


def inventory(
    groups: dict[str, list[Host]], bundle: Path, folder: Path, fleet: Path, vllm_version: str
) -> dict[str, Any]:
    """As a mapping. Reports and secrets go below ``folder``; ``fleet`` is where the hosts' keys lie."""
    settings = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_private_key_file": str(fleet / "id_ed25519"),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={fleet / 'known_hosts'} -o IdentitiesOnly=yes",
        # As docs/guides and inventories/lab have it.
        "ansible_ssh_pipelining": True,
        "ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=60s",
        "llm_offline": True,
        "llm_bundle_dir": str(bundle),
        "llm_secrets_dir": str(folder / "secrets"),
        "llm_report_dir": str(folder / "reports"),
        "llm_cluster_network": NETWORK,
        "vllm_model": MODEL,
        "vllm_version": vllm_version,
        "vllm_image": IMAGE,
        "vllm_max_model_len": 1024,
        # The GPU is simulated, and such a host may not raise its limits.
        "nvidia_driver_build_enabled": False,
        "preflight_sysfs_root": "/etc/lab/sys",
        "docker_unit_limits": {},
        "ray_ulimits": [],
        "ray_memory_lock_enabled": False,
    }
    children = {
        name: {
            "hosts": {host.name: {"ansible_host": host.address} for host in hosts},
            "vars": {"vllm_served_model_name": name.replace("_", "-")},
        }
        for name, hosts in groups.items()
    }
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    return {
        "all": {
            "children": {"llm_deployments": {"children": children}},
            "hosts": {"localhost": local},
            "vars": settings,
        }
    }
