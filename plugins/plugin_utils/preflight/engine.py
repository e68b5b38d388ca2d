# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine that does not start, or is none of Docker's, and a toolkit that gives containers no GPUs: rows of the table in ``history.py``."""

from __future__ import annotations

import re
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hardware import FABRIC_MANAGER
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import numbers_in
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.picture import Judgements, Picture, Said
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR, WARNING

ENGINE_UNITS = ("docker.service", "docker.socket", "containerd.service")
DRIVER_UNITS = ("nvidia-persistenced.service", FABRIC_MANAGER)
# The first toolkit that knows control groups of version 2 (NVIDIA/libnvidia-container, release 1.8.0), by the package that does the work.
OLDEST_TOOLKIT = (1, 8)
_TOOLKIT = ("libnvidia-container1", "nvidia-container-toolkit")


class Setting(NamedTuple):
    """A setting of the toolkit with which containers get no GPUs: its values, what comes of them, and how bad that is."""

    wrong: re.Pattern[str]
    reason: str
    severity: str


# Source: NVIDIA/nvidia-container-toolkit, internal/config.
SETTINGS = {
    "accept-nvidia-visible-devices-envvar-when-unprivileged": Setting(re.compile("false"), "toolkit_envvar", ERROR),
    # Where drivers live that a cluster keeps in a container of its own.
    "nvidia-container-cli.root": Setting(re.compile("/.+"), "toolkit_root", WARNING),
}


def _masked(picture: Picture) -> Said:
    """An engine that runs all the same does not come back after a restart; its socket alone it does without."""
    masked = [str(name) for name in picture.found.get("masked") or ()]
    runs = picture.units.get("docker.service") == "active"
    engine = [name for name in masked if name in ENGINE_UNITS and not (runs and name == "docker.socket")]
    driver = [name for name in masked if name in DRIVER_UNITS]
    for units, severity in ((engine, ERROR), (driver, WARNING)):
        if units:
            yield {"value": picture.hosts.names(units), "units": " ".join(units), "severity": severity}


def _failed(picture: Picture) -> Said:
    failed = [name for name in ENGINE_UNITS if picture.units.get(name) == "failed"]
    if failed and not picture.engine.get("version"):
        stays = picture.engine.get("installed_by") and not picture.docker_method
        yield {"value": picture.hosts.names(failed), "unit": failed[0], "severity": ERROR if stays else WARNING}


def _podman(picture: Picture) -> Said:
    if picture.is_podman:
        yield {"value": f"{picture.engine['product']} {picture.engine.get('version') or ''}".strip()}


def _toolkit(picture: Picture) -> Said:
    version = next((picture.packages[name] for name in _TOOLKIT if name in picture.packages), "")
    numbers = numbers_in(version)[:2]
    if picture.found.get("cgroup") == 2 and numbers and numbers < OLDEST_TOOLKIT and not picture.toolkit_method:
        yield {"value": version}


def _settings(picture: Picture) -> Said:
    said = picture.found.get("toolkit_settings") or {}
    if program := picture.found.get("toolkit_ldconfig_missing"):
        reason = message("toolkit_ldconfig", picture.hosts.lang)
        yield {"value": f"nvidia-container-cli.ldconfig = @{program}", "reason": reason}
    for name, setting in SETTINGS.items():
        value = str(said.get(name) or "")
        if setting.wrong.fullmatch(value):
            reason = message(setting.reason, picture.hosts.lang)
            yield {"value": f"{name} = {value}", "reason": reason, "severity": setting.severity}


# -- whom the engine asks ----------------------------------------------------------------------------------------------
# Mirrors of Docker Hub that serve nobody any more, or only networks of their owner: silenceshell/docker_mirror#5 (2019), ustclug/mirrorhelp#214 (2022),
# docker-practice/docker-registry-cn-mirror-test#3 (2020), sjtug/mirror-requests#369 (2024), Azure/container-service-for-azure-china#59 (2020).
MIRRORS_GONE = (
    "registry.docker-cn.com",
    "docker.mirrors.ustc.edu.cn",
    "reg-mirror.qiniu.com",
    "docker.mirrors.sjtug.sjtu.edu.cn",
    "dockerhub.azk8s.cn",
)


def _mirrors(picture: Picture) -> Said:
    """What the inventory asks for takes the place of what daemon.json says."""
    asked = picture.hosts.get(picture.name, "docker_registry_mirrors") or picture.config.get("registry-mirrors") or ()
    gone = [text for text in map(str, asked) if re.sub(r"^\w+://", "", text).split("/")[0] in MIRRORS_GONE]
    if gone and picture.pulls:
        yield {"value": picture.hosts.names(gone)}


def _authorization(picture: Picture) -> Said:
    plugins = [str(name) for name in picture.config.get("authorization-plugins") or ()]
    flag = (picture.flags.get("authorization-plugins") or {}).get("said")
    if plugins or flag:
        yield {"value": picture.hosts.names(plugins) if plugins else str(flag)}


def _helper(picture: Picture) -> Said:
    """A program that keeps passwords and is not there. With credentials of the inventory the client of a run has settings of its own."""
    helper = picture.found.get("docker_helper") or {}
    if helper.get("program") and picture.pulls and not picture.hosts.get(picture.name, "registry_credentials"):
        yield {"value": str(helper["program"]), "path": str(helper["path"])}


# Programs that remove containers and make them again when their image has a newer one, by the name of their image.
RENEWERS = ("watchtower", "ouroboros")


def _renewers(picture: Picture) -> Said:
    engine = picture.hosts.facts[picture.name].get("llm_container_engine") or {}
    running = [one for one in engine.get("containers") or () if one.get("state") == "running"]
    said = [
        f"{one.get('name')} ({one.get('image')})"
        for one in running
        if re.split(r"[:@]", str(one.get("image")).rpartition("/")[2])[0] in RENEWERS
    ]
    if said:
        yield {"value": picture.hosts.names(said)}


ENGINE: Judgements = {
    "unit_masked": _masked,
    "engine_failed": _failed,
    "engine_is_podman": _podman,
    "toolkit_too_old": _toolkit,
    "toolkit_settings": _settings,
    "engine_mirror_gone": _mirrors,
    "engine_authorization": _authorization,
    "engine_login_helper_missing": _helper,
    "containers_renewed": _renewers,
}
