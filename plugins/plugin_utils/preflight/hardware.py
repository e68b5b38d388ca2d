# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel, the driver and the cards of a host say that somebody left so: the rows of the table in ``history.py`` about them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._gpu_generations import architecture
from ansible_collections.baremetal.llm.plugins.module_utils._pci import TRANSLATED
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.driver import branch_of, capability_numbers
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import PRESENT
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import DEB, MANAGERS
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import amount, numbers_in, whole_number
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.picture import CONSUMER, Judgements, Picture, Said
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR, WARNING

FABRIC_MANAGER = "nvidia-fabricmanager.service"
# States of a card's fabric that need no attention.
FABRIC_READY = ("completed", "n/a", "not supported")
# What NVIDIA's driver is called where a card is bound to it, also with Debian's module. nvidiafb of the kernel is another one.
OWN_DRIVER = "nvidia"
# Drivers of the kernel that the role nvidia_driver sends away (roles/nvidia_driver/tasks/nouveau.yml).
SENT_AWAY = ("nouveau", "nova_core", "nova-core", "NovaCore")
# What an initial RAM disk with NVIDIA's modules takes, while the former one is still there (pop-os/pop#3593: 132 MiB more).
BOOT_MIB = 150
# Packages by which a driver is renewed: its libraries, which have to be those of the module.
_LIBRARIES = re.compile(r"libnvidia-compute|libcuda1|nvidia-utils|nvidia-driver|nvidia-headless|cuda-drivers")
# A card that asks for nothing (nvidia-smi: GPU Recovery Action), and limits that differ by rounding.
_NO_ACTION = ("", "none", "n/a")
_POWER_TOLERANCE = 0.97


# -- the kernel and its modules ----------------------------------------------------------------------------------------
def _flavour(release: str) -> list[str]:
    """What tells kernels of one kind from those of another: generic, amd64, el and x."""
    return re.findall(r"[a-zA-Z]+", release)


def _modules_gone(picture: Picture) -> Said:
    kernels, running = picture.found.get("kernels") or {}, str(picture.found.get("kernel") or "")
    if kernels and running and running not in kernels:
        works = bool(picture.driver and picture.engine.get("version"))
        newest = max(kernels, key=numbers_in)
        yield {"value": running, "newest": newest, "severity": WARNING if works else ERROR}


def _next_kernel(picture: Picture) -> Said:
    kernels, running = picture.found.get("kernels") or {}, str(picture.found.get("kernel") or "")
    alike = [name for name in kernels if _flavour(name) == _flavour(running)]
    newest = max(alike, key=numbers_in, default=running)
    if picture.driver and running in kernels and numbers_in(newest) > numbers_in(running) and not kernels[newest]:
        yield {"value": newest, "newest": newest, "kernel": running}


def _boot(picture: Picture) -> Said:
    boot, method = picture.found.get("boot") or {}, picture.hosts.get(picture.name, "driver_method")
    free = boot.get("free_mib")
    if isinstance(free, int) and free < BOOT_MIB and not picture.driver and method not in (None, PRESENT):
        yield {"value": f"{free} MiB", "mount": boot["mount"], "least": BOOT_MIB}


# -- the driver --------------------------------------------------------------------------------------------------------
def _module_key(picture: Picture) -> Said:
    module = picture.found.get("module") or {}
    if picture.found.get("secure_boot") and module.get("path") and module.get("known") is False and not picture.driver:
        yield {"value": str(module.get("signer") or "-"), "path": module["path"]}


def _unfit(picture: Picture) -> Said:
    """A branch that has dropped the card, or modules of the kind that does not drive it. The role mends that, where it may."""
    driver = picture.gpu.get("driver") or {}
    version = str(driver.get("loaded") or driver.get("installed") or "")
    branch, kind = branch_of(version), str(driver.get("kernel_module") or "")
    found = {str(gpu.get("compute_capability")) for gpu in picture.hosts.gpus(picture.name)}
    for capability in sorted(text for text in found if re.fullmatch(r"\d{1,3}\.\d", text)):
        card = architecture(capability_numbers(capability))
        reason = ""
        if branch and card.last_branch and branch > int(card.last_branch):
            reason = message("driver_unfit_branch", picture.hosts.lang, last=card.last_branch)
        elif kind and kind not in card.kernel_modules:
            reason = message("driver_unfit_" + kind, picture.hosts.lang)
        if reason:
            kept = picture.hosts.get(picture.name, "driver_method") == PRESENT
            said = f"{version} ({kind})" if kind else version
            yield {"value": said, "capability": capability, "reason": reason, "severity": ERROR if kept else WARNING}
            return


def _not_held(picture: Picture) -> Said:
    manager = str(picture.hosts.facts[picture.name].get("pkg_mgr") or "")
    packages, held = picture.found.get("driver_packages") or {}, picture.found.get("driver_held") or ()
    loose = sorted(name for name in packages if _LIBRARIES.match(name) and name not in held)
    if loose and picture.keeps_driver and picture.found.get("automatic_upgrades") and MANAGERS.get(manager) == DEB:
        yield {"value": picture.hosts.names(loose, 4), "packages": " ".join(loose)}


# -- the bus -----------------------------------------------------------------------------------------------------------
def _bus(picture: Picture) -> Iterator[Mapping[str, Any]]:
    """Every card on the bus."""
    for entry in picture.gpu.get("bus") or ():
        if isinstance(entry, Mapping):
            yield entry


def _listed(picture: Picture) -> set[str]:
    """The cards that the driver drives, where it was asked."""
    if picture.gpu.get("source") != "nvidia-smi":
        return set()
    return {str(gpu.get("bus_id")) for gpu in picture.hosts.gpus(picture.name)}


def _bound(picture: Picture) -> Said:
    """Cards that another driver of the kernel has. Those that draw the console are sent away by the role, where it may touch the driver."""
    kept = picture.hosts.get(picture.name, "driver_method") == PRESENT
    strangers: dict[str, list[str]] = {}
    for entry in _bus(picture):
        name = str(entry.get("kernel_driver") or "")
        if name and name != OWN_DRIVER and (kept or name not in SENT_AWAY):
            strangers.setdefault(name, []).append(str(entry["bus_id"]))
    left = bool(picture.hosts.gpus(picture.name))
    for name, cards in strangers.items():
        severity = WARNING if left and name not in SENT_AWAY else ERROR
        yield {"value": picture.hosts.names(cards), "driver": name, "severity": severity}


def _window(picture: Picture) -> Said:
    listed = _listed(picture)
    cards = [str(entry["bus_id"]) for entry in _bus(picture) if entry.get("window_missing")]
    cards = [card for card in cards if card not in listed]
    if cards:
        yield {"value": picture.hosts.names(cards)}


def _over_pcie(picture: Picture) -> set[str]:
    """The cards of the host that reach another one by PCIe, by what the driver says of each pair."""
    topology, found = picture.gpu.get("topology") or {}, set()
    for mine, others in (picture.gpu.get("p2p") or {}).items():
        links = topology.get(mine) or {}
        if any(answer and not str(links.get(other, "NV")).startswith("NV") for other, answer in others.items()):
            found.add(mine)
    return {str(gpu.get("bus_id")) for gpu in picture.gpus if f"GPU{gpu.get('index')}" in found}


def _reached(picture: Picture) -> set[str]:
    """The cards that another device reads over PCIe: another card, or with RDMA between several hosts one of the network, where the card lets it."""
    ports = picture.hosts.facts[picture.name].get("llm_rdma_found") or ()
    reached = _over_pcie(picture)
    if len(picture.deployment.members) > 1 and any(port.get("active") for port in ports):
        reached |= {str(gpu.get("bus_id")) for gpu in picture.gpus if not CONSUMER.search(str(gpu.get("name")))}
    return reached


def _iommu(picture: Picture) -> Said:
    reached = _reached(picture)
    cards = [str(entry["bus_id"]) for entry in _bus(picture) if entry.get("iommu") in TRANSLATED]
    cards = [card for card in cards if card in reached]
    if cards:
        yield {"value": picture.hosts.names(cards)}


def _redirects(picture: Picture) -> Said:
    reached = _reached(picture)
    bridges = {
        str(bridge)
        for entry in _bus(picture)
        if str(entry["bus_id"]) in reached
        for bridge in entry.get("redirecting") or ()
    }
    if bridges:
        yield {"value": picture.hosts.names(sorted(bridges))}


# -- the cards ---------------------------------------------------------------------------------------------------------
def _indices(picture: Picture, holds: Mapping[str, object]) -> str:
    return picture.hosts.names([f"{index}: {text}" for index, text in holds.items()])


def _by_index(picture: Picture) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for at, gpu in enumerate(picture.gpus):
        yield str(gpu.get("index", at)), gpu


def _mig(picture: Picture) -> Said:
    cards = [str(gpu.get("index", at)) for at, gpu in enumerate(picture.gpus) if gpu.get("mig_enabled")]
    if cards:
        yield {"value": picture.hosts.names(cards), "index": cards[0]}


def _persistence(picture: Picture) -> Said:
    cards = [
        str(gpu.get("index", at)) for at, gpu in enumerate(picture.gpus) if gpu.get("persistence_enabled") is False
    ]
    # What draws on a card keeps the driver awake.
    drawn = picture.has_desktop and any(whole_number(gpu.get("memory_used_mib")) for gpu in picture.gpus)
    if cards and picture.driver and picture.keeps_driver and not drawn:
        yield {"value": picture.hosts.names(cards)}


def _compute_mode(picture: Picture) -> Said:
    modes = {index: str(gpu.get("compute_mode") or "Default") for index, gpu in _by_index(picture)}
    modes = {index: mode for index, mode in modes.items() if mode.lower() != "default"}
    if modes:
        shut = any(mode.lower() == "prohibited" for mode in modes.values())
        yield {"value": _indices(picture, modes), "severity": ERROR if shut else WARNING}


def _recovery(picture: Picture) -> Said:
    asked = {index: str(gpu.get("recovery_action") or "") for index, gpu in _by_index(picture)}
    asked = {index: action for index, action in asked.items() if action.lower() not in _NO_ACTION}
    if asked:
        yield {"value": _indices(picture, asked), "index": min(asked)}


def _unlicensed(picture: Picture) -> Said:
    said = {index: str(gpu.get("license_status") or "") for index, gpu in _by_index(picture)}
    said = {index: status for index, status in said.items() if status.lower().startswith("unlicensed")}
    if said:
        restricted = any("restricted" in status.lower() for status in said.values())
        yield {"value": _indices(picture, said), "severity": ERROR if restricted else WARNING}


def _power(picture: Picture) -> Said:
    """Cards that may take less than they are made for, though nobody asks for it here."""
    if whole_number(picture.hosts.get(picture.name, "power_limit_watts")):
        return
    limited = {}
    for index, gpu in _by_index(picture):
        limits = gpu.get("power_limit_watts") or {}
        now, usual = amount(limits.get("now")), amount(limits.get("default"))
        if 0 < now < usual * _POWER_TOLERANCE:
            limited[index] = f"{now:.0f} / {usual:.0f} W"
    if limited:
        yield {"value": _indices(picture, limited), "index": min(limited)}


def _ecc(picture: Picture) -> Said:
    """ECC that waits for a reset, or that is on for some cards of a deployment and off for others: their memory differs."""
    modes = {index: gpu.get("ecc") or {} for index, gpu in _by_index(picture)}
    waiting = {
        index: mode
        for index, mode in modes.items()
        if None not in (mode.get("enabled"), mode.get("pending")) and mode["enabled"] != mode["pending"]
    }
    everywhere = {
        (gpu.get("ecc") or {}).get("enabled")
        for host in picture.deployment.seen
        for gpu in picture.hosts.own_gpus(host)
    }
    off = {index: mode for index, mode in modes.items() if mode.get("enabled") is False}
    if waiting or (off and True in everywhere):
        words = {True: "ECC", False: "-", None: "?"}
        said = {
            index: f"{words[mode.get('enabled')]} -> {words[mode.get('pending')]}"
            for index, mode in {**off, **waiting}.items()
        }
        yield {"value": _indices(picture, said), "index": min(said)}


def _fabric_missing(picture: Picture) -> Said:
    state = picture.units.get(FABRIC_MANAGER) or ""
    if (
        picture.driver
        and picture.gpu.get("nvswitches")
        and state != "active"
        and not picture.found.get("fabric_manager")
    ):
        severity = ERROR if picture.keeps_driver else WARNING
        yield {"value": f"{FABRIC_MANAGER}: {state or '-'}", "severity": severity, "driver": picture.driver}


def _fabric_differs(picture: Picture) -> Said:
    version = str(picture.found.get("fabric_manager") or "")
    if picture.driver and picture.gpu.get("nvswitches") and version and version != picture.driver:
        severity = ERROR if picture.keeps_driver else WARNING
        yield {"value": version, "severity": severity, "driver": picture.driver}


def _fabric_state(picture: Picture) -> Said:
    states = sorted({str(gpu["fabric_state"]) for gpu in picture.gpus if gpu.get("fabric_state")})
    unfit = [state for state in states if state.lower() not in FABRIC_READY]
    named = [*_fabric_missing(picture), *_fabric_differs(picture)]
    if picture.driver and unfit and not named:
        yield {"value": picture.hosts.names(unfit)}


HARDWARE: Judgements = {
    "kernel_modules_gone": _modules_gone,
    "kernel_without_driver": _next_kernel,
    "boot_too_full": _boot,
    "module_key_rejected": _module_key,
    "driver_unfit": _unfit,
    "driver_not_held": _not_held,
    "gpu_bound_elsewhere": _bound,
    "gpu_without_window": _window,
    "iommu_translates": _iommu,
    "pci_redirects": _redirects,
    "fabric_manager_missing": _fabric_missing,
    "fabric_manager_differs": _fabric_differs,
    "fabric_not_ready": _fabric_state,
    "gpu_mig_enabled": _mig,
    "gpu_persistence_off": _persistence,
    "gpu_compute_mode": _compute_mode,
    "gpu_recovery_needed": _recovery,
    "gpu_unlicensed": _unlicensed,
    "gpu_power_limited": _power,
    "gpu_ecc_mode": _ecc,
}
