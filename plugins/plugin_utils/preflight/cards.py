# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cards of a host say that nobody asks them at first sight: whom they serve, who holds their memory, what was logged of them, and whether their links
are all there. Rows of the table in ``history.py``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._xid import BAD
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import numbers_in, whole_number
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.picture import CONSUMER, Judgements, Picture, Said
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR, WARNING

# More than the driver keeps for itself on any card, and than an idle desktop draws with.
HELD_MIB = 1024
_LINKS = re.compile(r"NV(\d{1,3})")


def _index(gpu: Mapping[str, Any], at: int) -> str:
    return str(gpu.get("index", at))


def _host_of_vgpus(picture: Picture) -> Said:
    """The driver of a host of virtual machines: it divides cards, and has no CUDA."""
    said = {
        _index(gpu, at): str(gpu["virtualization"])
        for at, gpu in enumerate(picture.gpus)
        if str(gpu.get("virtualization") or "").startswith("Host ")
    }
    if said:
        yield {"value": picture.hosts.names([f"{index}: {mode}" for index, mode in said.items()])}


def _held(picture: Picture) -> Said:
    """Memory that is in use though no process computes. Of a card that is divided or virtual the driver lists no process, and a desktop draws with it."""
    seen = picture.found.get("gpu_processes") or picture.found.get("services")
    if seen or picture.has_desktop:
        return
    held = {
        _index(gpu, at): f"{used} MiB"
        for at, gpu in enumerate(picture.gpus)
        if (used := whole_number(gpu.get("memory_used_mib"))) >= HELD_MIB
        and not gpu.get("mig_enabled")
        and gpu.get("virtualization") != "VGPU"
    }
    if held:
        yield {"value": picture.hosts.names([f"{index}: {used}" for index, used in held.items()]), "index": min(held)}


def _logged(picture: Picture) -> Said:
    """Errors after which nothing more should be computed on a card before it was reset, each once."""
    found = [entry for entry in picture.gpu.get("xids") or () if entry.get("action") in BAD]
    said = list(dict.fromkeys(f"{entry['bus_id']}: Xid {entry['xid']} ({entry['action']})" for entry in found))
    if said:
        yield {"value": picture.hosts.names(said, 6)}


def _fewer_links(picture: Picture) -> Said:
    """Cards of one kind with fewer NVLinks than others: all of a board have as many, and cards without any are only worth a word on a board (SXM)."""
    topology = picture.gpu.get("topology") or {}
    kinds: dict[str, dict[str, int]] = {}
    for at, gpu in enumerate(picture.hosts.gpus(picture.name)):
        links = topology.get(f"GPU{_index(gpu, at)}")
        if links is not None:
            # Not those to network cards.
            count = sum(
                int(match.group(1))
                for other, link in links.items()
                if other.startswith("GPU") and (match := _LINKS.fullmatch(str(link)))
            )
            kinds.setdefault(str(gpu.get("name")), {})[_index(gpu, at)] = count
    for name, counts in kinds.items():
        most = max(counts.values())
        fewer = [f"{index}: {count}" for index, count in counts.items() if count < most and (count or "SXM" in name)]
        if fewer:
            yield {"value": picture.hosts.names(fewer), "most": most, "index": fewer[0].split(":", maxsplit=1)[0]}


# What the driver says of a card that it does not drive, and what that means; the first that fits is the cause.
# Sources: NVIDIA/open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/gsp, and #1230, #789, #943 there.
SAID = (
    (re.compile(r"unexpected WPR2 already up|likely in a bad state"), "log_bad_state"),
    (re.compile(r"failed to wait for GFW"), "log_card_firmware"),
    (re.compile(r"firmware/nvidia/\S+ failed|firmware load for nvidia/"), "log_firmware_file"),
    (re.compile(r"necessary power cables"), "log_power"),
    (re.compile(r"fallen off the bus"), "log_off_the_bus"),
    (re.compile(r"RmInitAdapter failed|Cannot initialize GSP"), "log_no_start"),
)


def _said(picture: Picture) -> Said:
    """Why the driver does not drive a card, in its own words. One that it lists was reset since."""
    lost = any(entry.get("code") == "gpu_lost" for entry in picture.gpu.get("problems") or ())
    if picture.gpu.get("source") == "nvidia-smi" and not lost:
        return
    lines = [str(line) for line in picture.gpu.get("kernel_log") or ()]
    for pattern, code in SAID:
        line = next((line for line in reversed(lines) if pattern.search(line)), "")
        if line:
            yield {"value": line, "reason": message(code, picture.hosts.lang)}
            return


# -- the driver's files ------------------------------------------------------------------------------------------------
def _foreign_library(picture: Picture) -> Said:
    """Libraries of another driver than the loaded one. Those for compatibility work with an older driver, on cards for data centers."""
    if not picture.driver or (picture.gpu.get("driver") or {}).get("mismatch"):
        return
    consumer = any(CONSUMER.search(str(gpu.get("name"))) for gpu in picture.gpus)
    for entry in picture.found.get("driver_libraries") or ():
        version, path = str(entry.get("version") or ""), str(entry["path"])
        compatible = "/compat/" in path and numbers_in(version) > numbers_in(picture.driver) and not consumer
        if (version and version != picture.driver and not compatible) or ("/compat/" in path and not version):
            # Containers get the libraries of the loaded driver from the toolkit.
            severity = ERROR if picture.hosts.get(picture.name, "python") else WARNING
            yield {"value": f"{path} {version}".strip(), "severity": severity, "driver": picture.driver}
            return


def _removed(picture: Picture) -> Said:
    for entry in list(picture.found.get("udev_removes") or ())[:1]:
        severity = WARNING if picture.hosts.gpus(picture.name) else ERROR
        yield {"value": str(entry["said"])[:200], "path": entry["path"], "severity": severity}


CARDS: Judgements = {
    "gpu_removed_by_rule": _removed,
    "driver_library_foreign": _foreign_library,
    "gpu_driver_said": _said,
    "gpu_host_of_vgpus": _host_of_vgpus,
    "gpu_memory_held": _held,
    "gpu_xid_logged": _logged,
    "nvlink_fewer": _fewer_links,
}
