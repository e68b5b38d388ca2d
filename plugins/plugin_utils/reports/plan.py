# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for people: a table for a terminal, one self-contained HTML page, JSON."""

from __future__ import annotations

import html
import json
import shlex
from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

FORMATS = ("table", "html", "json")
# Parts of a GPU's memory: key of a rank, label, colour (readable on white, and apart for colour-blind eyes).
PARTS: tuple[tuple[str, str, str], ...] = (
    ("weights_gib", "weights", "#0072b2"),
    ("activation_gib", "activation", "#e69f00"),
    ("non_torch_gib", "libraries and NCCL", "#cc79a7"),
    ("cudagraph_gib", "CUDA graphs", "#56b4e9"),
    ("kv_cache_gib", "KV cache", "#009e73"),
)
FREE = ("free", "#dddddd")
BAR_WIDTH, BAR_HEIGHT = 640, 22

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1080px;padding:0 1em;color:#1a1a1a;background:#fff}
h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid #ccc}
table{border-collapse:collapse;margin:.8em 0;width:100%}th,td{text-align:left;padding:.3em .6em;border-bottom:1px solid #e5e5e5;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
code,pre{font:13px/1.4 ui-monospace,monospace}pre{background:#f5f5f5;padding:.8em;overflow-x:auto;white-space:pre-wrap;word-break:break-all}
.ok{color:#00684b;font-weight:600}.bad{color:#a40000;font-weight:600}.bar{display:flex;align-items:center;gap:.8em;margin:.25em 0}
.bar span{flex:0 0 17em;font-size:13px}.bar svg{flex:1 1 auto;max-width:640px;height:22px}.key{display:inline-block;width:.9em;height:.9em;margin:0 .35em 0 1em}
"""


def read_plans(value: Any) -> dict[str, Mapping[str, Any]]:
    """One plan, or plans by the name of their deployment."""
    plans = fields.mapping(value, "plans")
    if "predicted" in plans:
        return {"plan": plans}
    return {str(name): fields.mapping(plan, f"plans.{name}") for name, plan in plans.items()}


def plan_report(plans: Any, report_format: Any = "table") -> str:
    """The public function."""
    name = str(report_format)
    if name not in FORMATS:
        raise InputError("format", f"must be one of {', '.join(FORMATS)}, not {name!r}")
    if name == "json":
        return json.dumps(read_plans(plans), indent=2, sort_keys=True, default=str) + "\n"
    return plan_html(plans) if name == "html" else plan_table(plans)


def command_line(plan: Mapping[str, Any]) -> str:
    arguments = plan.get("arguments") or []
    return " ".join(shlex.quote(str(word)) for word in arguments)


def _number(value: Any, digits: int = 2) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.{digits}f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _ranks(plan: Mapping[str, Any]) -> list[tuple[str, str, float | None, Mapping[str, Any]]]:
    """(host, rank, memory of the GPU, figures) of each rank."""
    predicted = plan.get("predicted") or {}
    hosts = {rank: str(node.get("host")) for node in plan.get("nodes") or [] for rank in node.get("ranks") or []}
    gpus = plan.get("gpus") or []
    rows = []
    for index, figures in enumerate(predicted.get("ranks") or []):
        total = gpus[index].get("memory_gib") if index < len(gpus) else None
        rows.append((hosts.get(index, "-"), str(index), total, figures))
    return rows


def _verdict(plan: Mapping[str, Any]) -> str:
    error = (plan.get("predicted") or {}).get("error")
    if plan.get("ok"):
        return "starts"
    return f"does not start: {error['code']}: {error['message']}; {error['remedy']}" if error else "does not start"


# -- terminal ------------------------------------------------------------------------------------------------------------
def _columns(rows: list[list[str]], right: tuple[int, ...] = ()) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append("  ".join("-" * width for width in widths))
    return lines


def plan_table(plans: Any) -> str:
    """Plain text, one block for each deployment."""
    lines: list[str] = []
    for name, plan in read_plans(plans).items():
        predicted = plan.get("predicted") or {}
        lines += [f"{name}: vLLM {plan.get('vllm_version')}, executor {plan.get('executor')}", f"  {_verdict(plan)}"]
        lines.append(
            f"  KV cache {_number(predicted.get('kv_cache_tokens'))} tokens, concurrency {_number(predicted.get('max_concurrency'))}"
            f" at max_model_len {_number((plan.get('settings') or {}).get('max_model_len'))}, dtype {predicted.get('dtype')}"
        )
        lines += [f"  - {reason}" for reason in plan.get("reasons") or []]
        rows = [["host", "rank", "GPU GiB", *[label for _dummy, label, _dummy in PARTS], "(GiB)"]]
        for host, rank, total, figures in _ranks(plan):
            rows.append([host, rank, _number(total), *[_number(figures.get(key)) for key, _dummy, _dummy in PARTS], ""])
        if len(rows) > 1:
            lines += ["", *[f"  {line}" for line in _columns(rows, tuple(range(1, 8)))]]
        ladder = plan.get("alternatives") or []
        if ladder:
            table = [["or", "tokens", "concurrency", "outcome", "cost"]]
            for one in ladder:
                error = one.get("error")
                table.append(
                    [
                        str(one.get("change")),
                        _number(one.get("kv_cache_tokens")),
                        _number(one.get("max_concurrency")),
                        "starts" if one.get("ok") else str((error or {}).get("code") or "does not start"),
                        str(one.get("cost") or ""),
                    ]
                )
            lines += ["", *[f"  {line}" for line in _columns(table, (1, 2))]]
        lines += ["", f"  {command_line(plan)}", ""]
    return "\n".join(lines).rstrip() + "\n"


# -- page ----------------------------------------------------------------------------------------------------------------
def _bar(total: float | None, figures: Mapping[str, Any]) -> str:
    """One stacked bar as inline SVG; the parts are clipped at the GPU's memory, what lies beyond is marked red."""
    values = [max(float(figures.get(key) or 0), 0.0) for key, _dummy, _dummy in PARTS]
    full = float(total or sum(values) or 1)
    scale = BAR_WIDTH / max(full, sum(values))
    parts = [
        f'<svg viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" preserveAspectRatio="none" role="img">',
        f'<rect width="{full * scale:.1f}" height="{BAR_HEIGHT}" fill="{FREE[1]}"><title>free</title></rect>',
    ]
    left = 0.0
    for (_dummy, label, colour), value in zip(PARTS, values, strict=False):
        width = value * scale
        parts.append(
            f'<rect x="{left:.1f}" width="{width:.1f}" height="{BAR_HEIGHT}" fill="{colour}"><title>{label} {value:.2f} GiB</title></rect>'
        )
        left += width
    if left > full * scale + 0.5:
        parts.append(
            f'<rect x="{full * scale - 1:.1f}" width="3" height="{BAR_HEIGHT}" fill="#d00000"><title>the GPU ends here</title></rect>'
        )
    return "".join(parts) + "</svg>"


def _cell(value: Any, number: bool = False) -> str:
    text = html.escape(_number(value) if number else str(value if value is not None else ""))
    return f'<td class="n">{text}</td>' if number else f"<td>{text}</td>"


def _section(name: str, plan: Mapping[str, Any]) -> list[str]:
    predicted = plan.get("predicted") or {}
    settings = plan.get("settings") or {}
    state = "ok" if plan.get("ok") else "bad"
    out = [f"<section><h2>{html.escape(name)}</h2>", f'<p class="{state}">{html.escape(_verdict(plan))}</p>']
    out.append(
        "<p>"
        + html.escape(
            f"vLLM {plan.get('vllm_version')}, executor {plan.get('executor')}, dtype {predicted.get('dtype')}, "
            f"max_model_len {_number(settings.get('max_model_len'))}, KV cache {_number(predicted.get('kv_cache_tokens'))} tokens, "
            f"concurrency {_number(predicted.get('max_concurrency'))}"
        )
        + "</p>"
    )
    reasons = [*(plan.get("reasons") or []), *(predicted.get("warnings") or [])]
    if reasons:
        out.append("<ul>" + "".join(f"<li>{html.escape(str(reason))}</li>" for reason in reasons) + "</ul>")
    out.append("<h3>Memory of each GPU</h3><p>")
    for _dummy, label, colour in PARTS:
        out.append(f'<i class="key" style="background:{colour}"></i>{label}')
    out.append(f'<i class="key" style="background:{FREE[1]}"></i>{FREE[0]}</p>')
    for host, rank, total, figures in _ranks(plan):
        said = ", ".join(f"{label} {_number(figures.get(key))}" for key, label, _dummy in PARTS)
        out.append(
            f'<div class="bar" title="{html.escape(said)}"><span>{html.escape(host)}, rank {rank}, {_number(total)} GiB</span>{_bar(total, figures)}</div>'
        )
    rows = [["host", "rank", "GPU GiB", *[label for _dummy, label, _dummy in PARTS]]]
    out.append(
        "<details><summary>Figures</summary><table><tr>"
        + "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
        + "</tr>"
    )
    for host, rank, total, figures in _ranks(plan):
        out.append(
            "<tr>"
            + _cell(host)
            + _cell(rank)
            + _cell(total, True)
            + "".join(_cell(figures.get(key), True) for key, _dummy, _dummy in PARTS)
            + "</tr>"
        )
    out.append("</table></details>")
    ladder = plan.get("alternatives") or []
    if ladder:
        out.append(
            "<h3>Nearest plans</h3><table><tr><th>change</th><th class='n'>KV tokens</th>"
            "<th class='n'>concurrency</th><th>outcome</th><th>cost</th><th>gain</th></tr>"
        )
        for one in ladder:
            error = one.get("error") or {}
            outcome = "starts" if one.get("ok") else f"{error.get('code', '')}: {error.get('message', '')}"
            state = "ok" if one.get("ok") else "bad"
            out.append(
                "<tr>"
                + _cell(one.get("change"))
                + _cell(one.get("kv_cache_tokens"), True)
                + _cell(one.get("max_concurrency"), True)
                + f'<td class="{state}">{html.escape(outcome)}</td>'
                + _cell(one.get("cost"))
                + _cell(one.get("gain"))
                + "</tr>"
            )
        out.append("</table>")
    past = plan.get("past") or {}
    if past.get("observations"):
        out.append(
            f"<p>{past['observations']} past starts ({html.escape(str(past.get('level')))}): the KV cache was "
            f"{html.escape(_number(past.get('kv_cache_error_gib')))} GiB less than predicted; the plan is corrected by it.</p>"
        )
    out.append(f"<h3>Command line</h3><pre>{html.escape(command_line(plan))}</pre></section>")
    return out


def plan_html(plans: Any) -> str:
    """One page that needs nothing else: no script, no font, no request."""
    out = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>Deployment plan</title><style>{STYLE}</style></head><body><h1>Deployment plan</h1>",
    ]
    for name, plan in read_plans(plans).items():
        out += _section(name, plan)
    out.append("</body></html>\n")
    return "\n".join(out)
