"""Rules that Prometheus's own tool accepts and evaluates: one name for each release's metrics, and alerts that have a runbook."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm import engine as vllm
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import LANGUAGES
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring import configuration
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.consoles import pages
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import (
    alert_rules,
    alerts,
    recording_rules,
    rules_file,
)

from benchmarks.pages import written
from tests.support.alert_cases import SETTINGS, cases, promtool_tests
from tests.support.debian import promtool

REPOSITORY = Path(__file__).resolve().parents[5]
RUNBOOKS = {"en": "docs/runbooks/alerts.md", "zh": "docs/zh/runbooks/alerts.md"}
RELEASES = yaml.safe_load(Path(vllm.__file__).with_name("metrics.yml").read_text())["releases"]
ALERTS = alerts()


def served_names(metric: dict[str, Any], release: str) -> list[str]:
    """The names of a metric in a release; none where the release does not have it."""
    at = RELEASES.index(release)
    return [
        entry["name"]
        for entry in metric["names"]
        if RELEASES.index(entry["first"]) <= at <= RELEASES.index(entry.get("last", RELEASES[-1]))
    ]


def judge(*arguments: str) -> None:
    done = subprocess.run([promtool(), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("ours", "release", "names"),
    [
        ("kv_cache_usage_ratio", "0.3.0", ["vllm:gpu_cache_usage_perc"]),
        ("kv_cache_usage_ratio", "0.10.0", ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]),
        ("kv_cache_usage_ratio", "0.32.0", ["vllm:kv_cache_usage_perc"]),
        ("prompt_tokens", "0.3.0", ["vllm:avg_prompt_throughput_toks_per_s"]),
        ("prompt_tokens", "0.8.5", ["vllm:prompt_tokens_total"]),
        ("inter_token_latency_seconds", "0.8.5", ["vllm:time_per_output_token_seconds_bucket"]),
        ("inter_token_latency_seconds", "0.17.0", ["vllm:inter_token_latency_seconds_bucket"]),
        ("time_to_first_token_seconds", "0.3.0", []),
    ],
)
def test_the_names_of_a_release(ours: str, release: str, names: list[str]) -> None:
    assert served_names(dict(engine("vllm").metrics()[ours]), release) == names


def test_every_release_since_the_first_has_a_name() -> None:
    for ours, metric in engine("vllm").metrics().items():
        since = min(RELEASES.index(entry["first"]) for entry in metric["names"])
        assert [release for release in RELEASES[since:] if not served_names(dict(metric), release)] == [], ours
        assert "engine" not in str(metric.get("fold")), ours


def test_alerts_and_panels_use_names_that_rules_make() -> None:
    made = {rule["record"] for rule in recording_rules()}
    used = re.findall(r"llm:\w+(?::\w+)?", str(ALERTS) + str(pages()))
    assert len(used) > 10
    assert sorted(set(used) - made) == []


# Ray 2.9.3 has all of them, too: dashboard/modules/reporter/reporter_agent.py, raylet and gcs_server of its wheel on PyPI.
def test_panels_of_ray_use_names_and_labels_that_it_serves() -> None:
    recorded = (REPOSITORY / "tests/data/ray/metrics_2.60.0.txt").read_text(encoding="utf-8")
    (page,) = [page for page in pages() if page["page"] == "ray"]
    used = [
        (name, panel)
        for panel in page["panels"]
        for name in re.findall(r"\bray_\w+", panel["expr"].replace('job="ray"', ""))
    ]
    assert len(used) > 4
    for name, panel in used:
        line = re.search(rf"^{name}{{(.*)}} ", recorded, re.MULTILINE)
        assert line, name
        served = {*re.findall(r"(\w+)=", line.group(1)), "deployment", "host"}
        assert set(panel["labels"]) <= served, name


@pytest.mark.parametrize("page", RUNBOOKS.values())
def test_the_runbook_has_the_section_to_which_each_alert_links(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert written(page, text) == text, "run: python benchmarks/pages.py"
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [alert["name"] for alert in ALERTS]


def test_an_alert_says_the_same_in_both_languages() -> None:
    for alert in ALERTS:
        for texts in (alert["summary"], alert["runbook"]):
            assert list(texts) == list(LANGUAGES), alert["name"]
            assert all(texts.values()), alert["name"]
        shown = [set(re.findall(r"{(\w+)}", text)) for text in alert["summary"].values()]
        assert shown[0] == shown[1] <= set(alert["labels"]), alert["name"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_alert_names_what_it_is_about(lang: str) -> None:
    (rule,) = [rule for rule in alert_rules(SETTINGS, lang) if rule["alert"] == "HostDown"]
    assert "{{ $labels.host }}" in rule["annotations"]["summary"]
    assert rule["annotations"]["runbook_url"] == "https://example.com/alerts.md#hostdown"
    assert "@" not in str([rule["expr"] for rule in alert_rules(SETTINGS, lang)])


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_promtool_accepts_the_rules(lang: str, tmp_path: Path) -> None:
    path = tmp_path / "llm.yml"
    path.write_text(yaml.safe_dump(rules_file(SETTINGS, lang), allow_unicode=True))
    judge("check", "rules", str(path))


@pytest.mark.slow
def test_promtool_accepts_what_the_panels_ask(tmp_path: Path) -> None:
    asked = [{"record": "panel", "expr": panel["expr"]} for page in pages() for panel in page["panels"]]
    # Each with a label of its own: the same rule twice is a finding.
    rules = [{**rule, "labels": {"number": str(number)}} for number, rule in enumerate(asked)]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    judge("check", "rules", str(tmp_path / "panels.yml"))


@pytest.mark.slow
def test_promtool_accepts_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration.prometheus(str(tmp_path), 15, "127.0.0.1:9093", "127.0.0.1:9090")))
    judge("check", "config", str(path))


def test_each_alert_has_cases_in_which_it_fires_and_does_not() -> None:
    tried = cases()
    assert set(tried) == {alert["name"] for alert in ALERTS}
    assert [alert for alert, those in tried.items() if {"fires" in case for case in those} != {True, False}] == []
    # YAML would read 0x20 without quotes as the number 32.
    assert {type(values) for those in tried.values() for case in those for values in case["given"].values()} == {str}


@pytest.mark.slow
def test_promtool_evaluates(tmp_path: Path) -> None:
    (tmp_path / "llm.yml").write_text(yaml.safe_dump(rules_file(SETTINGS)))
    (tmp_path / "test.yml").write_text(promtool_tests("llm.yml", cases()))
    judge("test", "rules", str(tmp_path / "test.yml"))
