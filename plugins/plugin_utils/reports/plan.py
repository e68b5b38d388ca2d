# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for people and for programs: a table for a terminal, a page, JSON."""

from __future__ import annotations

import datetime
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

import yaml
from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping, mappings, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, VARIABLE, engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.secrets import without_secrets
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import RELEASE
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import NARROWLY, UNSURE, UNVERIFIED
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.columns import aligned
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.html import render_page

FORMATS = ("table", "html", "json")
# Parts of a GPU's memory: key of a rank, code of the label, colour (apart for colour-blind eyes, on light and on dark).
PARTS: tuple[tuple[str, str, str], ...] = (
    ("weights_gib", "plan_weights", "#0072b2"),
    ("activation_gib", "plan_activation", "#e69f00"),
    ("non_torch_gib", "plan_libraries", "#cc79a7"),
    ("cudagraph_gib", "plan_cuda_graphs", "#56b4e9"),
    ("kv_cache_gib", "plan_kv_cache", "#009e73"),
)
FREE_COLOUR = "var(--free)"
# Settings of a plan that follow from the others, or that a deployment has under another name.
NOT_COPIED = ("model", "served_model_name", "distributed_executor_backend", RELEASE)
BAR_WIDTH = 640
# In a terminal; the page has all of it.
OUTCOME_WIDTH = 60


class Rank(NamedTuple):
    """One process of the engine, and the memory of its GPU where that is known."""

    host: str
    number: int
    memory_gib: float | None
    parts: Mapping[str, object]

    @property
    def used_gib(self) -> float:
        return sum(max(_number(self.parts.get(key)) or 0.0, 0.0) for key, _label, _colour in PARTS)

    @property
    def free_gib(self) -> float | None:
        return None if self.memory_gib is None else max(self.memory_gib - self.used_gib, 0.0)

    @property
    def full_gib(self) -> float:
        """The length of the rank's bar: what lies beyond the GPU's memory is shown as well."""
        return max(self.memory_gib or 0.0, self.used_gib)


class Command(TypedDict):
    """What is run on a host: its environment as NAME=VALUE, the line, and the file of options that it reads, if it does."""

    host: str
    environment: list[str]
    line: str
    file: list[str]


def plan_report(plans: object, report_format: object = "table", language: str = "en") -> str:
    """One plan, or plans by the name of their deployment, in one of the formats."""
    name = str(report_format)
    if name not in FORMATS:
        raise InputError("format", "input_one_of", allowed=", ".join(FORMATS), found=name)
    if name == "json":
        return json.dumps(read_plans(plans), indent=2, sort_keys=True, default=str) + "\n"
    return plan_html(plans, language) if name == "html" else plan_table(plans, language)


# -- what both forms show ------------------------------------------------------------------------------------------------
def read_plans(value: object) -> dict[str, Mapping[str, object]]:
    """One plan, or plans by the name of their deployment, without the values of secrets."""
    plans = fields.mapping(without_secrets(value), "plans")
    if "predicted" in plans:
        return {"plan": plans}
    return {str(name): fields.mapping(plan, f"plans.{name}") for name, plan in plans.items()}


def figure(value: object) -> str:
    """A number with separators of thousands, two digits of a fraction, a dash for none."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _number(value: object) -> float | None:
    """A figure of a plan; None where it is none."""
    return value if isinstance(value, (int, float)) else None


def fleet_text(plan: Mapping[str, object]) -> str:
    """The GPUs of a plan as people write a fleet: 3 x 2 Tesla V100-PCIE-16GB. Hosts that are alike are one part."""
    alike = Counter(
        " + ".join(f"{count} {name}" for name, count in Counter(texts(node.get("gpus"))).items())
        for node in mappings(plan.get("fleet"))
    )
    return " + ".join(f"{count} x {gpus}" for gpus, count in alike.items()) or "-"


def inventory_text(plan: Mapping[str, object]) -> str:
    """The settings of a plan as YAML for the group_vars of its deployment: variables of their own, the other options in one of them."""
    settings = {name: value for name, value in mapping(plan.get("settings")).items() if value is not None}
    mine = engine_of_plan(plan)
    own: dict[str, object] = {} if mine.name == DEFAULT else {VARIABLE: mine.name}
    own |= {f"{mine.name}_model": plan.get("model_name"), f"{mine.name}_version": _release(plan)}
    own |= {f"{mine.name}_{name}": settings.pop(name) for name in mine.settings if name in settings}
    said = {name: value for name, value in own.items() if value is not None}
    # The start itself names the model and who is served.
    options = {name: value for name, value in settings.items() if name not in NOT_COPIED}
    if options:
        said[f"{mine.name}_options"] = options
    # Ansible's own kinds of text and number are no YAML.
    plain = json.loads(json.dumps(said, default=str))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=1000)


def engine_of_plan(plan: Mapping[str, object]) -> Engine:
    """What a plan is for. One that a filter made, or an older release of the collection, does not say it."""
    return engine(str(plan.get("engine") or DEFAULT))


def _release(plan: Mapping[str, object]) -> object:
    return plan.get(f"{engine_of_plan(plan).name}_version")


def _ranks(plan: Mapping[str, object]) -> list[Rank]:
    hosts = {rank: str(node.get("host")) for node in mappings(plan.get("nodes")) for rank in _ranks_of(node)}
    sizes = dict(enumerate(_number(gpu.get("memory_gib")) for gpu in mappings(plan.get("gpus"))))
    parts = mappings(_predicted(plan).get("ranks"))
    return [Rank(hosts.get(number, "-"), number, sizes.get(number), each) for number, each in enumerate(parts)]


def _ranks_of(node: Mapping[str, object]) -> list[int]:
    ranks = node.get("ranks")
    return [rank for rank in ranks if isinstance(rank, int)] if isinstance(ranks, (list, tuple)) else []


def _predicted(plan: Mapping[str, object]) -> Mapping[str, object]:
    return mapping(plan.get("predicted"))


def _outcome(one: Mapping[str, object], language: str) -> str:
    """Whether it starts, in words. A plan of an older release of the collection has no verdict."""
    return message("plan_" + str(one.get("verdict") or ("starts" if one.get("ok") else "does_not_start")), language)


def _margin(plan: Mapping[str, object], code: str, language: str) -> str:
    """What a start leaves, and how far the prediction may be off; empty where the plan does not say it."""
    margin = mapping(_predicted(plan).get("margin"))
    if margin.get("spare_gib") is None:
        return ""
    return message(
        code, language, spare=margin["spare_gib"], uncertainty=margin["uncertainty_gib"], reason=margin["reason"]
    )


def _commands(plan: Mapping[str, object]) -> list[Command]:
    """What is run on each host, and the file of options that it reads, where it does."""
    found: list[Command] = []
    for host, said in mapping(plan.get("launch")).items():
        entry = mapping(said)
        config = mapping(entry.get("config"))
        environment = sorted(mapping(entry.get("environment")).items())
        content = yaml.safe_dump(config.get("content") or {}, width=1000, sort_keys=False, allow_unicode=True)
        found.append(
            {
                "host": str(host),
                "environment": [f"{name}={shlex.quote(str(value))}" for name, value in environment],
                "line": shlex.join(texts((config or entry).get("argv"))),
                "file": [f"# {config['path']}", *content.splitlines()] if config else [],
            }
        )
    return found


# -- terminal ------------------------------------------------------------------------------------------------------------
def _verdict(plan: Mapping[str, object], language: str) -> str:
    error = mapping(_predicted(plan).get("error"))
    if plan.get("verdict") == UNVERIFIED:
        reason = mapping(_predicted(plan).get("margin")).get("reason")
        return message("plan_not_verified_because", language, reason=reason)
    if plan.get("verdict") == NARROWLY:
        return _margin(plan, "plan_starts_narrowly_because", language)
    if plan.get("ok") or not error:
        return _outcome(plan, language)
    return message(
        "plan_does_not_start_because", language, error=error["code"], why=error["message"], remedy=error["remedy"]
    )


def _memory_lines(plan: Mapping[str, object], language: str) -> list[str]:
    labels = [message(label, language) for _key, label, _colour in PARTS]
    codes = ("plan_host", "plan_rank", "plan_gpu_gib")
    rows = [[*(message(code, language) for code in codes), *labels, "(GiB)"]]
    for rank in _ranks(plan):
        figures = [figure(rank.parts.get(key)) for key, _label, _colour in PARTS]
        rows.append([rank.host, str(rank.number), figure(rank.memory_gib), *figures, ""])
    return ["", *aligned(rows, range(1, 8), ruled=True)] if len(rows) > 1 else []


def capacity(one: Mapping[str, object], length: object, language: str) -> str:
    """What fits into the KV cache, in words: about 9 conversations of 40,960 tokens. A dash where nothing does."""
    requests, tokens = _number(one.get("max_concurrency")) or 0.0, _number(length)
    if not tokens or requests <= 0:
        return "-"
    code = "plan_one_conversation" if requests < 2 else "plan_conversations"
    return message(code, language, count=f"{int(requests):,}", length=figure(int(tokens)))


def context_of(plan: Mapping[str, object]) -> object:
    """The longest context of a plan, by the name that its engine has for it."""
    return mapping(plan.get("settings")).get(engine_of_plan(plan).context)


def dtype_of(plan: Mapping[str, object]) -> object:
    return _predicted(plan).get("dtype") or mapping(plan.get("settings")).get("dtype")


def _capacity_lines(plan: Mapping[str, object], language: str) -> list[str]:
    """What fits at once; of a plan that knows no more, the tokens alone, or nothing."""
    predicted, context = _predicted(plan), context_of(plan)
    tokens, dtype = predicted.get("kv_cache_tokens"), dtype_of(plan)
    if dtype and predicted.get("max_concurrency"):
        fits = capacity(predicted, context, language)
        return [message("plan_capacity", language, tokens=figure(tokens), capacity=fits, dtype=dtype)]
    if tokens is None:
        return []
    return [message("plan_cache_alone", language, tokens=figure(tokens), context=figure(context))]


def _alternative_lines(plan: Mapping[str, object], language: str) -> list[str]:
    rows = [
        [message(code, language) for code in ("plan_alternative", "plan_capacity_column", "plan_outcome", "plan_cost")]
    ]
    for one in mappings(plan.get("alternatives")):
        error = {} if one.get("ok") else mapping(one.get("error"))
        said = str(error.get("message") or "")
        outcome = f"{_outcome(one, language)}: {said}" if said else _outcome(one, language)
        outcome = outcome if len(outcome) <= OUTCOME_WIDTH else outcome[: OUTCOME_WIDTH - 3] + "..."
        rows.append(
            [
                str(one.get("change")),
                capacity(one, one.get("max_model_len"), language),
                outcome,
                str(one.get("cost") or ""),
            ]
        )
    return ["", *aligned(rows, ruled=True)] if len(rows) > 1 else []


def plan_table(plans: object, language: str = "en") -> str:
    """Plain text, one block for each deployment."""
    lines: list[str] = []
    for name, plan in read_plans(plans).items():
        block = [_verdict(plan, language), *_capacity_lines(plan, language)]
        block += [f"- {reason}" for reason in texts(plan.get("reasons"))]
        block += [*_memory_lines(plan, language), *_alternative_lines(plan, language), ""]
        for command in _commands(plan):
            block += [f"{command['host']}:"] if command["host"] else []
            block += [*command["environment"], command["line"], *command["file"]]
        lines.append(
            f"{name}: {engine_of_plan(plan).title} {_release(plan)}, {message('plan_executor', language)} {plan.get('executor')}"
        )
        lines += [*(f"  {line}".rstrip() for line in block), ""]
    return "\n".join(lines).rstrip() + "\n"


# -- page ----------------------------------------------------------------------------------------------------------------
def _parts_of(rank: Rank, language: str) -> list[tuple[str, object, str]]:
    """(label, GiB, colour) of everything that a bar is made of, the unused rest last."""
    parts = [(message(label, language), rank.parts.get(key), colour) for key, label, colour in PARTS]
    return [*parts, (message("plan_unused", language), rank.free_gib, FREE_COLOUR)]


def _rank_view(rank: Rank, scale: float, language: str) -> dict[str, object]:
    """A stacked bar, and the same figures for a table. Where the parts exceed the memory, ``end`` says where the GPU ends."""
    left = 0.0
    bars = []
    parts = _parts_of(rank, language)
    for label, value, colour in parts:
        width = max(_number(value) or 0.0, 0.0) * scale
        bars.append(
            {"x": f"{left:.1f}", "width": f"{width:.1f}", "colour": colour, "title": f"{label} {figure(value)} GiB"}
        )
        left += width
    exceeded = rank.memory_gib is not None and rank.used_gib > rank.memory_gib
    return {
        "host": rank.host,
        "rank": rank.number,
        "memory": figure(rank.memory_gib),
        "bars": bars,
        "figures": ", ".join(str(part["title"]) for part in bars),
        "cells": [figure(value) for _label, value, _colour in parts],
        "end": f"{(rank.memory_gib or 0) * scale - 1:.1f}" if exceeded else None,
    }


def _rank_views(plan: Mapping[str, object], language: str) -> list[dict[str, object]]:
    """All bars of a deployment have one scale, so that a smaller GPU has a shorter bar."""
    ranks = _ranks(plan)
    longest = max((rank.full_gib for rank in ranks), default=0.0)
    return [_rank_view(rank, BAR_WIDTH / (longest or 1), language) for rank in ranks]


def _setting(value: object) -> str:
    """As an inventory has it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _placement_views(plan: Mapping[str, object]) -> list[dict[str, str]]:
    names = [str(gpu.get("name")) for gpu in mappings(plan.get("gpus"))]
    views = []
    for node in mappings(plan.get("nodes")):
        ranks = _ranks_of(node)
        gpus = [names[rank] for rank in ranks if rank < len(names)]
        kinds = [f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus)]
        views.append({"host": str(node.get("host")), "ranks": ", ".join(map(str, ranks)), "gpus": ", ".join(kinds)})
    return views


def _alternative_view(one: Mapping[str, object], language: str) -> dict[str, object]:
    error = {} if one.get("ok") else mapping(one.get("error"))
    return {
        "change": one.get("change"),
        "length": figure(one.get("max_model_len")),
        "tokens": figure(one.get("kv_cache_tokens")),
        "capacity": capacity(one, one.get("max_model_len"), language),
        "ok": bool(one.get("ok")),
        "outcome": error.get("code") or _outcome(one, language),
        "explanation": [error[key] for key in ("message", "remedy") if error.get(key)],
        "cost": one.get("cost") or "",
        "gain": one.get("gain") or "",
    }


def _past(plan: Mapping[str, object], language: str) -> str:
    past = mapping(plan.get("past"))
    if not past.get("observations"):
        return ""
    error = figure(past.get("kv_cache_error_gib"))
    return message("plan_past", language, starts=past["observations"], level=past.get("level"), gib=error)


def _plan_view(name: str, plan: Mapping[str, object], language: str) -> dict[str, object]:
    predicted, settings = _predicted(plan), mapping(plan.get("settings"))
    summary = {
        engine_of_plan(plan).title: _release(plan),
        message("plan_executor", language): plan.get("executor"),
        "dtype": dtype_of(plan),
        "max_model_len": context_of(plan),
        message("plan_tokens", language): predicted.get("kv_cache_tokens"),
        message("plan_concurrency", language): predicted.get("max_concurrency"),
        message("plan_margin", language): _margin(plan, "plan_margin_gib", language) or None,
    }
    error = predicted.get("error")
    return {
        "name": name,
        "ok": bool(plan.get("ok")),
        "model": plan.get("model_name") or "",
        "fleet": fleet_text(plan),
        "inventory": inventory_text(plan) if plan.get("settings") else "",
        "outcome": _verdict(plan, language) if plan.get("verdict") in UNSURE else _outcome(plan, language),
        "errors": predicted.get("errors") or ([error] if error else []),
        "summary": [(label, figure(value)) for label, value in summary.items()],
        "reasons": plan.get("reasons") or [],
        "warnings": predicted.get("warnings") or [],
        "settings": [(key, _setting(value)) for key, value in sorted(settings.items()) if value is not None],
        "placement": _placement_views(plan),
        "ranks": _rank_views(plan, language),
        "alternatives": [_alternative_view(one, language) for one in mappings(plan.get("alternatives"))],
        "past": _past(plan, language),
        "commands": [command for command in _commands(plan) if command["line"]],
    }


def plan_html(plans: object, language: str = "en", problems: Sequence[Mapping[str, str]] = (), day: str = "") -> str:
    """One page that needs nothing else: no script, no font, no request. Problems that stop the run stand on top, with the day of the plan."""
    legend = [{"label": message(label, language), "colour": colour} for _key, label, colour in PARTS]
    return render_page(
        "plan",
        language,
        title=message("plan_page_title", language),
        day=day or datetime.date.today().isoformat(),
        problems=[{**one} for one in problems],
        plans=[_plan_view(name, plan, language) for name, plan in read_plans(plans).items()],
        legend=[*legend, {"label": message("plan_unused", language), "colour": FREE_COLOUR}],
        bar_width=BAR_WIDTH,
    )
