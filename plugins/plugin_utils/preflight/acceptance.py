# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPUs of a host are fit to serve, by what the host said of them at rest, under load and afterwards.

CHECKS is the table: a fact, what it means, and what is to be done. Each check gets everything that is known of one card and yields the values of its
message. A fact that nobody has is no finding.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._gpu import PCIE_LANE_MBPS, normal_bus_id
from ansible_collections.baremetal.llm.plugins.module_utils._xid import BAD
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

FAIL, WARN, PASS = "fail", "warn", "pass"
# What is measured and compared: its name, its unit for people, and what it is divided by for that.
FIGURES = {
    "matmul_flops": ("TFLOP/s", 1e12),
    "memory_bytes_per_second": ("GB/s", 1e9),
    "host_bytes_per_second": ("GB/s", 1e9),
}
# Dense 16-bit tensor TFLOP/s and memory GB/s of the data sheets, the first name that fits. What a large product reaches of the former lies between 60 and
# 90 percent (H100 80GB HBM3, measured: 79), and of the latter between 80 and 95 (measured: 83).
# Sources: NVIDIA's data sheets of V100 (2018), T4, A10, A30, A40, A100 (2021), RTX A6000, RTX 3090 and 4090 (Ada architecture paper), L4, L20, L40, L40S,
# H20, H100, H200 and HGX B200.
_SHEETS = (
    (r"V100S", 130, 1134),
    (r"V100.*(SXM|DGXS)", 125, 900),
    (r"V100", 112, 900),
    (r"\bT4\b", 65, 320),
    (r"A100.*PCIe.*80GB|A100 80GB PCIe", 312, 1935),
    (r"A[18]00.*80GB", 312, 2039),
    (r"A[18]00", 312, 1555),
    (r"\bA30\b", 165, 933),
    (r"\bA40\b", 149, 696),
    (r"\bA10\b", 125, 600),
    (r"RTX A6000", 154, 768),
    (r"RTX 3090", 71, 936),
    (r"RTX 4090", 165, 1008),
    (r"\bL40S", 362, 864),
    (r"\bL40\b", 181, 864),
    (r"\bL20\b", 119, 864),
    (r"\bL4\b", 121, 300),
    (r"\bH20\b", 148, 4000),
    (r"H100 PCIe", 756, 2039),
    (r"H100 NVL", 835, 3938),
    (r"H[18]00", 989, 3350),
    (r"\bH200", 989, 4800),
    (r"\bB200", 2250, 8000),
)
_LEAST_FLOPS, _LEAST_MEMORY, _LEAST_HOST, _LEAST_STEADY = 0.4, 0.6, 0.4, 0.8
# Cards with so many pages retired for double bit errors are replaced: https://docs.nvidia.com/deploy/dynamic-page-retirement/rma-policy.html
_MOST_PAGES = 60
_HOT_LEFT_CELSIUS = 3
_HEAT = ("hw_thermal_slowdown", "sw_thermal_slowdown")
_POWER = ("hw_power_brake_slowdown", "hw_slowdown")

Values = dict[str, object]


class Card(NamedTuple):
    """All that is known of one card. Where nothing is known, a mapping is empty."""

    name: str
    before: Mapping[str, Any]
    load: Mapping[str, Any]
    after: Mapping[str, Any]
    burn: Mapping[str, object]
    # The figures of this time, of last time, and the medians of the host's other cards of the same name.
    figures: Mapping[str, float]
    last: Mapping[str, Any]
    others: Mapping[str, float]
    xids: Sequence[Mapping[str, object]]
    dcgm: Sequence[Mapping[str, Any]]
    nvlink_errors: int
    slower: float
    # Not by a processor in its place, as on simulated hosts.
    is_measured: bool
    # What is known of the host: whether the card is listed by the driver, whether answers could be read, and what the burn-in said.
    is_listed: bool
    is_read: bool
    burn_said: str
    dcgm_said: str


class Check(NamedTuple):
    """A row of the table. The remedy is a code of the catalogue, accept_remedy_X."""

    severity: str
    remedy: str
    find: Callable[[Card], Iterator[Values]]


def _lost(card: Card) -> Iterator[Values]:
    if not card.is_listed or (card.before and card.is_read and not card.after):
        yield {}


def _unreadable(card: Card) -> Iterator[Values]:
    if card.is_listed and not card.is_read:
        yield {}


def _burn_failed(card: Card) -> Iterator[Values]:
    if card.is_listed and (not card.figures or card.burn.get("error")):
        yield {"said": str(card.burn.get("error") or card.burn_said or "-")[:300]}


def _count(name: str) -> Callable[[Card], Iterator[Values]]:
    def find(card: Card) -> Iterator[Values]:
        count = _number(card.burn.get(name))
        if count:
            yield {"count": int(count)}

    return find


def _ecc_uncorrected(card: Card) -> Iterator[Values]:
    now = _number(_inner(card.after or card.before, "ecc", "volatile", "uncorrected"))
    if now:
        yield {"count": int(now)}


def _ecc_corrected(card: Card) -> Iterator[Values]:
    counts = [_number(_inner(when, "ecc", "volatile", "corrected")) for when in (card.before, card.after)]
    if None not in counts and counts[1] > counts[0]:  # type: ignore[operator]
        yield {"count": int(counts[1] - counts[0])}  # type: ignore[operator]


def _worn(card: Card) -> Iterator[Values]:
    now = card.after or card.before
    pages = _number(_inner(now, "retired_pages", "uncorrected")) or 0
    if _inner(now, "remapped_rows", "failed") or now.get("unrepairable") or pages >= _MOST_PAGES:
        yield {"pages": int(pages)}


def _reset_pending(card: Card) -> Iterator[Values]:
    now = card.after or card.before
    if _inner(now, "remapped_rows", "pending") or _inner(now, "retired_pages", "pending"):
        yield {}


def _xid(card: Card) -> Iterator[Values]:
    for one in card.xids:
        if one.get("action") in BAD or one.get("during"):
            yield {"xid": one.get("xid"), "remedy": "accept_remedy_xid_" + str(one.get("action"))}


def _dcgm(card: Card) -> Iterator[Values]:
    for one in card.dcgm:
        yield {"test": one.get("test"), "status": one.get("status"), "said": one.get("said") or "-"}


def _dcgm_silent(card: Card) -> Iterator[Values]:
    if card.dcgm_said:
        yield {"said": card.dcgm_said}


def _link_narrow(card: Card) -> Iterator[Values]:
    width, widest = _number(card.load.get("width")), _number(_inner(card.before, "link", "width_max"))
    if width and widest and width < widest:
        yield {"found": int(width), "wanted": int(widest)}


def _link_slow(card: Card) -> Iterator[Values]:
    found, wanted = _number(card.load.get("generation")), _number(_inner(card.before, "link", "generation_max"))
    if found and wanted and found < wanted:
        yield {"found": int(found), "wanted": int(wanted)}


def _host_slow(card: Card) -> Iterator[Values]:
    lanes, generation = _number(card.load.get("width")), _number(card.load.get("generation"))
    carried = PCIE_LANE_MBPS.get(int(generation or 0), 0) * (lanes or 0) * 1e6 / 8
    rate = card.figures.get("host_bytes_per_second", 0.0)
    if card.is_measured and carried and 0 < rate < carried * _LEAST_HOST:
        yield {"found": _shown("host_bytes_per_second", rate), "wanted": _shown("host_bytes_per_second", carried)}


def _throttled(reasons: Sequence[str]) -> Callable[[Card], Iterator[Values]]:
    def find(card: Card) -> Iterator[Values]:
        found = [reason for reason in card.load.get("throttle_reasons") or () if reason in reasons]
        # The general reason says no more than the others.
        if found and not (found == ["hw_slowdown"] and set(_HEAT).intersection(card.load["throttle_reasons"])):
            yield {"reasons": ", ".join(found)}

    return find


def _hot(card: Card) -> Iterator[Values]:
    left = _number(card.load.get("temperature_left_celsius"))
    slow, found = _number(card.before.get("temperature_slow_celsius")), _number(card.load.get("temperature_celsius"))
    if left is None and slow and found:
        left = slow - found
    if left is not None and left <= _HOT_LEFT_CELSIUS:
        yield {"found": int(found or 0), "left": int(left)}


def _below_sheet(figure: str, least: float, column: int) -> Callable[[Card], Iterator[Values]]:
    def find(card: Card) -> Iterator[Values]:
        sheet = next((row for row in _SHEETS if re.search(row[0], card.name)), None)
        found = card.figures.get(figure)
        if card.is_measured and sheet is not None and found:
            wanted = float(sheet[column]) * FIGURES[figure][1]
            if found < wanted * least:
                yield {"found": _shown(figure, found), "wanted": _shown(figure, wanted)}

    return find


def _unsteady(card: Card) -> Iterator[Values]:
    share = _number(card.burn.get("matmul_slowest_share"))
    if card.is_measured and share and share < _LEAST_STEADY:
        yield {"percent": round(100 * (1 - share))}


def _slower(than: str) -> Callable[[Card], Iterator[Values]]:
    def find(card: Card) -> Iterator[Values]:
        for figure, found in card.figures.items() if card.is_measured else ():
            wanted = _number(getattr(card, than).get(figure))
            if wanted and found < wanted * (1 - card.slower):
                yield {"figure": figure, "found": _shown(figure, found), "wanted": _shown(figure, wanted)}

    return find


def _power_limited(card: Card) -> Iterator[Values]:
    limit, usual = (_number(_inner(card.before, "power_limit_watts", name)) for name in ("now", "default"))
    if limit and usual and limit < usual:
        yield {"found": int(limit), "wanted": int(usual)}


def _ecc_off(card: Card) -> Iterator[Values]:
    if _inner(card.before, "ecc", "enabled") is False:
        yield {}


def _persistence_off(card: Card) -> Iterator[Values]:
    if card.before.get("persistence_enabled") is False:
        yield {}


def _nvlink(card: Card) -> Iterator[Values]:
    if card.nvlink_errors > 0:
        yield {"count": card.nvlink_errors}


def _replays(card: Card) -> Iterator[Values]:
    counts = [_number(when.get("pcie_replays")) for when in (card.before, card.after)]
    if None not in counts and counts[1] > counts[0]:  # type: ignore[operator]
        yield {"count": int(counts[1] - counts[0])}  # type: ignore[operator]


CHECKS: dict[str, Check] = {
    "lost": Check(FAIL, "cold_start", _lost),
    "unreadable": Check(FAIL, "driver", _unreadable),
    "burn_failed": Check(FAIL, "log", _burn_failed),
    "memory_errors": Check(FAIL, "replace", _count("memory_errors")),
    "matmul_errors": Check(FAIL, "replace", _count("matmul_errors")),
    "ecc_uncorrected": Check(FAIL, "reset_then_replace", _ecc_uncorrected),
    "worn": Check(FAIL, "replace", _worn),
    "reset_pending": Check(FAIL, "reset", _reset_pending),
    "xid": Check(FAIL, "xid_watch", _xid),
    "dcgm_failed": Check(FAIL, "dcgm", _dcgm),
    "link_narrow": Check(FAIL, "reseat", _link_narrow),
    "heat": Check(FAIL, "cool", _throttled(_HEAT)),
    "power": Check(FAIL, "power", _throttled(_POWER)),
    "matmul_low": Check(WARN, "compare", _below_sheet("matmul_flops", _LEAST_FLOPS, 1)),
    "memory_low": Check(WARN, "compare", _below_sheet("memory_bytes_per_second", _LEAST_MEMORY, 2)),
    "host_low": Check(WARN, "reseat", _host_slow),
    "unsteady": Check(WARN, "cool", _unsteady),
    "slower_than_before": Check(WARN, "compare", _slower("last")),
    "slower_than_others": Check(WARN, "compare", _slower("others")),
    "link_slow": Check(WARN, "link_slow", _link_slow),
    "nvlink_errors": Check(WARN, "nvlink", _nvlink),
    "pcie_replays": Check(WARN, "reseat", _replays),
    "ecc_corrected": Check(WARN, "watch", _ecc_corrected),
    "hot": Check(WARN, "cool", _hot),
    "power_limited": Check(WARN, "power_limit", _power_limited),
    "ecc_off": Check(WARN, "ecc", _ecc_off),
    "persistence_off": Check(WARN, "persistence", _persistence_off),
    "dcgm_silent": Check(WARN, "dcgm", _dcgm_silent),
}


def judge(facts: Mapping[str, object], last: Mapping[str, object], slower_percent: int = 10) -> list[dict[str, object]]:
    """Each card of a host: ``{index, uuid, name, bus_id, verdict, findings, figures}``, findings as ``{code, severity, remedy, values}``.

    ``facts`` is what ``examine`` of module_utils/_accept.py returns and ``last`` what ``to_record`` returned last time; both may hold anything.
    """
    listed = {str(gpu.get("bus_id")): gpu for gpu in mappings(facts.get("gpus"))}
    on_bus = {str(gpu.get("bus_id")): gpu for gpu in mappings(facts.get("on_bus"))}
    burnt = {str(one.get("uuid")): one for one in mappings(facts.get("burn"))}
    known = {bus_id: {**on_bus.get(bus_id, {}), **listed.get(bus_id, {})} for bus_id in {**on_bus, **listed}}
    figures = {bus_id: _figures(burnt.get(str(gpu.get("uuid")), {})) for bus_id, gpu in known.items()}
    judged = []
    for number, (bus_id, gpu) in enumerate(sorted(known.items())):
        name, uuid = str(gpu.get("name") or ""), str(gpu.get("uuid") or "")
        index = gpu.get("index") if isinstance(gpu.get("index"), int) else number
        when = {phase: _inner(facts, phase, bus_id) for phase in ("before", "load", "after")}
        others = [
            figures[other] for other, card in known.items() if other != bus_id and card.get("name") == gpu.get("name")
        ]
        card = Card(
            name=name,
            **{phase: mapping(found) for phase, found in when.items()},
            burn=burnt.get(uuid, {}),
            figures=figures[bus_id],
            last=mapping(_inner(last, "gpus", uuid)),
            others=_medians(others),
            xids=[one for one in mappings(facts.get("xids")) if _is_bus(str(one.get("bus_id")), bus_id)],
            dcgm=[one for one in mappings(facts.get("dcgm")) if one.get("gpu") in (None, index)],
            nvlink_errors=_grown(facts, index),
            slower=slower_percent / 100,
            is_measured=burnt.get(uuid, {}).get("backend") == "cuda",
            is_listed=bus_id in listed,
            is_read=isinstance(facts.get("before"), Mapping) and isinstance(facts.get("after"), Mapping),
            burn_said=str(facts.get("burn_said") or ""),
            dcgm_said=str(facts.get("dcgm_said") or ""),
        )
        findings = [
            {
                "code": code,
                "severity": check.severity,
                "remedy": values.pop("remedy", "accept_remedy_" + check.remedy),
                "values": values,
            }
            for code, check in CHECKS.items()
            for values in check.find(card)
        ]
        severities = {finding["severity"] for finding in findings}
        verdict = FAIL if FAIL in severities else WARN if severities else PASS
        judged.append(
            {"index": index, "uuid": uuid, "name": name, "bus_id": bus_id, "verdict": verdict}
            | {"findings": findings, "figures": dict(card.figures)}
        )
    return judged


def to_record(gpus: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """What is kept for the next time: verdict and figures by UUID. A card that failed keeps nothing to compare with."""
    return {
        "gpus": {
            gpu["uuid"]: {
                "verdict": gpu["verdict"],
                "name": gpu["name"],
                **(mapping(gpu["figures"]) if gpu["verdict"] != FAIL else {}),
            }
            for gpu in gpus
            if gpu["uuid"]
        }
    }


def accept_text(host: str, gpus: Sequence[Mapping[str, Any]], lang: str = "en") -> str:
    """For people: a line for each card with its figures, below it what was found and what to do."""
    if not gpus:
        return message("accept_no_gpus", lang, host=host)
    lines = [message("accept_header", lang, host=host)]
    for gpu in gpus:
        figures = ", ".join(
            f"{message('accept_figure_' + name, lang)} {_shown(name, value)}" for name, value in gpu["figures"].items()
        )
        said = {"index": gpu["index"], "name": gpu["name"] or "-", "bus_id": gpu["bus_id"], "figures": figures or "-"}
        lines.append(message("accept_" + gpu["verdict"], lang, **said))
        for finding in gpu["findings"]:
            values = {**finding["values"]}
            if "figure" in values:
                values["figure"] = message("accept_figure_" + values["figure"], lang)
            what = message("accept_" + finding["code"], lang, **values)
            lines.append(message("accept_finding", lang, what=what, remedy=message(finding["remedy"], lang)))
    return "\n".join(lines)


def _shown(figure: str, value: float) -> str:
    unit, divisor = FIGURES[figure]
    return f"{value / divisor:.4g} {unit}"


def _number(value: object) -> float | None:
    return (
        float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e30 else None
    )


def _inner(value: object, *path: object) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _figures(burn: Mapping[str, object]) -> dict[str, float]:
    found = {name: _number(burn.get(name)) for name in FIGURES}
    return {name: value for name, value in found.items() if value is not None and value > 0}


def _medians(others: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {
        name: statistics.median([one[name] for one in others if name in one])
        for name in FIGURES
        if any(name in one for one in others)
    }


def _is_bus(said: str, bus_id: str) -> bool:
    """Whether the driver's PCI:0000:3b:00 is the card 00000000:3B:00.0."""
    return normal_bus_id(said if "." in said else said + ".0") == bus_id


def _grown(facts: Mapping[str, object], index: Any) -> int:
    counts = []
    for when in ("nvlink_before", "nvlink_after"):
        found = mapping(facts.get(when))
        counts.append(_number(found.get(str(index), found.get(index))) or 0)
    return int(counts[1] - counts[0])
