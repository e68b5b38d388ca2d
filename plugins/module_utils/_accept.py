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
from typing import Any, Callable, Iterable, Mapping, Sequence
from xml.etree import ElementTree

from ansible_collections.baremetal.llm.plugins.module_utils import _xid as xid
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import (
    QUERY_FIELDS,
    normal_bus_id,
    parse_health,
    parse_query,
    pci_gpus,
)
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs

# What is read besides a card's health: the newest driver's element first.
_FIGURES = {
    "power_watts": "gpu_power_readings/instant_power_draw|gpu_power_readings/power_draw|power_readings/power_draw",
    "sm_clock_mhz": "clocks/sm_clock",
    "sm_clock_max_mhz": "max_clocks/sm_clock",
    "memory_temperature_celsius": "temperature/memory_temp",
    # How far it is from slowing down (Hopper and later), or where that begins.
    "temperature_left_celsius": "temperature/gpu_temp_tlimit",
    "temperature_slow_celsius": "temperature/gpu_temp_slow_threshold",
    "pcie_replays": "pci/replay_counter",
}
SAMPLE_SECONDS = 2.0
_COUNTER = re.compile(r"^\s*Link (\d+): (?P<name>[A-Za-z ]+?)(?: Errors?)?: ([0-9]{1,18})\s*$")
_GPU = re.compile(r"^GPU ([0-9]{1,9}):")


def _number(element: ElementTree.Element, paths: str) -> float | None:
    for path in paths.split("|"):
        match = re.match(r"-?\d+(?:\.\d+)?", (element.findtext(path) or "").strip())
        if match:
            return float(match.group())
    return None


def readings(text: str) -> dict[str, dict[str, Any]] | None:
    """By bus id what ``nvidia-smi -q -x`` says of each card: its health as the facts have it, and the figures above. None if it is no such answer."""
    health = parse_health(text)
    if health is None:
        return None
    found = {}
    for gpu in ElementTree.fromstring(text).findall("gpu"):
        bus_id = normal_bus_id(gpu.get("id"))
        if bus_id in health:
            figures = {name: _number(gpu, paths) for name, paths in _FIGURES.items()}
            unrepairable = (gpu.findtext("ecc_errors/unrepairable_memory") or "").strip() == "Yes"
            found[str(bus_id)] = {**health[str(bus_id)], **figures, "unrepairable": unrepairable}
    return found


def under_load(samples: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The worst of several readings of each card: the narrowest link, the highest temperature, every reason for lower clocks."""
    worst: dict[str, dict[str, Any]] = {}
    for sample in samples:
        for bus_id, card in sample.items():
            mine = worst.setdefault(bus_id, {"samples": 0, "throttle_reasons": []})
            mine["samples"] += 1
            mine["throttle_reasons"] = sorted({*mine["throttle_reasons"], *(card.get("throttle_reasons") or ())})
            values = {
                "width": (min, (card.get("link") or {}).get("width")),
                # An idle card lowers it: what counts is whether it rises.
                "generation": (max, (card.get("link") or {}).get("generation")),
                "temperature_celsius": (max, card.get("temperature_celsius")),
                "memory_temperature_celsius": (max, card.get("memory_temperature_celsius")),
                "temperature_left_celsius": (min, card.get("temperature_left_celsius")),
                "power_watts": (max, card.get("power_watts")),
                "sm_clock_mhz": (max, card.get("sm_clock_mhz")),
            }
            for name, (choose, value) in values.items():
                if value is not None:
                    mine[name] = choose(value, mine[name]) if name in mine else value
    return worst


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


def dcgm_results(text: str) -> list[dict[str, Any]] | None:
    """Each test of ``dcgmi diag -j`` that did not pass: ``{gpu, test, status, said}``; gpu is None where the whole host is meant. None if that is no such
    answer. Releases before 4 name cards by gpu_id or gpu_ids, later ones by entity_id."""
    try:
        # Some releases print lines before it.
        read = read_json(text[text.index("{") :])
    except ValueError:
        return None
    tests = [test for category in _all(read, "test_categories") for test in _list(category.get("tests"))]
    if not tests:
        return None
    found = []
    for test in tests:
        for result in _list(test.get("results")):
            status = str(result.get("status", ""))
            if status.lower() in ("pass", "skip", "skipped", "not run", ""):
                continue
            said = [
                str(one.get("warning", one)) if isinstance(one, dict) else str(one)
                for one in _list(result.get("warnings"), dict, str)
            ]
            named = str(result.get("entity_id", result.get("gpu_id", result.get("gpu_ids", ""))))
            cards: list[int | None] = [int(number) for number in re.findall(r"[0-9]{1,9}", named)]
            entry = {
                "test": str(test.get("name", "")),
                "status": status,
                "said": " ".join(said)[:300] or str(result.get("info", ""))[:300],
            }
            found += [{"gpu": card, **entry} for card in cards or [None]]
    return found


def _list(value: Any, *kinds: type) -> list[Any]:
    return [one for one in value if isinstance(one, kinds or (dict,))] if isinstance(value, list) else []


def _all(value: Any, name: str) -> list[dict[str, Any]]:
    """The mappings of every list with this name, wherever it is one or two levels down."""
    if not isinstance(value, dict):
        return []
    return _list(value.get(name)) + [
        one for inner in value.values() for one in (_list(inner.get(name)) if isinstance(inner, dict) else [])
    ]


def burnt(text: str) -> list[dict[str, Any]] | None:
    """The figures of the burn-in, one entry for each card; None if there are none."""
    for line in reversed(text.splitlines()):
        try:
            gpus = read_json(line)["gpus"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(gpus, list):
            return [one for one in gpus if isinstance(one, dict)]
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
) -> dict[str, Any]:
    """Everything that is judged about a host's cards; see the module gpu_accept for its shape."""
    smi = programs.path("nvidia-smi")

    def ask(*words: str) -> str:
        status, out, _err = programs.run([smi, *words]) if smi else (1, "", "")
        return out if status == 0 else ""

    # An old driver refuses a query for what it does not know.
    fields = ",".join(theirs for theirs, ours in QUERY_FIELDS if ours != "compute_capability")
    facts: dict[str, Any] = {
        "on_bus": pci_gpus(sysfs_root),
        "gpus": parse_query(ask("--query-gpu=" + fields, "--format=csv")),
        "before": readings(ask("-q", "-x")),
        "nvlink_before": nvlink_errors(ask("nvlink", "-e")),
    }
    facts["dcgm"], facts["dcgm_said"] = _diagnose(diagnoses, dcgm_level)
    began, samples = time.time(), []

    def sample() -> None:
        found = readings(ask("-q", "-x"))
        if found is not None:
            samples.append(found)

    status, out, err = load(command, seconds, sample) if command else (0, "", "")
    facts["burn"], facts["burn_status"] = burnt(out), status
    facts["burn_said"] = " ".join((err.strip() or out.strip()).splitlines()[-3:])[-500:]
    facts["load"] = under_load(samples)
    facts["after"] = readings(ask("-q", "-x"))
    facts["nvlink_after"] = nvlink_errors(ask("nvlink", "-e"))
    facts["xids"] = _xids(programs.answer("journalctl", *xid.JOURNAL, "--grep", xid.LOGGED), began)
    return facts


def _diagnose(programs: Programs, level: int) -> tuple[list[dict[str, Any]] | None, str]:
    """What DCGM's diagnostics found; None where there is no DCGM, and what it said where it did not answer."""
    dcgmi = programs.path("dcgmi") if level else ""
    if not dcgmi:
        return None, ""
    # It ends with a status of its own where a test fails.
    _status, out, err = programs.run([dcgmi, "diag", "-r", str(level), "-j"])
    found = dcgm_results(out)
    return found, "" if found is not None else " ".join((err.strip() or out.strip()).split())[:300]


def _xids(text: str, began: float) -> list[dict[str, Any]]:
    """The errors that the driver has logged since the boot, each kind of a card once: ``{bus_id, xid, action, during}``."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for at, read in xid.logged(text):
        during = at is not None and at >= began
        entry = found.setdefault(
            (read.bus_id, read.number),
            {"bus_id": read.bus_id, "xid": read.number, "action": read.action, "during": during},
        )
        entry["during"] |= during
    return list(found.values())
