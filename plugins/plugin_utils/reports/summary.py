# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report at the end of a playbook, as lines of text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.secrets import CALLED
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Links
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.tls import RENEW_DAYS
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.connectivity import Connectivity
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.benchmark import benchmark_lines
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.network import network_lines
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import (
    engine_of_plan,
    figure,
    fleet_text,
    plan_table,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.use_it import Address, use_lines

# What NCCL calls TCP.
SOCKETS = "Socket"
# What became of a secret, by how it came to the controller and by its kind.
REPORTED = {
    "made": dict.fromkeys(CALLED, "report_secret_made"),
    "adopted": dict.fromkeys(CALLED, "report_secret_adopted"),
    "rotated": {"api_key": "report_secret_rotated_api_key", "ray_token": "report_secret_rotated_ray_token"},
}

# What is over sooner needs no table of its stages.
WORTH_A_TABLE_SECONDS = 2

# What comes after a playbook that ends with this stage.
NEXT = dict.fromkeys(["decide", "prepare", "loading", "models"], "report_next_site")
# And after a plan of hosts that the command line names alone.
NEXT_OF_ONE_LINE = "report_next_discover"


class Stage(TypedDict):
    """A stage of a playbook, and when it started (seconds since 1970)."""

    name: str
    started: float


class Answer(TypedDict):
    """What the head of a deployment answered, and the host of each rank."""

    url: str
    model: str
    prompt: str
    answer: str
    tokens: int
    ranks: list[str]


class Start(TypedDict):
    """The start of a server in this run."""

    seconds: float
    served_before: bool
    # The seconds of the first start with the same cache.
    first: float | None
    # The size of that cache.
    kept_kib: int


class Size(TypedDict):
    """An all-reduce of one size."""

    bytes: int
    seconds: float
    algbw_bytes_per_second: float
    busbw_bytes_per_second: float


class Collective(Links):
    """What an all-reduce over all ranks measured."""

    ranks: int
    backend: str
    # When.
    measured: str
    results: list[Size]
    # What NCCL's log says: its network, and the last word against RDMA; empty where it says nothing.
    network: NotRequired[str]
    rdma_reason: NotRequired[str]


@dataclass(frozen=True)
class Run:
    """What a playbook has reached: what its stages left."""

    # In their order.
    stages: Sequence[Stage] = ()
    # The deployments, each with its ``hosts`` and ``head``; their plans, and what was verified of their networks.
    deployments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    plans: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    networks: Mapping[str, Connectivity] = field(default_factory=dict)
    # By head what it answered, what the all-reduce measured, and the last two benchmarks.
    serving: Mapping[str, Answer] = field(default_factory=dict)
    collective: Mapping[str, Collective] = field(default_factory=dict)
    benchmarks: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    # By head.
    starts: Mapping[str, Start] = field(default_factory=dict)
    # By deployment the replicas that answered meanwhile.
    meanwhile: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # By stage and host why there was something to do.
    work: Mapping[str, Mapping[str, Sequence[Mapping[str, str]]]] = field(default_factory=dict)
    # Secrets that are new on the controller.
    secrets: Sequence[Mapping[str, str]] = ()
    # The sections of the gateways that answered.
    gateways: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # The hosts by what is said of the exporter of their GPUs.
    gpu_exporters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # What answered in this run, for people who want to use it.
    addresses: Sequence[Address] = ()
    # The files that were written.
    written: Sequence[str] = ()
    # Whether the hosts are those of the command line.
    one_line: bool = False
    # What is said of hosts that do not take part in their deployments.
    absent: Sequence[str] = ()


def report_lines(run: Run, language: str = "en") -> list[str]:
    """Lines of the report: the verdict and the files that were written, each deployment with its network, its answer and the hosts of its ranks,
    then the gateways, secrets that are new, what there was to do and why, the stages with their seconds, and how what answered is used."""
    follows = {**NEXT, "decide": NEXT_OF_ONE_LINE} if run.one_line else NEXT
    lines = _verdict(run, follows, language)
    lines += [*run.absent, ""] if run.absent else []
    for name, deployment in sorted(run.deployments.items()):
        head, plan = deployment["head"], run.plans.get(name) or {}
        lines += _deployment_head(name, deployment, run.networks.get(name), language)
        lines += _deployment(name, plan, run.serving.get(head), language)
        measured = benchmark_lines(run.benchmarks.get(head) or [], plan, language)
        started = _started(run.starts.get(head), run.meanwhile.get(name, ()), language)
        lines[-1:] = [*_collective(run.collective.get(head), language), *started, *measured, ""]
    lines += _gateways(run.gateways, language)
    for why, hosts in run.gpu_exporters.items():
        lines.append(message("report_gpu_exporter", language, hosts=names(hosts, language), why=why))
    lines += [""] if run.gpu_exporters else []
    pages = [section["web_ui"]["url"] for section in run.gateways.values() if section["web_ui"]]
    # Records are known once hosts were looked at.
    looked = any(stage["name"] == "preflight" for stage in run.stages)
    lines += [
        *_secrets(run.secrets, language),
        *_work(run.work if looked else {}, language),
        *_stages(run.stages, language),
    ]
    use = use_lines(run.addresses, pages, language)
    return [*lines, "", *use] if use else lines


def _verdict(run: Run, follows: Mapping[str, str], language: str) -> list[str]:
    """What was reached, in one line, and where more is written."""
    answered = [name for name, deployment in run.deployments.items() if run.serving.get(deployment["head"])]
    lines = []
    if answered:
        lines.append(message("report_serves", language, names=names(sorted(answered), language)))
    elif run.plans:
        planned = {name: plan for name, plan in run.plans.items() if plan.get("settings")}
        for name, plan in sorted(planned.items()):
            said = message(
                "plan_" + str(plan.get("verdict") or ("starts" if plan.get("ok") else "does_not_start")), language
            )
            lines.append(message("report_planned", language, deployment=name, verdict=said, **_said_of(plan)))
    last = [stage["name"] for stage in run.stages if stage["name"] != "report"][-1:]
    if not answered and last and last[0] in follows:
        lines.append(message(follows[last[0]], language))
    if lines and run.written:
        lines.append(message("report_written", language, paths=", ".join(run.written)))
    return [*lines, ""] if lines else []


def _said_of(plan: Mapping[str, object]) -> dict[str, object]:
    """What a plan says in one line: model, engine, release, fleet."""
    mine = engine_of_plan(plan)
    return {
        "model": plan.get("model_name") or "-",
        "engine": mine.title,
        "version": plan.get(f"{mine.name}_version") or "-",
        "fleet": fleet_text(plan),
    }


def _gateways(gateways: Mapping[str, Mapping[str, Any]], language: str) -> list[str]:
    """Where clients find all models, and with what. A certificate that ends soon is said last."""
    lines: list[str] = []
    for host, section in sorted(gateways.items()):
        lines.append(message("report_gateway", language, host=host, url=section["url"]))
        for model in section["models"]:
            replicas = names([replica["name"] for replica in model["replicas"]], language)
            lines.append("  " + message("report_gateway_model", language, model=model["name"], replicas=replicas))
        keys = names([key["name"] for key in section["keys"]], language)
        lines.append("  " + message("report_gateway_keys", language, keys=keys))
        if page := section["web_ui"]:
            lines.append("  " + message("report_web_ui", language, url=page["url"]))
        certificate = section["certificate"]
        if certificate["root"]:
            lines.append("  " + message("report_gateway_root", language, path=certificate["root"]))
        elif certificate["days"] < RENEW_DAYS:
            values = {"days": certificate["days"], "path": certificate["certificate"]}
            lines.append("  " + message("report_gateway_renew", language, **values))
        lines.append("")
    return lines


def _secrets(secrets: Sequence[Mapping[str, str]], language: str) -> list[str]:
    """Where the secrets are that this run made, adopted or rotated; never what they are."""
    if not secrets:
        return []
    lines = [message("report_secrets", language)]
    for each in secrets:
        codes = REPORTED[each["how"]]
        said = message(CALLED[each["kind"]], language)
        text = message(codes[each["kind"]], language, deployment=each["deployment"], secret=said, place=each["place"])
        lines.append("  " + text)
    return [*lines, ""]


def _work(work: Mapping[str, Mapping[str, Sequence[Mapping[str, str]]]], language: str) -> list[str]:
    """Why each stage had something to do, and which had nothing."""
    if not work:
        return []
    lines = [message("report_work", language)]
    for stage, hosts in work.items():
        if not hosts:
            continue
        said = dict.fromkeys(
            f"{reason['role']} ({message(reason['code'], language, what=reason['what'])})"
            for reasons in hosts.values()
            for reason in reasons
        )
        why = names(list(said), language) if said else message("work_follows", language)
        lines.append(f"  {stage:<24} {names(sorted(hosts), language)}: {why}")
    idle = [stage for stage, hosts in work.items() if not hosts]
    if idle:
        lines.append("  " + message("report_idle", language, stages=", ".join(idle)))
    return [*lines, ""]


def _deployment_head(
    name: str, deployment: Mapping[str, object], network: Connectivity | None, language: str
) -> list[str]:
    return [
        message("report_deployment", language, deployment=name, hosts=", ".join(texts(deployment["hosts"]))),
        *("  " + line for line in (network_lines(network, language) if network else [])),
    ]


def _spread(plan: Mapping[str, object], language: str) -> str:
    """Over how many GPUs a model is spread, and what its cache holds. How, only an engine says that has a setting for it."""
    settings, predicted = mapping(plan.get("settings")), mapping(plan.get("predicted"))
    tokens = figure(predicted.get("kv_cache_tokens"))
    if engine_of_plan(plan).name == DEFAULT or "tensor_parallel_size" in settings:
        sizes = {
            "tensor": settings.get("tensor_parallel_size", 1),
            "pipeline": settings.get("pipeline_parallel_size", 1),
        }
        return message("report_plan", language, executor=plan.get("executor"), tokens=tokens, **sizes)
    count = len(mappings(predicted.get("ranks")))
    if not count or predicted.get("kv_cache_tokens") is None:
        return message("report_plan_unknown", language)
    return message("report_plan_gpus", language, count=count, tokens=tokens)


def _deployment(name: str, plan: Mapping[str, object], serving: Answer | None, language: str) -> list[str]:
    lines: list[str] = []
    settings, predicted = mapping(plan.get("settings")), mapping(plan.get("predicted"))
    if settings:
        lines.append("  " + _spread(plan, language))
        if is_true(settings.get("trust_remote_code", False)):
            lines.append("  " + message("report_remote_code", language))
        for warning in texts(predicted.get("warnings")):
            lines.append("  " + message("report_warning", language, text=warning))
    if serving:
        lines += [
            "  " + message("report_rank", language, rank=rank, host=host) for rank, host in enumerate(serving["ranks"])
        ]
        answer = {"prompt": serving["prompt"], "answer": serving["answer"], "tokens": serving["tokens"]}
        lines.append("  " + message("report_answer", language, url=serving["url"], model=serving["model"], **answer))
    elif plan:
        lines += [f"  {line}" for line in plan_table({name: plan}, language).splitlines()]
    return [*lines, ""]


def _collective(found: Collective | None, language: str) -> list[str]:
    """The all-reduce over all ranks: a line for each size, and what the link would carry."""
    if not found:
        return []
    lines = [
        "  "
        + message(
            "report_collective", language, ranks=found["ranks"], backend=found["backend"], measured=found["measured"]
        )
    ]
    for row in found["results"]:
        lines.append(
            f"    {_size(row['bytes']):>9}  {row['seconds'] * 1e3:10.3f} ms"
            f"  algbw {_megabytes(row['algbw_bytes_per_second'])} MB/s  busbw {_megabytes(row['busbw_bytes_per_second'])} MB/s"
        )
    mbps, via = found.get("link_mbps"), found.get("link")
    # On one host only NCCL goes over the links between the GPUs.
    if mbps and (not via or found["backend"] == "nccl"):
        best = max(row["busbw_bytes_per_second"] for row in found["results"]) * 8 / 1e6
        code = "report_fabric" if via else "report_link"
        figures = {"percent": round(100 * best / mbps), "gigabits": f"{mbps / 1000:g}"}
        lines.append("    " + message(code, language, via=via, **figures))
    network, ports = found.get("network"), found.get("link_rdma")
    if ports and network == SOCKETS:
        why = found.get("rdma_reason") or message("report_rdma_reason_unknown", language)
        lines.append("    " + message("report_rdma_unused", language, ports=ports, why=why))
    elif ports and network:
        lines.append("    " + message("report_rdma_used", language, ports=ports, network=network))
    return lines


def _started(start: Start | None, replicas: Sequence[str], language: str) -> list[str]:
    """How long a server took to start in this run, who answered meanwhile, and what the caches of earlier starts saved."""
    if not start:
        return []
    code = "report_started" if not start["served_before"] else "report_away_replicas" if replicas else "report_away"
    values = {"seconds": round(start["seconds"]), "replicas": names(list(replicas), language)}
    lines = ["  " + message(code, language, **values)]
    if start["first"] is not None:
        saved = round(start["first"] - start["seconds"])
        code = "report_start_saved" if saved > 0 else "report_first_start"
        lines.append("    " + message(code, language, first=round(start["first"]), saved=saved))
    if start["kept_kib"]:
        lines.append("    " + message("report_kept", language, size=human_bytes(1024 * start["kept_kib"])))
    return lines


def _megabytes(rate: float) -> str:
    """Bytes a second as MB/s. A kilobyte between two busy hosts is far below one, and not nothing."""
    return f"{rate / 1e6:9.{1 if rate >= 1e6 else 3}f}"


def _size(count: int) -> str:
    """1 KiB, 16 MiB."""
    for factor, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= factor:
            return f"{count // factor} {unit}"
    return f"{count} B"


def _stages(stages: Sequence[Stage], language: str) -> list[str]:
    """The last stage is the report itself: it only marks when the one before it ended."""
    if len(stages) < 2 or stages[-1]["started"] - stages[0]["started"] < WORTH_A_TABLE_SECONDS:
        return []
    lines = [message("report_stages", language)]
    for stage, following in itertools.pairwise(stages):
        lines.append(f"  {stage['name']:<24} {following['started'] - stage['started']:6.0f} s")
    lines.append(f"  {message('report_total', language):<24} {stages[-1]['started'] - stages[0]['started']:6.0f} s")
    return lines
