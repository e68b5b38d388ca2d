# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet as one document, and that as lines for a terminal and as a page. What is unknown stays None up to where it is said."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping
from ansible_collections.baremetal.llm.plugins.module_utils._journal import TEXTS, Told
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import absent_line
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.columns import aligned
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.html import render_page
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.drift import SETTINGS, drift, driver_of, image_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.leftovers import Leftover, leftovers
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import (
    ANSWERS,
    BAD,
    GOOD,
    STATES,
    UNKNOWN,
    Looked,
    figures_of,
    gpu_errors,
    last_token,
    ranks_of,
    state_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.trends import KnownSeries, deployment_series

SCHEMA = 1
# The columns of the table; each has a message status_NAME. A column of the second line whose cells are all equal is said once above the table.
COLUMNS = (
    *("host", "gpus", "memory", "temperature", "errors", "driver", "engine", "image"),
    *("deployment", "rank", "state", "last_token", "kv_use", "running", "waiting", "since"),
)
COMMON = ("gpus", "driver", "engine", "image")
NUMBERS = ("temperature", "errors", "last_token", "kv_use", "running", "waiting", "since")
# What only the head of a deployment knows.
OF_HEADS = ("last_token", "kv_use", "running", "waiting")
# Then there is nothing that could be known.
NOT_RUNNING = ("absent", "stopped", "idle", "asleep")
SPARK_WIDTH, SPARK_HEIGHT = 160, 32
SPARKS = ("running", "tokens")
MINUTE, HOUR, DAY = 60, 3600, 86400


class Row(TypedDict):
    """A host: sizes in MiB, times in seconds, shares from 0 to 1. None is what nobody knows."""

    host: str
    # Empty outside of all deployments.
    deployment: str
    services: list[str]
    # The name of each.
    gpus: list[str | None] | None
    memory_used_mib: int | None
    memory_mib: int | None
    # Of the warmest card, in degrees Celsius.
    temperature: int | None
    errors: int | None
    driver: str | None
    # The versions of the container engine, and of NVIDIA's toolkit.
    engine: str | None
    toolkit: str | None
    image: str | None
    image_id: str | None
    head: bool
    ranks: list[int] | None
    # State.code, grade and said.
    state: str
    grade: str
    said: str
    last_token_seconds: float | None
    kv_use: float | None
    # Requests.
    running: float | None
    waiting: float | None
    since_seconds: float | None
    # What is no longer as a role left it.
    changed: list[str]


class Deployment(TypedDict):
    """A deployment, with the state of its head and the worst grade of its hosts."""

    model: str
    head: str
    state: str
    grade: str
    hosts: list[str]


class Held(TypedDict):
    """A host that a run holds, who that is, and since when (seconds since 1970)."""

    host: str
    who: str
    playbook: str
    since: float


class LastRun(Told):
    """A run that took hosts, and what it changed there."""

    # Seconds since 1970.
    begun: int
    hosts: list[str]
    roles: list[str]
    # Those that it has not given back.
    unfinished: list[str]


class StatusDocument(TypedDict):
    """All of it, as it is written."""

    schema: int
    # As reports write moments.
    time: str
    rows: list[Row]
    deployments: dict[str, Deployment]
    # Hosts that do not take part, as plugin_utils/inventory/members.py says them.
    absent: list[dict[str, str]]
    # By group, fact and host.
    drift: dict[str, dict[str, dict[str, str | None]]]
    # The fields of Leftover.
    leftovers: list[dict[str, Any]]
    held: list[Held]
    runs: list[LastRun]
    # By deployment and one of SPARKS: values by time.
    series: dict[str, dict[str, list[tuple[float, float]]]]
    # Whether all is well.
    ok: bool


def status_document(
    hosts: Sequence[Looked],
    now: float,
    former: Mapping[str, float] | None = None,
    series: KnownSeries | None = None,
    absent: Sequence[Mapping[str, str]] = (),
) -> StatusDocument:
    """All of it as plain data. ``absent`` are hosts that do not take part (plugin_utils/inventory/members.py).

    ``now`` is the controller's clock; ``former`` hosts were there in earlier looks, and ``series`` is what Prometheus knows."""
    rows = [row_of(looked) for looked in hosts if looked.asked.deployment or looked.asked.services]
    deployments: dict[str, Deployment] = {}
    for looked in hosts:
        if looked.asked.is_head:
            name = looked.asked.deployment
            members = [row for row in rows if row["deployment"] == name]
            deployments[name] = {
                "model": looked.asked.served_model,
                "head": looked.asked.host,
                "state": state_of(looked).code,
                "grade": _worst(STATES[row["state"]] for row in members),
                "hosts": [row["host"] for row in members],
            }
    days = {host: _day(seen) for host, seen in (former or {}).items()}
    return {
        "schema": SCHEMA,
        "time": moment(now),
        "rows": rows,
        "deployments": deployments,
        "absent": [dict(each) for each in absent],
        "drift": drift(hosts),
        "leftovers": [asdict(each) for each in leftovers(hosts, days)],
        "held": held(hosts),
        "runs": last_runs(hosts),
        "series": {
            name: {kind: values for kind in SPARKS if (values := deployment_series(series, kind, name))}
            for name in deployments
        },
        "ok": all(row["grade"] == GOOD for row in rows) and bool(rows),
    }


def row_of(looked: Looked) -> Row:
    """A row of the table as data."""
    state, figures, head = state_of(looked), figures_of(looked), looked.asked.is_head
    cards = looked.gpus
    used = _known(gpu["memory_used_mib"] for gpu in cards)
    warm = _known(gpu["temperature_celsius"] for gpu in cards)
    sizes = _known(gpu["memory_mib"] for gpu in cards)
    image = image_of(looked)
    versions = looked.live.get("versions") or {}
    return {
        "host": looked.asked.host,
        "deployment": looked.asked.deployment,
        "services": list(looked.asked.services),
        "gpus": [gpu["name"] for gpu in cards] if looked.answered else None,
        "memory_used_mib": sum(used) if cards and len(used) == len(cards) else None,
        "memory_mib": sum(sizes) if sizes else None,
        "temperature": max(warm) if warm else None,
        "errors": gpu_errors(looked),
        "driver": driver_of(looked),
        "engine": versions.get("docker") or None,
        "toolkit": versions.get("toolkit") or None,
        "image": image["image"] if image else None,
        "image_id": image["image_id"] if image else None,
        "head": head,
        "ranks": ranks_of(looked),
        "state": state.code,
        "grade": state.grade,
        "said": state.said,
        "last_token_seconds": last_token(looked),
        "kv_use": figures.get("kv_use") if head else None,
        "running": figures.get("running") if head else None,
        "waiting": figures.get("waiting") if head else None,
        "since_seconds": state.seconds,
        "changed": sorted(_changed(looked)),
    }


def held(hosts: Iterable[Looked]) -> list[Held]:
    """Hosts that a run holds."""
    found: list[Held] = []
    for looked in hosts:
        holder: Any = mapping(looked.facts.get("llm_lock")).get("holder")
        if holder:
            who, playbook = (str(holder.get(name) or "") for name in ("who", "playbook"))
            found.append({"host": looked.asked.host, "who": who, "playbook": playbook, "since": holder["since"]})
    return found


def last_runs(hosts: Iterable[Looked], most: int = 5) -> list[LastRun]:
    """The last runs that took hosts, the newest first."""
    runs: dict[str, LastRun] = {}
    for looked in hosts:
        for each in looked.facts.get("llm_journal") or ():
            told: Any = {name: each.get(name) for name in TEXTS if name in each}
            started: LastRun = {"begun": each["begun"], "hosts": [], "roles": [], "unfinished": []}
            started.update(told)
            run = runs.setdefault(repr(sorted(each["run"].items())), started)
            run["begun"] = min(run["begun"], each["begun"])
            run["hosts"].append(looked.asked.host)
            run["roles"] = sorted({*run["roles"], *each["roles"]})
            if each["ended"] is None:
                run["unfinished"].append(looked.asked.host)
    return sorted(runs.values(), key=lambda run: run["begun"], reverse=True)[:most]


def _changed(looked: Looked) -> list[str]:
    """What is no longer as a role left it, by its record."""
    records = looked.facts.get("llm_records") or {}
    return [f"{role}: {what}" for role, record in records.items() for what in record["differs"]]


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _worst(grades: Iterable[str]) -> str:
    found = set(grades)
    return next((grade for grade in (BAD, UNKNOWN, "warning") if grade in found), GOOD)


def moment(seconds: float) -> str:
    """Seconds since 1970 as reports write them, in UTC."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _day(seconds: float) -> str:
    return moment(seconds)[:10]


# -- words ------------------------------------------------------------------------------------------------------------
def verdict(document: StatusDocument, lang: str = "en") -> str:
    """What matters most, in one or two lines: what serves, what does not, what is not known."""
    every = document["deployments"]
    # One that is asleep answers who asks.
    answering = [name for name, each in every.items() if each["state"] in (*ANSWERS, "asleep")]
    code = "status_all_serve" if len(answering) == len(every) else "status_some_serve"
    parts = [message(code if every else "status_nothing", lang, count=len(answering), all=len(every))]
    for name, each in every.items():
        if name not in answering:
            word = message("status_is_" + each["state"], lang)
            parts.append(message("status_not_serving", lang, deployment=name, state=word))
    rows = document["rows"]
    for state in ("silent", "garbage"):
        mine = [row["host"] for row in rows if row["state"] == state]
        if mine:
            parts.append(message("status_hosts_" + state, lang, hosts=names(mine, lang)))
    for what in ("drift", "leftovers"):
        if document[what]:
            parts.append(message("status_has_" + what, lang, count=len(document[what])))
    return " ".join(parts)


def duration(seconds: float | None, lang: str = "en") -> str:
    """4 s, 12 min, 3 h 12 min, 5 d 4 h."""
    if seconds is None:
        return message("status_unknown", lang)
    whole = int(seconds)
    if whole < 2 * MINUTE:
        return message("status_seconds", lang, seconds=whole)
    if whole < 2 * HOUR:
        return message("status_minutes", lang, minutes=whole // MINUTE)
    if whole < 2 * DAY:
        return message("status_hours", lang, hours=whole // HOUR, minutes=whole % HOUR // MINUTE)
    return message("status_days", lang, days=whole // DAY, hours=whole % DAY // HOUR)


def cells(row: Row, lang: str = "en") -> dict[str, str]:
    """The texts of a row, by column."""
    unknown = message("status_unknown", lang)

    def known(value: object, form: str = "{}") -> str:
        return unknown if value is None else form.format(value)

    gpus = _cards(row["gpus"], lang)
    memory = unknown
    if row["memory_mib"] is not None:
        used = "?" if row["memory_used_mib"] is None else f"{row['memory_used_mib'] / 1024:.1f}"
        memory = f"{used}/{row['memory_mib'] / 1024:.0f} GiB"
    found = {
        "host": row["host"],
        "gpus": gpus,
        "memory": memory if row["gpus"] != [] else "-",
        "temperature": known(row["temperature"], "{} °C") if row["gpus"] != [] else "-",
        "errors": known(row["errors"]) if row["gpus"] != [] else "-",
        "driver": known(row["driver"]) if row["gpus"] != [] else row["driver"] or "-",
        "engine": row["engine"] or (unknown if row["gpus"] is None else "-"),
        "image": row["image"] or (unknown if row["gpus"] is None else "-"),
        "deployment": row["deployment"] or names(row["services"], lang),
        "rank": _rank(row, lang),
        "state": message("status_is_" + row["state"], lang),
        "last_token": duration(row["last_token_seconds"], lang),
        "kv_use": known(None if row["kv_use"] is None else row["kv_use"] * 100, "{:.0f} %"),
        "running": known(row["running"], "{:.0f}"),
        "waiting": known(row["waiting"], "{:.0f}"),
        "since": duration(row["since_seconds"], lang) if row["deployment"] else "-",
    }
    if row["state"] in NOT_RUNNING:
        found["since"] = "-"
    idle = not row["head"] or row["state"] in NOT_RUNNING
    return {**found, **dict.fromkeys(OF_HEADS, "-")} if idle else found


def _cards(cards: Sequence[str | None] | None, lang: str) -> str:
    if cards is None:
        return message("status_unknown", lang)
    counts = Counter(str(name or "?").removeprefix("NVIDIA ").removeprefix("Tesla ") for name in cards)
    return " + ".join(f"{count} x {name}" for name, count in counts.items()) or "-"


def _rank(row: Row, lang: str) -> str:
    if not row["deployment"]:
        return "-"
    role = message("status_head" if row["head"] else "status_worker", lang)
    ranks = row["ranks"]
    if ranks:
        said = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"
        return f"{role} ({said})"
    return role


def status_lines(document: StatusDocument, lang: str = "en", page: str = "") -> list[str]:
    """The verdict first, then the table, what is behind its states, the drift, and what is left over. ``page`` is where the page was written."""
    rows = [cells(row, lang) for row in document["rows"]]
    lines = [verdict(document, lang)]
    answered = [cells(row, lang) for row in document["rows"] if row["gpus"] is not None]
    common = {
        name: answered[0][name] for name in COMMON if len(answered) > 1 and len({row[name] for row in answered}) == 1
    }
    if page:
        lines.append(message("status_written", lang, path=page))
    if common:
        said = [message("status_" + name, lang) + " " + value for name, value in common.items()]
        lines.append(message("status_everywhere", lang, what=", ".join(said)))
    shown = [name for name in COLUMNS if name not in common]
    if rows:
        header = [message("status_" + name, lang) for name in shown]
        right = [place for place, name in enumerate(shown) if name in NUMBERS]
        lines += ["", *aligned([header, *([row[name] for name in shown] for row in rows)], right, ruled=True)]
    said = [f"{row['host']}: {row['said']}" for row in document["rows"] if row["said"] and row["grade"] != GOOD]
    said += [absent_line(each, lang) for each in document["absent"]]
    lines += ["", *said] if said else []
    lines += [*_drift_lines(document["drift"], lang), *_leftover_lines(document["leftovers"], lang)]
    for title, said in (("held", held_lines(document, lang)), ("runs", run_lines(document, lang))):
        lines += ["", message("status_title_" + title, lang), *("  " + line for line in said)] if said else []
    return lines


def held_lines(document: StatusDocument, lang: str = "en") -> list[str]:
    """Which hosts a run holds."""
    now = datetime.datetime.fromisoformat(document["time"]).timestamp()
    return [
        message(
            "status_held_by",
            lang,
            host=each["host"],
            who=each["who"],
            playbook=each["playbook"] or "?",
            ago=duration(max(now - each["since"], 0), lang),
        )
        for each in document["held"]
    ]


def run_lines(document: StatusDocument, lang: str = "en") -> list[str]:
    """Who changed the fleet last, and what."""
    lines = []
    for run in document["runs"]:
        asked = [f"--{name} {run.get(name)}" for name in ("limit", "tags") if run.get(name)]
        said = message(
            "status_run",
            lang,
            at=moment(run["begun"]).replace("T", " "),
            who=run.get("who") or "?",
            playbook=" ".join([run.get("playbook") or "?", *asked]),
            collection=run.get("collection") or "?",
            hosts=names(run["hosts"], lang),
            roles=names(run["roles"], lang) if run["roles"] else message("status_run_nothing", lang),
        )
        if run["unfinished"]:
            said += message("status_run_unfinished", lang, hosts=names(run["unfinished"], lang))
        lines.append(said)
    return lines


def fact_name(fact: str, lang: str = "en") -> str:
    """What a fact of the drift is called."""
    if fact.startswith(SETTINGS):
        return message("status_fact_settings", lang, role=fact.removeprefix(SETTINGS))
    return message("status_fact_" + fact, lang)


def _drift_lines(found: Mapping[str, Mapping[str, Mapping[str, str | None]]], lang: str) -> list[str]:
    lines: list[str] = []
    for group, facts in found.items():
        hosts = list(dict.fromkeys(host for values in facts.values() for host in values))
        table = [["", *hosts]]
        for fact, values in facts.items():
            table.append(
                [fact_name(fact, lang), *(values.get(host) or message("status_unknown", lang) for host in hosts)]
            )
        lines += ["", message("status_drift", lang, group=group), *aligned(table)]
    return lines


def leftover_line(each: Mapping[str, Any], lang: str = "en") -> str:
    found = Leftover(**each)
    code = "status_left_" + found.kind
    state = message("status_left_runs" if found.runs else "status_left_stands", lang)
    return message(code, lang, host=found.host, name=found.name, state=state)


def _leftover_lines(found: Sequence[Mapping[str, Any]], lang: str) -> list[str]:
    if not found:
        return []
    return ["", message("status_leftovers", lang), *("  " + leftover_line(each, lang) for each in found)]


# -- the page ---------------------------------------------------------------------------------------------------------
def status_page(document: StatusDocument, lang: str = "en") -> str:
    """One file that needs nothing else: no script, no font, no request."""
    groups = [
        {
            "title": message("status_drift", lang, group=group),
            "hosts": list(dict.fromkeys(host for values in facts.values() for host in values)),
            "facts": [(fact_name(fact, lang), values) for fact, values in facts.items()],
        }
        for group, facts in document["drift"].items()
    ]
    return render_page(
        "status",
        lang,
        title=message("status_page_title", lang),
        verdict=verdict(document, lang),
        ok=document["ok"],
        time=document["time"],
        columns=COLUMNS,
        numbers=NUMBERS,
        rows=[
            {"cells": cells(row, lang), "grade": row["grade"], "said": row["said"], "changed": row["changed"]}
            for row in document["rows"]
        ],
        deployments=[_deployment_view(name, each, document, lang) for name, each in document["deployments"].items()],
        groups=groups,
        absent=[absent_line(each, lang) for each in document["absent"]],
        leftovers=[leftover_line(each, lang) for each in document["leftovers"]],
        more=[("held", held_lines(document, lang)), ("runs", run_lines(document, lang))],
        spark_width=SPARK_WIDTH,
        spark_height=SPARK_HEIGHT,
    )


def _deployment_view(name: str, each: Deployment, document: StatusDocument, lang: str) -> dict[str, object]:
    series = document["series"].get(name) or {}
    sparks = [
        {
            "label": message("status_spark_" + kind, lang),
            "points": spark(series[kind]),
            "last": f"{series[kind][-1][1]:,.1f}".removesuffix(".0"),
        }
        for kind in SPARKS
        if kind in series
    ]
    return {
        "name": name,
        "model": each["model"],
        "grade": each["grade"],
        "sparks": sparks,
        "state": message("status_is_" + each["state"], lang),
        "hosts": names(each["hosts"], lang),
    }


def spark(values: Sequence[Sequence[float]]) -> str:
    """The points of a line of SVG, from values by time."""
    first, last = values[0][0], values[-1][0]
    most = max(value for _at, value in values) or 1.0
    wide, high = SPARK_WIDTH - 2, SPARK_HEIGHT - 4
    return " ".join(
        f"{1 + wide * (at - first) / ((last - first) or 1):.1f},{2 + high * (1 - value / most):.1f}"
        for at, value in values
    )
