# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says of its GPUs before, under and after load: nvidia-smi, its NVLink counters, DCGM's diagnostics and the kernel's log.

Text in, plain values out. No text makes it fail: what cannot be read is left out or None.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from typing import Callable, Iterable, Mapping, Sequence, TypedDict
from xml.etree import ElementTree

from ansible_collections.baremetal.llm.plugins.module_utils import _xid as xid
from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping, mappings, read_json
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import (
    QUERY_FIELDS,
    Card,
    CardOnBus,
    Health,
    normal_bus_id,
    parse_health,
    parse_query,
    pci_gpus,
)
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs

# The newest driver's element first.
_POWER = "gpu_power_readings/instant_power_draw|gpu_power_readings/power_draw|power_readings/power_draw"
SAMPLE_SECONDS = 2.0
_COUNTER = re.compile(r"^\s*Link (\d+): (?P<name>[A-Za-z ]+?)(?: Errors?)?: ([0-9]{1,18})\s*$")
_GPU = re.compile(r"^GPU ([0-9]{1,9}):")


class Reading(Health):
    """A card's health, and figures besides."""

    power_watts: float | None
    sm_clock_mhz: float | None
    sm_clock_max_mhz: float | None
    memory_temperature_celsius: float | None
    # How far it is from slowing down (Hopper and later), or where that begins.
    temperature_left_celsius: float | None
    temperature_slow_celsius: float | None
    pcie_replays: float | None
    # Whether memory is beyond repair.
    unrepairable: bool


class Failed(TypedDict):
    """A test of DCGM that did not pass."""

    # None where the whole host is meant.
    gpu: int | None
    test: str
    status: str
    said: str


class Xid(TypedDict):
    """An error that the driver has logged, and whether that was since the load began."""

    bus_id: str
    xid: int
    action: str
    during: bool


class Examined(TypedDict):
    """Everything that is judged about a host's cards; by bus id, or in the case of NVLink by index."""

    on_bus: list[CardOnBus]
    gpus: list[Card]
    before: dict[str, Reading] | None
    after: dict[str, Reading] | None
    nvlink_before: dict[int, int]
    nvlink_after: dict[int, int]
    dcgm: list[Failed] | None
    dcgm_said: str
    # As the burn-in prints them.
    burn: list[Mapping[str, object]] | None
    burn_said: str
    load: dict[str, dict[str, object]]
    xids: list[Xid]


def _number(element: ElementTree.Element, paths: str) -> float | None:
    for path in paths.split("|"):
        match = re.match(r"-?\d+(?:\.\d+)?", (element.findtext(path) or "").strip())
        if match:
            return float(match.group())
    return None


def readings(text: str) -> dict[str, Reading] | None:
    """By bus id what ``nvidia-smi -q -x`` says of each card: its health as the facts have it, and figures. None if it is no such answer."""
    health = parse_health(text)
    if health is None:
        return None
    found: dict[str, Reading] = {}
    for gpu in ElementTree.fromstring(text).findall("gpu"):
        bus_id = normal_bus_id(gpu.get("id"))
        if bus_id in health:
            found[str(bus_id)] = {
                **health[str(bus_id)],
                "power_watts": _number(gpu, _POWER),
                "sm_clock_mhz": _number(gpu, "clocks/sm_clock"),
                "sm_clock_max_mhz": _number(gpu, "max_clocks/sm_clock"),
                "memory_temperature_celsius": _number(gpu, "temperature/memory_temp"),
                "temperature_left_celsius": _number(gpu, "temperature/gpu_temp_tlimit"),
                "temperature_slow_celsius": _number(gpu, "temperature/gpu_temp_slow_threshold"),
                "pcie_replays": _number(gpu, "pci/replay_counter"),
                "unrepairable": (gpu.findtext("ecc_errors/unrepairable_memory") or "").strip() == "Yes",
            }
    return found


def under_load(samples: Iterable[Mapping[str, Reading]]) -> dict[str, dict[str, object]]:
    """The worst of several readings of each card: the narrowest link, the highest temperature, every reason for lower clocks."""
    cards: dict[str, list[Reading]] = {}
    for sample in samples:
        for bus_id, card in sample.items():
            cards.setdefault(bus_id, []).append(card)
    return {bus_id: _worst(seen) for bus_id, seen in cards.items()}


def _worst(seen: Sequence[Reading]) -> dict[str, object]:
    reasons = {reason for card in seen for reason in card["throttle_reasons"] or ()}
    figures: dict[str, tuple[Callable[[list[float]], float], list[float | None]]] = {
        "width": (min, [card["link"]["width"] for card in seen]),
        # An idle card lowers it: what counts is whether it rises.
        "generation": (max, [card["link"]["generation"] for card in seen]),
        "temperature_celsius": (max, [card["temperature_celsius"] for card in seen]),
        "memory_temperature_celsius": (max, [card["memory_temperature_celsius"] for card in seen]),
        "temperature_left_celsius": (min, [card["temperature_left_celsius"] for card in seen]),
        "power_watts": (max, [card["power_watts"] for card in seen]),
        "sm_clock_mhz": (max, [card["sm_clock_mhz"] for card in seen]),
    }
    known = {name: (choose, [one for one in said if one is not None]) for name, (choose, said) in figures.items()}
    worst = {name: choose(numbers) for name, (choose, numbers) in known.items() if numbers}
    return {"samples": len(seen), "throttle_reasons": sorted(reasons), **worst}


def nvlink_errors(text: str) -> dict[int, int]:
    """By index of the card how many errors its NVLinks have counted, from ``nvidia-smi nvlink -e``."""
    found: dict[int, int] = {}
    index = None
    for line in text.splitlines():
        card = _GPU.match(line)
        if card:
            index = int(card.group(1))
            continue
        counter = _COUNTER.match(line)
        if counter and index is not None:
            found[index] = found.get(index, 0) + int(counter.group(3))
    return found


def dcgm_results(text: str) -> list[Failed] | None:
    """Each test of ``dcgmi diag -j`` that did not pass. None if that is no such answer. Releases
    before 4 name cards by gpu_id or gpu_ids, later ones by entity_id."""
    try:
        # Some releases print lines before it.
        read = read_json(text[text.index("{") :])
    except ValueError:
        return None
    tests = [test for category in _all(read, "test_categories") for test in mappings(category.get("tests"))]
    if not tests:
        return None
    found: list[Failed] = []
    for test in tests:
        for result in mappings(test.get("results")):
            status = str(result.get("status", ""))
            if status.lower() in ("pass", "skip", "skipped", "not run", ""):
                continue
            warnings = result.get("warnings")
            said = [
                str(one.get("warning", one)) if isinstance(one, dict) else str(one)
                for one in (warnings if isinstance(warnings, list) else ())
                if isinstance(one, (dict, str))
            ]
            named = str(result.get("entity_id", result.get("gpu_id", result.get("gpu_ids", ""))))
            cards: list[int | None] = [int(number) for number in re.findall(r"[0-9]{1,9}", named)]
            why = " ".join(said)[:300] or str(result.get("info", ""))[:300]
            name = str(test.get("name", ""))
            found += [{"gpu": card, "test": name, "status": status, "said": why} for card in cards or [None]]
    return found


def _all(value: object, name: str) -> list[Mapping[str, object]]:
    """The mappings of every list with this name, wherever it is one or two levels down."""
    whole = mapping(value)
    return [one for part in (whole, *whole.values()) for one in mappings(mapping(part).get(name))]


def burnt(text: str) -> list[Mapping[str, object]] | None:
    """The figures of the burn-in, one entry for each card; None if there are none."""
    for line in reversed(text.splitlines()):
        try:
            gpus = read_json(line)["gpus"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(gpus, list):
            return mappings(gpus)
    return None


def load(command: Sequence[str], seconds: float, sample: Callable[[], None]) -> tuple[int | None, str, str]:
    """Run a command, look at the cards meanwhile, and return its exit status (None where it took too long), output and complaint."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            return 127, "", str(error)
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            sample()
            try:
                process.wait(timeout=SAMPLE_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        status = process.poll()
        if status is None:
            process.kill()
            process.wait()
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read(1 << 20).decode(errors="replace"))
        return status, texts[0], texts[1]


def examine(
    programs: Programs,
    diagnoses: Programs,
    command: Sequence[str],
    seconds: float,
    dcgm_level: int,
    sysfs_root: str,
) -> Examined:
    """See how the cards are before, under and after load."""
    smi = programs.path("nvidia-smi")

    def ask(*words: str) -> str:
        status, out, _err = programs.run([smi, *words]) if smi else (1, "", "")
        return out if status == 0 else ""

    # An old driver refuses a query for what it does not know.
    fields = ",".join(theirs for theirs, ours in QUERY_FIELDS if ours != "compute_capability")
    on_bus, gpus = pci_gpus(sysfs_root), parse_query(ask("--query-gpu=" + fields, "--format=csv"))
    before, nvlink_before = readings(ask("-q", "-x")), nvlink_errors(ask("nvlink", "-e"))
    dcgm, dcgm_said = _diagnose(diagnoses, dcgm_level)
    began = time.time()
    samples: list[dict[str, Reading]] = []

    def sample() -> None:
        found = readings(ask("-q", "-x"))
        if found is not None:
            samples.append(found)

    _status, out, err = load(command, seconds, sample) if command else (0, "", "")
    return {
        "on_bus": on_bus,
        "gpus": gpus,
        "before": before,
        "nvlink_before": nvlink_before,
        "dcgm": dcgm,
        "dcgm_said": dcgm_said,
        "burn": burnt(out),
        "burn_said": " ".join((err.strip() or out.strip()).splitlines()[-3:])[-500:],
        "load": under_load(samples),
        "after": readings(ask("-q", "-x")),
        "nvlink_after": nvlink_errors(ask("nvlink", "-e")),
        "xids": _xids(programs.answer("journalctl", *xid.JOURNAL, "--grep", xid.LOGGED), began),
    }


def _diagnose(programs: Programs, level: int) -> tuple[list[Failed] | None, str]:
    """What DCGM's diagnostics found; None where there is no DCGM, and what it said where it did not answer."""
    dcgmi = programs.path("dcgmi") if level else ""
    if not dcgmi:
        return None, ""
    # It ends with a status of its own where a test fails.
    _status, out, err = programs.run([dcgmi, "diag", "-r", str(level), "-j"])
    found = dcgm_results(out)
    return found, "" if found is not None else " ".join((err.strip() or out.strip()).split())[:300]


def _xids(text: str, began: float) -> list[Xid]:
    """The errors that the driver has logged since the boot, each kind of a card once."""
    found: dict[tuple[str, int], Xid] = {}
    for at, read in xid.logged(text):
        during = at is not None and at >= began
        entry = found.setdefault(
            (read.bus_id, read.number),
            {"bus_id": read.bus_id, "xid": read.number, "action": read.action, "during": during},
        )
        entry["during"] = entry["during"] or during
    return list(found.values())
