"""Who is told of what is dead within a minute, and of its end: the sum of all steps, with the defaults of the roles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring import configuration, timing
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import rules_file, table

from tests.support import programs
from tests.support.alert_cases import SETTINGS

ROLES = Path(__file__).resolve().parents[5] / "roles"
WAITS = {alert["name"]: alert["for"] for alert in table("alerts.yml")}


def defaults(role: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROLES / role / "defaults/main.yml").read_text())
    return found


def seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)s", text)
    assert found, text
    return int(found.group(1))


@pytest.mark.parametrize("alert", timing.WAYS)
def test_it_is_told_and_over_within_a_minute(alert: str) -> None:
    assert timing.told_after(alert, seconds(WAITS[alert])) <= timing.GOAL_SECONDS
    assert timing.over_after(alert) <= timing.GOAL_SECONDS


def test_the_sum_has_every_step() -> None:
    # One host that is silent: asked, given up, evaluated, waited for in whole evaluations, collected.
    assert timing.told_after("host_down", 12) == 10 + 5 + 5 + 15 + 5
    assert timing.over_after("host_down") == 11 + 5 + 10


def test_one_missed_answer_of_a_host_is_nothing() -> None:
    assert seconds(WAITS["host_down"]) > timing.SECONDS["host"]


def test_the_numbers_are_those_that_are_configured() -> None:
    told = configuration.prometheus("/x", defaults("monitoring")["monitoring_interval_seconds"], "a:1", "b:1")
    jobs = {job["job_name"]: job for job in told["scrape_configs"]}
    assert jobs["node"]["scrape_interval"] == f"{timing.INTERVAL_SECONDS}s"
    assert {jobs[name]["scrape_interval"] for name in ("api", "gateway")} == {f"{timing.QUICK_SECONDS}s"}
    assert {jobs[name]["scrape_timeout"] for name in ("node", "api")} == {f"{timing.TIMEOUT_SECONDS}s"}
    (alerts,) = [group for group in rules_file(SETTINGS)["groups"] if group["name"] == "llm-alerts"]
    assert alerts["interval"] == f"{timing.QUICK_SECONDS}s"
    route = configuration.alertmanager([], "/x")["route"]
    assert route["group_wait"] == f"{timing.GROUP_WAIT_SECONDS}s"
    assert route["group_interval"] == f"{timing.GROUP_INTERVAL_SECONDS}s"


@pytest.mark.parametrize("interval", [1, 4, 300])
def test_nobody_waits_longer_than_until_it_is_asked_again(interval: int) -> None:
    jobs = configuration.scrape_configs("/x", interval)
    assert jobs
    for job in jobs:
        assert seconds(job["scrape_timeout"]) <= seconds(job["scrape_interval"]) <= interval


def test_the_numbers_of_the_probe_are_those_of_its_program() -> None:
    probe = programs.load("vllm/files/llm-probe.py")
    interval = defaults("vllm")["vllm_probe_interval_seconds"]
    timer = (ROLES / "vllm/templates/llm-probe.timer.j2").read_text()
    assert "AccuracySec=1\n" in timer
    assert interval + 1 + 1 <= timing.PROBE_STARTS_SECONDS
    assert timing.PROBE_ASKS_SECONDS >= probe.ASK_SECONDS + probe.COUNTERS_SECONDS
    assert timing.PROBE_JUDGES_SECONDS >= 2 * probe.STOP_SECONDS
    # What failed or loads is looked at sooner than the timer would.
    assert interval > probe.AGAIN_SECONDS


def test_the_figures_are_written_when_the_probe_has_looked() -> None:
    unit = (ROLES / "monitoring/templates/llm-textfile.path.j2").read_text()
    assert "PathChanged=/run/llm-probe/state.json\n" in unit
    service = (ROLES / "monitoring/templates/llm-textfile.service.j2").read_text()
    assert "StartLimitIntervalSec=0\n" in service, "systemd would give up after five looks within ten seconds"
