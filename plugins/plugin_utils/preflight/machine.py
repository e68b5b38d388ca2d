# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is, and how its kernel, its modules and its processor are set: the rows of the table in ``history.py`` about them.

In a container the kernel's settings are those of the machine around it, and nobody can change them there: rows about these say nothing then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import AUTO, PACKAGES, REPOSITORY
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import GIB, whole_number
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.picture import Judgements, Picture, Said
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR, WARNING

# Containers in which somebody may take himself for the owner of a machine.
SYSTEM_CONTAINERS = ("lxc", "lxc-libvirt", "systemd-nspawn", "openvz", "vz")
# Without these not even numpy is loaded, nor anything in an image of EL 9 (x86-64-v2).
NEEDED_FLAGS = ("ssse3", "sse4_1", "sse4_2", "popcnt", "cx16")
# Options of the driver's module that somebody set for another purpose, and the code of what comes of each.
# Source: parameters of the module in NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-reg.h.
OPTIONS = (
    (re.compile(r"NVreg_NvLinkDisable=1"), "option_nvlink"),
    (re.compile(r"NVreg_RegistryDwords=.*RMNvLinkEnable=0x0*(?![0-9a-fA-F])"), "option_nvlink"),
    (re.compile(r"NVreg_ModifyDeviceFiles=0"), "option_device_files"),
    (re.compile(r"NVreg_DeviceFileMode=0*(?!0*(?:666|438)$)\d+"), "option_device_mode"),
)
# Hugepages that somebody forgot: a tenth of the memory, and not little.
HUGEPAGES_SHARE, HUGEPAGES_LEAST = 0.1, 8 * GIB


# -- what the host is --------------------------------------------------------------------------------------------------
def _wsl(picture: Picture) -> Said:
    kernel = str(picture.found.get("kernel") or "")
    if "microsoft" in kernel.lower():
        yield {"value": kernel}


def _container(picture: Picture) -> Said:
    kind = str(picture.found.get("container") or "")
    if kind in SYSTEM_CONTAINERS and picture.lacks_driver:
        yield {"value": kind}


def is_of_the_machine(picture: Picture) -> bool:
    """Whether the kernel's settings are the host's own."""
    return not picture.found.get("container")


# -- the kernel --------------------------------------------------------------------------------------------------------
def _locked(picture: Picture) -> Said:
    """A kernel that loads no module any more, or none that its maker has not signed. With Secure Boot that is another row's matter."""
    if picture.driver or not is_of_the_machine(picture):
        return
    if (picture.found.get("kernel_settings") or {}).get("kernel.modules_disabled") == 1:
        yield {"value": "kernel.modules_disabled=1"}
    elif picture.found.get("lockdown") and not picture.found.get("secure_boot"):
        yield {"value": f"lockdown: {picture.found['lockdown']}"}


def _balancing(picture: Picture) -> Said:
    on = (picture.found.get("kernel_settings") or {}).get("kernel.numa_balancing")
    nodes = whole_number(picture.found.get("numa_nodes"))
    if on and nodes > 1 and is_of_the_machine(picture):
        yield {"value": f"kernel.numa_balancing={on}", "nodes": nodes}


class Unfit(NamedTuple):
    """A value of a setting of the kernel with which a server ends, or the host: which values, given the number of processors, and what comes of that."""

    wrong: Callable[[int, int], bool]
    reason: str


# The kernel itself takes so many process IDs for each processor (include/linux/threads.h, PIDS_PER_CPU_DEFAULT), and each thread takes one.
PIDS_PER_CPU = 1024
# Source: Documentation/admin-guide/sysctl/vm.rst and kernel.rst.
UNFIT = {
    "vm.overcommit_memory": Unfit(lambda value, _cpus: value == 2, "kernel_overcommit"),
    "vm.panic_on_oom": Unfit(lambda value, _cpus: value > 0, "kernel_panic_on_oom"),
    "kernel.hung_task_panic": Unfit(lambda value, _cpus: value > 0, "kernel_hung_task"),
    "kernel.pid_max": Unfit(lambda value, cpus: 0 < value < PIDS_PER_CPU * cpus, "kernel_pid_max"),
}


def _settings(picture: Picture) -> Said:
    said = picture.found.get("kernel_settings") or {}
    for name, setting in UNFIT.items():
        if name in said and is_of_the_machine(picture):
            value = whole_number(said[name])
            if setting.wrong(value, whole_number(picture.found.get("cpus"))):
                reason = message(setting.reason, picture.hosts.lang)
                yield {"value": f"{name}={value}", "setting": name, "reason": reason}


# What is one more is dropped where a table is full; what is in it goes up and down.
FULL_SHARE = 0.9
# By the setting that says how much room there is: what the table holds.
TABLES = {
    "net.netfilter.nf_conntrack_max": "table_connections",
    "net.ipv4.neigh.default.gc_thresh3": "table_neighbours",
}


def _tables(picture: Picture) -> Said:
    said = picture.found.get("kernel_settings") or {}
    held = (said.get("net.netfilter.nf_conntrack_count"), picture.found.get("neighbours"))
    for (setting, holds), count in zip(TABLES.items(), map(whole_number, held), strict=True):
        most = whole_number(said.get(setting))
        if most and count >= most * FULL_SHARE and is_of_the_machine(picture):
            reason = message(holds, picture.hosts.lang)
            yield {"value": f"{count} / {most}", "setting": setting, "reason": reason}


def _hugepages(picture: Picture) -> Said:
    memory = picture.found.get("memory") or {}
    kept, total = (whole_number(memory.get(name)) << 20 for name in ("hugepages_mib", "total_mib"))
    if kept >= max(HUGEPAGES_LEAST, total * HUGEPAGES_SHARE) and is_of_the_machine(picture):
        yield {"value": human_bytes(kept), "total": human_bytes(total)}


def _clock(picture: Picture) -> Said:
    if picture.found.get("clock_synchronized") is False and is_of_the_machine(picture):
        yield {"value": "NTPSynchronized=no"}


# By name: 5.6.17-rt10-xanmod1, 4.18.0-553.rt7.342.el8_10, 5.14.0-427.el9.x86_64+rt, 6.8.1-1015-realtime.
_REALTIME = re.compile(r"[-.+]rt\d*(?=[-.+]|$)|realtime")


def _realtime(picture: Picture) -> Said:
    kernel = str(picture.found.get("kernel") or "")
    realtime = picture.found.get("realtime") or _REALTIME.search(kernel)
    if realtime and picture.lacks_driver and is_of_the_machine(picture):
        yield {"value": kernel}


# -- the driver's modules ----------------------------------------------------------------------------------------------
def _blocked(picture: Picture) -> Said:
    """What keeps the driver's module away. A blacklist holds only where the card asks for the module, as at boot."""
    blocked = [entry for entry in picture.found.get("blocked_modules") or () if is_of_the_machine(picture)]
    wholly = [entry for entry in blocked if entry.get("wholly")]
    for entry in (wholly or blocked)[:1]:
        severity = ERROR if wholly and not picture.driver else WARNING
        yield {"value": str(entry["said"]), "path": entry["path"], "severity": severity}


def _options(picture: Picture) -> Said:
    for entry in picture.found.get("module_options") or ():
        said = str(entry["said"]).replace('"', "")
        code = next((code for pattern, code in OPTIONS if pattern.match(said)), "")
        if code:
            reason = message(code, picture.hosts.lang)
            yield {"value": said, "path": entry["path"], "reason": reason}


# -- the processor -----------------------------------------------------------------------------------------------------
def _flags(picture: Picture) -> Said:
    missing = [str(flag) for flag in picture.found.get("cpu_missing") or ()]
    if missing:
        severity = ERROR if set(missing) & set(NEEDED_FLAGS) else WARNING
        yield {"value": picture.hosts.names(missing), "severity": severity}


# Fewer than this are kept for one program beside the server.
ISOLATED_SHARE = 0.25


def _isolated(picture: Picture) -> Said:
    isolated, cpus = picture.found.get("cpus_isolated") or (), whole_number(picture.found.get("cpus"))
    if isolated and len(isolated) >= cpus * ISOLATED_SHARE and is_of_the_machine(picture):
        yield {"value": f"{len(isolated)} / {cpus}"}


# Read by a call into the kernel and from a device, instead of from a register of the processor or from the hypervisor.
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies")
# Drivers with which "powersave" lets the processor become faster, as others' "ondemand" does (Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst).
OWN_POWERSAVE = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")


def _clocksource(picture: Picture) -> Said:
    if picture.found.get("clocksource") in SLOW_CLOCKS and is_of_the_machine(picture):
        yield {"value": str(picture.found["clocksource"])}


def _held_slow(picture: Picture) -> Said:
    found = picture.found.get("cpu_frequency") or {}
    if found.get("governor") == "powersave" and found.get("driver") not in OWN_POWERSAVE and is_of_the_machine(picture):
        yield {"value": f"{found.get('driver')}: powersave"}


# -- the next boot, and the next kernel ---------------------------------------------------------------------------------
def _dkms(picture: Picture) -> Said:
    """Folders at which dkms stops; the packages of a driver build its modules by dkms."""
    folders = [str(folder) for folder in picture.found.get("dkms_broken") or ()]
    if folders:
        method = str(picture.hosts.get(picture.name, "driver_method") or AUTO)
        by_packages = method in (PACKAGES, REPOSITORY) or (
            method == AUTO and not picture.hosts.get(picture.name, "offline")
        )
        severity = ERROR if picture.lacks_driver and by_packages else WARNING
        yield {"value": picture.hosts.names(folders, 4), "folder": folders[0], "severity": severity}


def _reboot(picture: Picture) -> Said:
    """A boot that stops for a disk that is gone; and one that waits for a person, where the host may be rebooted with nobody there."""
    stops = [str(place) for place in picture.found.get("boot_stops") or ()]
    asks = [str(name) for name in picture.found.get("boot_passphrases") or ()]
    unattended = picture.lacks_driver or (
        picture.found.get("automatic_upgrades") and picture.found.get("automatic_reboot")
    )
    for code, said in (("reboot_disk", stops), ("reboot_passphrase", asks if unattended else [])):
        if said and is_of_the_machine(picture):
            yield {"value": picture.hosts.names(said), "reason": message(code, picture.hosts.lang)}


MACHINE: Judgements = {
    "host_in_wsl": _wsl,
    "host_in_container": _container,
    "kernel_locked": _locked,
    "kernel_realtime": _realtime,
    "clocksource_slow": _clocksource,
    "cpu_held_slow": _held_slow,
    "numa_balancing_on": _balancing,
    "kernel_settings_unfit": _settings,
    "kernel_table_full": _tables,
    "cpu_isolated": _isolated,
    "dkms_broken": _dkms,
    "reboot_unsafe": _reboot,
    "hugepages_reserved": _hugepages,
    "clock_unsynchronized": _clock,
    "driver_blocked": _blocked,
    "driver_options": _options,
    "cpu_features_missing": _flags,
}
