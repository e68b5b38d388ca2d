# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In what hosts differ that should be alike: those that serve one model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import BY_VARIABLES
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import Looked

# So much of a digest tells two apart.
DIGITS = 12


def _of_cards(read: Callable[[Mapping[str, Any]], Any]) -> Callable[[Looked], str | None]:
    """A fact of all cards of a host: one value where they are alike."""

    def found(looked: Looked) -> str | None:
        values = [read(gpu) for gpu in looked.gpus]
        known = [str(value) for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        return known[0] if len(set(known)) == 1 else ", ".join(known)

    return found


def _link(gpu: Mapping[str, Any]) -> str | None:
    width = (gpu.get("link") or {}).get("width")
    return None if width is None else f"x{width}"


def _clocks(gpu: Mapping[str, Any]) -> str | None:
    clocks = gpu.get("clocks") or {}
    if clocks.get("graphics_mhz") is None:
        return None
    return f"{clocks['graphics_mhz']}/{clocks.get('memory_mhz') or '?'} MHz"


def _power(gpu: Mapping[str, Any]) -> str | None:
    limits = gpu.get("power_limit_watts")
    watts = limits.get("now") if isinstance(limits, Mapping) else None
    return None if watts is None else f"{watts} W"


def _ecc(gpu: Mapping[str, Any]) -> str | None:
    enabled = (gpu.get("ecc") or {}).get("enabled")
    return None if enabled is None else "on" if enabled else "off"


def _interface(looked: Looked) -> Mapping[str, Any]:
    """The interface of the cluster, as the programs of the deployment were told; nothing where they were not."""
    for name in (looked.asked.names.get("server"), looked.asked.names.get("ray")):
        told = (looked.container(str(name)) or {}).get("environment") or {}
        wanted = str(told.get("NCCL_SOCKET_IFNAME") or told.get("GLOO_SOCKET_IFNAME") or "").lstrip("=^")
        for nic in looked.facts.get("llm_nics_found") or ():
            if nic.get("name") == wanted:
                return dict(nic)
    return {}


def _card(looked: Looked) -> str | None:
    nic = _interface(looked)
    if not nic:
        return None
    speed = nic.get("speed_mbps")
    driver = nic.get("driver") or nic.get("kind") or "?"
    firmware = (looked.live.get("firmware") or {}).get(nic["name"])
    return " ".join([str(driver), *([f"{speed / 1000:g} Gbit/s"] if speed else []), *([firmware] if firmware else [])])


def _mtu(looked: Looked) -> str | None:
    found = _interface(looked).get("mtu")
    return None if found is None else str(found)


def image_of(looked: Looked) -> Mapping[str, Any] | None:
    """The container of the deployment's program."""
    _name, program = looked.program if looked.asked.deployment else ("", None)
    return program if program and "image_id" in program else None


def _image(looked: Looked) -> str | None:
    found = image_of(looked)
    return _short((found or {}).get("image_id"))


def _short(digest: Any) -> str | None:
    return str(digest).removeprefix("sha256:")[:DIGITS] if digest else None


def _version(name: str) -> Callable[[Looked], str | None]:
    return lambda looked: (looked.live.get("versions") or {}).get(name) or None


def _settings(role: str) -> Callable[[Looked], str | None]:
    return lambda looked: _short(((looked.facts.get("llm_records") or {}).get(role) or {}).get("digest"))


SETTINGS = "settings_"
# In the order in which they are shown; each has a message status_fact_NAME. Settings are those of roles that are asked for the same on equal hosts.
FACTS: dict[str, Callable[[Looked], Any]] = {
    "kernel": lambda looked: (looked.facts.get("llm_host") or {}).get("kernel"),
    "driver": lambda looked: ((looked.facts.get("llm_gpu") or {}).get("driver") or {}).get("loaded"),
    "engine": _version("docker"),
    "toolkit": _version("toolkit"),
    "image": _image,
    "model": lambda looked: _short((looked.live.get("models") or {}).get(looked.asked.model_folder)),
    "environment": lambda looked: (looked.facts.get("llm_environment") or {}).get("version"),
    "gpus": _of_cards(lambda gpu: gpu.get("name")),
    "firmware": _of_cards(lambda gpu: gpu.get("firmware")),
    "link": _of_cards(_link),
    "clocks": _of_cards(_clocks),
    "power": _of_cards(_power),
    "ecc": _of_cards(_ecc),
    "nic": _card,
    "mtu": _mtu,
    **{f"{SETTINGS}{role}": _settings(role) for role in BY_VARIABLES},
}


def alike(hosts: Iterable[Looked]) -> dict[str, list[Looked]]:
    """Hosts that should be alike, by what brings them together: the model that they serve, be it by one deployment or by replicas."""
    found: dict[str, list[Looked]] = {}
    for looked in hosts:
        if looked.asked.deployment:
            found.setdefault(looked.asked.served_model or looked.asked.deployment, []).append(looked)
    return found


def _text(value: Any) -> str | None:
    """What a host says may be of any kind."""
    return None if value is None else str(value)


def drift(hosts: Sequence[Looked]) -> dict[str, dict[str, dict[str, str | None]]]:
    """``{group: {fact: {host: value}}}`` of facts in which hosts of a group differ. A value that is not known is None, and differs from nothing."""
    found: dict[str, dict[str, dict[str, str | None]]] = {}
    for group, members in alike(hosts).items():
        seen = [looked for looked in members if looked.answered]
        for fact, read in FACTS.items():
            values = {looked.asked.host: _text(read(looked)) for looked in seen}
            if len({value for value in values.values() if value is not None}) > 1:
                found.setdefault(group, {})[fact] = values
    return found
