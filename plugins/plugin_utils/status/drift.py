# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In what hosts differ that should be alike: those that serve one model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._gpu import Gpu
from ansible_collections.baremetal.llm.plugins.module_utils._live import Container
from ansible_collections.baremetal.llm.plugins.module_utils._nics import Interface
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import BY_VARIABLES
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import Looked

# So much of a digest tells two apart.
DIGITS = 12


def _of_cards(read: Callable[[Gpu], str | None]) -> Callable[[Looked], str | None]:
    """A fact of all cards of a host: one value where they are alike."""

    def found(looked: Looked) -> str | None:
        values = [read(gpu) for gpu in looked.gpus]
        known = [str(value) for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        return known[0] if len(set(known)) == 1 else ", ".join(known)

    return found


def _link(gpu: Gpu) -> str | None:
    width = gpu["link"]["width"]
    return None if width is None else f"x{width}"


def _clocks(gpu: Gpu) -> str | None:
    clocks = gpu["clocks"]
    if clocks["graphics_mhz"] is None:
        return None
    return f"{clocks['graphics_mhz']}/{clocks['memory_mhz'] or '?'} MHz"


def _power(gpu: Gpu) -> str | None:
    watts = gpu["power_limit_watts"]["now"]
    return None if watts is None else f"{watts} W"


def _ecc(gpu: Gpu) -> str | None:
    enabled = gpu["ecc"]["enabled"]
    return None if enabled is None else "on" if enabled else "off"


def _interface(looked: Looked) -> Interface | None:
    """The interface of the cluster, as the programs of the deployment were told; None where they were not."""
    for name in (looked.asked.names.get("server"), looked.asked.names.get("ray")):
        container = looked.container(str(name))
        told = container["environment"] if container else {}
        wanted = str(told.get("NCCL_SOCKET_IFNAME") or told.get("GLOO_SOCKET_IFNAME") or "").lstrip("=^")
        for nic in looked.facts.get("llm_nics_found") or ():
            if nic["name"] == wanted:
                return nic
    return None


def _card(looked: Looked) -> str | None:
    nic = _interface(looked)
    if not nic:
        return None
    speed = nic["speed_mbps"]
    driver = nic["driver"] or nic["kind"]
    firmware = (looked.live.get("firmware") or {}).get(nic["name"])
    return " ".join([driver, *([f"{speed / 1000:g} Gbit/s"] if speed else []), *([firmware] if firmware else [])])


def _mtu(looked: Looked) -> str | None:
    nic = _interface(looked)
    return None if nic is None or nic["mtu"] is None else str(nic["mtu"])


def image_of(looked: Looked) -> Container | None:
    """The container of the deployment's program."""
    return looked.container(looked.program[0]) if looked.asked.deployment else None


def _image(looked: Looked) -> str | None:
    found = image_of(looked)
    return _short(found["image_id"] if found else None)


def _short(digest: str | None) -> str | None:
    return digest.removeprefix("sha256:")[:DIGITS] if digest else None


def driver_of(looked: Looked) -> str | None:
    """The version of the driver that runs."""
    return looked.facts["llm_gpu"]["driver"]["loaded"] if "llm_gpu" in looked.facts else None


def _version(name: str) -> Callable[[Looked], str | None]:
    return lambda looked: (looked.live.get("versions") or {}).get(name) or None


def _settings(role: str) -> Callable[[Looked], str | None]:
    def found(looked: Looked) -> str | None:
        record = looked.facts.get("llm_records", {}).get(role)
        return _short(record["digest"] if record else None)

    return found


SETTINGS = "settings_"
# In the order in which they are shown; each has a message status_fact_NAME. Settings are those of roles that are asked for the same on equal hosts.
FACTS: dict[str, Callable[[Looked], str | None]] = {
    "kernel": lambda looked: looked.facts["llm_host"]["kernel"],
    "driver": driver_of,
    "engine": _version("docker"),
    "toolkit": _version("toolkit"),
    "image": _image,
    "model": lambda looked: _short((looked.live.get("models") or {}).get(looked.asked.model_folder)),
    "environment": lambda looked: (looked.facts.get("llm_environment") or {}).get("version"),
    "gpus": _of_cards(lambda gpu: gpu["name"]),
    "firmware": _of_cards(lambda gpu: gpu["firmware"]),
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


def _said(value: object) -> str | None:
    """A host that says something else than a text where a text belongs has not said what is asked."""
    return value if isinstance(value, str) else None


def drift(hosts: Sequence[Looked]) -> dict[str, dict[str, dict[str, str | None]]]:
    """``{group: {fact: {host: value}}}`` of facts in which hosts of a group differ. A value that is not known is None, and differs from nothing."""
    found: dict[str, dict[str, dict[str, str | None]]] = {}
    for group, members in alike(hosts).items():
        seen = [looked for looked in members if looked.answered]
        for fact, read in FACTS.items():
            values = {looked.asked.host: _said(read(looked)) for looked in seen}
            if len({value for value in values.values() if value is not None}) > 1:
                found.setdefault(group, {})[fact] = values
    return found
