# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA driver, and whether the image runs with it."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import oldest
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.compatibility import image_problems, planned_driver
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import AUTO
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Deployment, Hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import CHECKS, ERROR, Findings

# What the role nvidia_driver mends, so that it refuses only where that role is asked to keep away.
_MENDED_BY_DRIVER = ("nvidia_smi_failed", "nvidia_smi_unreadable", "driver_mismatch")


def driver_findings(hosts: Hosts, _deployment: Deployment, host: str) -> Findings:
    """What was found wrong when the GPUs were read."""
    kept = hosts.get(host, "driver_method") == "present"
    declared = hosts.declared_gpus(host) or ()
    for entry in hosts.found(host, "gpu").get("problems") or ():
        # The inventory says already what they are.
        if entry["code"] == "unknown_pci_device" and len(declared) == len(hosts.gpus(host)):
            continue
        code = entry["code"] if entry["code"] in CHECKS else "gpu_problem"
        severity = ERROR if kept and code in _MENDED_BY_DRIVER else ""
        yield hosts.finding(code, [host], value=str(entry["detail"]), severity=severity, host=host)


def same_driver_findings(hosts: Hosts, deployment: Deployment) -> Findings:
    """Where the role nvidia_driver installs one, they will be the same."""
    loaded: dict[str, list[str]] = {}
    for host in deployment.seen:
        version = hosts.loaded_driver(host)
        if version and hosts.get(host, "driver_method") == "present":
            loaded.setdefault(str(version), []).append(host)
    if len(loaded) > 1:
        said = [f"{version}: {hosts.names(mine)}" for version, mine in sorted(loaded.items())]
        mine = sorted(host for members in loaded.values() for host in members)
        yield hosts.finding("driver_differs", mine, value="; ".join(said), deployment=deployment.name)


def image_findings(hosts: Hosts, deployment: Deployment) -> Findings:
    """Whether the image in the bundle holds code for the GPUs that were found, and runs with the driver that they get."""
    image = hosts.first(deployment.seen, "image")
    if not image:
        return
    drivers = {str(driver) for driver in (_driver(hosts, host) for host in deployment.seen) if driver}
    gpus = [gpu for host in deployment.seen for gpu in hosts.own_gpus(host)]
    where = message("where_group", hosts.lang, group=deployment.name)
    for entry in image_problems(deployment.name, image, gpus, oldest(drivers), where, hosts.lang):
        yield hosts.graded(entry, deployment.seen)


def _driver(hosts: Hosts, host: str) -> str | None:
    """The driver that a host will have."""
    wanted = {"nvidia_driver_" + name: hosts.get(host, "driver_" + name) for name in ("method", "version")}
    loaded = hosts.loaded_driver(host)
    # Whose driver this collection has not installed keeps it (install/method.py).
    ours = "nvidia_driver" in (hosts.facts[host].get("llm_records") or {})
    if (
        wanted["nvidia_driver_method"] == AUTO
        and loaded
        and not ours
        and wanted["nvidia_driver_version"] in (None, "", loaded)
    ):
        return str(loaded)
    return planned_driver(wanted, hosts.get(host, "drivers") or ()) or loaded
