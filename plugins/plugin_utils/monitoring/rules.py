# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of Prometheus: one set of names for the metrics of any engine and release, and the alerts. Both are made from data files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

import yaml
from ansible_collections.baremetal.llm.plugins.module_utils._engines import PROBED
from ansible_collections.baremetal.llm.plugins.module_utils._xid import ACTIONS, BAD
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine, engine_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Metric
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.timing import QUICK_SECONDS

# What the figures of all engines of a server are put together by.
KEPT = "deployment, host"
# What a card should not serve after, as a pattern of Prometheus.
BAD_XIDS = "|".join(str(number) for action in BAD for number in ACTIONS[action])
# Rates need several scrapes; quantiles need requests.
RATE, QUANTILE = "2m", "5m"
QUANTILES = {"p50": 0.5, "p95": 0.95}


# `for` is a word of Python.
Alert = TypedDict(
    "Alert",
    {
        "name": str,
        "severity": str,
        "for": str,
        "expr": str,
        "labels": list[str],
        "summary": Mapping[str, str],
        "runbook": Mapping[str, str],
    },
)


def table(name: str) -> Any:
    """The content of a data file of this folder."""
    # A tenth of the time with the parser in C, where there is one.
    text = Path(__file__).with_name(name).read_text(encoding="utf-8").replace("@server@", PROBED)
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def engine_metrics() -> dict[str, Metric]:
    """What engines call what is of use, by our name of it. Each server has the names of its own engine."""
    found: dict[str, Metric] = {}
    for name in engine_names():
        for ours, metric in engine(name).metrics().items():
            names = found.setdefault(ours, {**metric, "names": []})["names"]
            known = {each["name"] for each in names}
            names += [each for each in metric["names"] if each["name"] not in known]
    return found


def recording_rules() -> list[dict[str, str]]:
    """A rule for each name that everything else builds on."""
    return [
        {"record": name, "expr": expr} for ours, metric in engine_metrics().items() for name, expr in _of(ours, metric)
    ]


def _of(ours: str, metric: Metric) -> Iterator[tuple[str, str]]:
    if metric["kind"] == "gauge":
        yield f"llm:{ours}", f"{metric['fold']} by ({KEPT}) ({_either(entry['name'] for entry in metric['names'])})"
    elif metric["kind"] == "counter":
        rates = (entry["name"] if entry.get("gauge") else f"rate({entry['name']}[{RATE}])" for entry in metric["names"])
        yield f"llm:{ours}:rate{RATE}", f"sum by ({KEPT}) ({_either(rates)})"
    else:
        rates = (f"rate({entry['name']}[{QUANTILE}])" for entry in metric["names"])
        buckets = f"sum by ({KEPT}, le) ({_either(rates)})"
        for name, share in QUANTILES.items():
            # No request is no figure, and not NaN.
            yield f"llm:{ours}:{name}", f"histogram_quantile({share}, {buckets}) >= 0"


def _either(expressions: Iterator[str]) -> str:
    return " or ".join(expressions)


def alerts() -> list[Alert]:
    """The alerts, in the order of their pages."""
    found: list[Alert] = table("alerts.yml")
    return found


def alert_rules(settings: Mapping[str, object], lang: str = "en") -> list[dict[str, object]]:
    """The alerts. ``settings``: first_token_seconds, backup_days, and runbook_url, the address of the page whose sections they link to."""
    rules: list[dict[str, object]] = []
    for alert in alerts():
        expr = alert["expr"]
        for name, value in {**settings, "bad_xids": BAD_XIDS}.items():
            expr = expr.replace(f"@{name}@", str(value))
        shown = {label: "{{ $labels." + label + " }}" for label in alert["labels"]}
        rules.append(
            {
                "alert": alert["name"],
                "expr": expr,
                "for": alert["for"],
                "labels": {"severity": alert["severity"]},
                "annotations": {
                    "summary": alert["summary"][language(lang)].format(**shown),
                    "runbook_url": f"{settings['runbook_url']}#{alert['name'].lower()}",
                },
            }
        )
    return rules


def rules_file(settings: Mapping[str, object], lang: str = "en") -> dict[str, object]:
    """The content of a file of rules, as plain data."""
    return {
        "groups": [
            {"name": "llm-names", "rules": recording_rules()},
            {"name": "llm-alerts", "interval": f"{QUICK_SECONDS}s", "rules": alert_rules(settings, lang)},
        ]
    }
