"""The cases of tests/data/monitoring/alerts.yml as promtool takes them: unit tests run it where it is installed, and the scenario watch on its host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import alert_rules
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.timing import QUICK_SECONDS

FILE = Path(__file__).parents[1] / "data/monitoring/alerts.yml"
SETTINGS = {"first_token_seconds": 5, "backup_days": 7, "runbook_url": "https://example.com/alerts.md"}


def cases() -> Mapping[str, list[dict[str, Any]]]:
    """By alert what is tried."""
    found: Mapping[str, list[dict[str, Any]]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def promtool_tests(rules: str, alerts: Mapping[str, list[dict[str, Any]]]) -> str:
    """The file for `promtool test rules`. ``rules`` is that of the rules made with SETTINGS, beside it."""
    tests = [_test(alert, case) for alert, tried in alerts.items() for case in tried]
    # promtool evaluates all groups this often, whatever they say themselves.
    content = {"rule_files": [rules], "evaluation_interval": f"{QUICK_SECONDS}s", "tests": tests}
    return str(yaml.safe_dump(content, sort_keys=False))


def _test(alert: str, case: Mapping[str, Any]) -> dict[str, Any]:
    """At this time the alert fires with these labels, or not at all."""
    (rule,) = [rule for rule in alert_rules(SETTINGS) if rule["alert"] == alert]
    expected = []
    if "fires" in case:
        summary = rule["annotations"]["summary"]
        for name, value in case["fires"].items():
            summary = summary.replace("{{ $labels." + name + " }}", value)
        annotations = {**rule["annotations"], "summary": summary}
        expected = [{"exp_labels": {**rule["labels"], **case["fires"]}, "exp_annotations": annotations}]
    return {
        "name": f"{alert}: {case['what']}",
        "interval": case.get("every", "15s"),
        "input_series": [{"series": name, "values": values} for name, values in case["given"].items()],
        "alert_rule_test": [{"eval_time": case["at"], "alertname": alert, "exp_alerts": expected}],
    }
