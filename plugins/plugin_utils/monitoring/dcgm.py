# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which exporter measures the GPUs of a host, and why: NVIDIA's DCGM exporter in a container, or the textfile that nvidia-smi fills."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.decide import held_images
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import device_files
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import facts_of, mapping, text, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, problem
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import table
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import address_of, endpoint

DCGM, TEXTFILE, AUTO = "dcgm", "textfile", "auto"
PORT = 9400
CONTAINER = "llm-dcgm-exporter"
COUNTERS = "/etc/llm-dcgm/counters.csv"
# DCGM asks the cards this often, and keeps what they said.
INTERVAL_SECONDS = 10


class Release(TypedDict):
    """From which release of DCGM's exporter on which driver (its first number) and which compute capability are needed at least."""

    release: str
    driver: int
    capability: str


def gpu_exporter(
    host: str, variables: Mapping[str, object], bundled: Collection[str] | None, lang: str = "en"
) -> dict[str, object]:
    """``exporter``, ``why`` for people, ``fits`` (whether DCGM's would run) and, where it does, ``listen`` and ``container``.

    ``variables`` hold what the host was found to have, or the GPUs that the inventory declares; what is not known refuses nothing. ``bundled``
    are the images of the bundle, None where images come from elsewhere.
    """
    facts = facts_of(variables)
    image, wish = (
        str(variables.get("monitoring_dcgm_image") or ""),
        str(variables.get("monitoring_gpu_exporter") or AUTO),
    )
    gpus = (
        mappings(facts["llm_gpus_found"]) if "llm_gpus_found" in facts else mappings(variables.get("llm_gpus")) or None
    )
    code, more = _against(image, facts, gpus, bundled)
    if wish == TEXTFILE:
        code, more = "gpu_exporter_asked", {}
    fits = not code
    why = message(code or "gpu_exporter_dcgm", lang, host=host, image=image, **more)
    if not fits:
        return {"exporter": TEXTFILE, "why": why, "fits": fits, "demanded": wish == DCGM}
    at = endpoint(address_of(host, variables), whole(variables.get("monitoring_dcgm_port") or PORT))
    return {
        "exporter": DCGM,
        "why": why,
        "fits": fits,
        "demanded": wish == DCGM,
        "listen": at,
        **_container(image, at, facts),
    }


def _against(
    image: str,
    facts: Mapping[str, object],
    gpus: Sequence[Mapping[str, object]] | None,
    bundled: Collection[str] | None,
) -> tuple[str, dict[str, str]]:
    """What speaks against DCGM's exporter: the code of a message with its values."""
    if not image:
        return "gpu_exporter_no_image", {}
    if bundled is not None and image not in bundled:
        return "gpu_exporter_not_bundled", {}
    needs = release_of(image)
    if gpus is not None and not gpus:
        return "gpu_exporter_no_gpu", {}
    for gpu in gpus or ():
        capability, name = str(gpu.get("compute_capability") or ""), str(gpu.get("name") or "")
        if capability and _number(capability) < _number(_least(name, needs["capability"])):
            return "gpu_exporter_old_gpu", {"gpu": name, "capability": capability, "least": needs["capability"]}
    driver = text(mapping(mapping(facts.get("llm_gpu")).get("driver")).get("loaded"))
    if driver and _number(driver)[0] < needs["driver"]:
        return "gpu_exporter_old_driver", {"driver": driver, "least": str(needs["driver"])}
    return "", {}


def gpu_exporters(
    hosts: Sequence[str],
    variables: Mapping[str, Mapping[str, object]],
    records: Callable[[str], Sequence[Mapping[str, object]]],
    lang: str = "en",
) -> dict[str, dict[str, object]]:
    """The same by host. ``records`` are those of the bundle in a folder."""
    found = {}
    for host in hosts:
        mine, bundled = variables[host], None
        if is_true(mine.get("llm_offline", True)):
            held = held_images([dict(record) for record in records(str(mine.get("llm_bundle_dir") or ""))])
            bundled = [str(image["reference"]) for image in held]
        found[host] = gpu_exporter(host, mine, bundled, lang)
    return found


def _least(name: str, capability: str) -> str:
    kepler = table("dcgm.yml")["kepler"]
    return str(kepler["capability"]) if str(kepler["name"]) in name else capability


def release_of(image: str) -> Release:
    """What the release of an image needs, by its tag."""
    releases: Sequence[Release] = table("dcgm.yml")["releases"]
    found = re.search(r":(\d+(?:\.\d+)*)-", image)
    said = _number(found.group(1)) if found else ()
    return next((one for one in releases if said >= _number(one["release"])), releases[-1]) if said else releases[0]


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(text)))


def counters() -> str:
    """The file that tells the exporter what to collect: field, type and help, by commas."""
    return "".join(f"{name}, {kind}, {name}\n" for name, kind in table("dcgm.yml")["counters"].items())


def _container(image: str, listen: str, facts: Mapping[str, object]) -> dict[str, object]:
    return {
        "counters": counters(),
        "container": {
            "name": CONTAINER,
            "image": image,
            "command": [
                *("--collectors", COUNTERS),
                *("--address", listen),
                *("--collect-interval", str(INTERVAL_SECONDS * 1000)),
            ],
            # The image's start gives the program CAP_SYS_ADMIN, which only figures of profiling need, unless this is set
            # (docker/dcgm-exporter-entrypoint.sh of NVIDIA/dcgm-exporter).
            "environment": {
                "NO_SETCAP": "1",
                "NVIDIA_VISIBLE_DEVICES": "all",
                "NVIDIA_DRIVER_CAPABILITIES": "utility,compute",
            },
            "devices": device_files(mapping(facts.get("llm_gpu")), mappings(facts.get("llm_gpus_found"))),
            "volumes": [f"{COUNTERS}:{COUNTERS}:ro"],
            "capabilities": [],
        },
    }


def exporters(found: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Where DCGM's exporters listen, by host."""
    return {host: str(one["listen"]) for host, one in found.items() if one["exporter"] == DCGM}


def refusal(host: str, found: Mapping[str, object], lang: str = "en") -> dict[str, str]:
    """Why the exporter that is demanded for a host cannot run there."""
    values = {"value": DCGM, "where": f"monitoring_gpu_exporter ({host})", "host": host, "why": str(found["why"])}
    return problem("gpu_exporter_refused", lang, **values)


def groups(found: Mapping[str, Mapping[str, object]]) -> dict[str, list[str]]:
    """The hosts by what is said of their exporter."""
    said: dict[str, list[str]] = {}
    for host, one in found.items():
        said.setdefault(str(one["why"]), []).append(host)
    return said
