"""Receivers get a message within a minute of a failure, and of its end: the sum of all steps, with the defaults of the roles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring import configuration, timing
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import alerts, rules_file

from tests.support import programs
from tests.support.alert_cases import SETTINGS

ROLES = Path(__file__).resolve().parents[5] / "roles"
GOAL_SECONDS = 60
# How often everything is asked, by default: monitoring_interval_seconds.
INTERVAL_SECONDS = 10
# The probe of roles/vllm looks at the latest this long after its last look: its interval, the accuracy of its timer, its start.
PROBE_STARTS_SECONDS = 12
# Then it asks for a token and for counters that do not come, or twice for a token, since its own request may look like work. It asks Ray for lost
# ranks and restarts the server before it writes what it saw.
PROBE_ASKS_SECONDS, PROBE_WRITES_SECONDS = 10, 10

SECONDS = {
    "probe_fails": PROBE_STARTS_SECONDS + PROBE_ASKS_SECONDS + PROBE_WRITES_SECONDS,
    "probe_succeeds": PROBE_STARTS_SECONDS + 5,
    # llm-textfile.path: as soon as the probe has written.
    "textfile": 2,
    # What answers, answers within a second.
    "host": INTERVAL_SECONDS + 1,
    "server": timing.QUICK_SECONDS + 1,
    "silent_host": INTERVAL_SECONDS + timing.TIMEOUT_SECONDS,
    "silent_server": timing.QUICK_SECONDS + timing.TIMEOUT_SECONDS,
}

# By alert the steps of its beginning and those of its end; how long an alert waits itself is in alerts.yml (`for`).
WAYS = {
    "HostDown": (("silent_host",), ("host",)),
    "DeploymentNotReady": (("probe_fails", "server"), ("probe_succeeds", "server")),
    "GenerationDead": (("probe_fails", "textfile", "host"), ("probe_succeeds", "textfile", "host")),
    "GatewayNotReady": (("silent_server",), ("server",)),
    "CertificateExpiring": (("server",), ("server",)),
    "DiskFilling": (("host",), ("host",)),
}
WAITS = {alert["name"]: alert["for"] for alert in alerts()}


def defaults(role: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROLES / role / "defaults/main.yml").read_text())
    return found


def seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)s", text)
    assert found, text
    return int(found.group(1))


def sent_after(alert: str, waits_seconds: int) -> int:
    """Seconds until a message is sent, at most. ``waits_seconds`` is how long the alert waits from one evaluation to a later one."""
    evaluations = -(-waits_seconds // timing.QUICK_SECONDS) * timing.QUICK_SECONDS
    steps = sum(SECONDS[step] for step in WAYS[alert][0])
    return steps + timing.QUICK_SECONDS + evaluations + timing.GROUP_WAIT_SECONDS


def resolved_after(alert: str) -> int:
    """Seconds until the message is sent that it is over, at most."""
    steps = sum(SECONDS[step] for step in WAYS[alert][1])
    return steps + timing.QUICK_SECONDS + timing.GROUP_INTERVAL_SECONDS


@pytest.mark.parametrize("alert", WAYS)
def test_messages_are_sent_within_a_minute_of_an_event_and_of_its_end(alert: str) -> None:
    assert sent_after(alert, seconds(WAITS[alert])) <= GOAL_SECONDS
    assert resolved_after(alert) <= GOAL_SECONDS


def test_the_sum_has_every_step() -> None:
    # One host that is silent: asked, given up, evaluated, waited for in whole evaluations, collected.
    assert sent_after("HostDown", 12) == 10 + 5 + 5 + 15 + 5
    assert resolved_after("HostDown") == 11 + 5 + 10


def test_one_missed_answer_of_a_host_is_nothing() -> None:
    assert seconds(WAITS["HostDown"]) > SECONDS["host"]


def test_the_numbers_are_those_that_are_configured() -> None:
    settings = configuration.prometheus("/x", defaults("monitoring")["monitoring_interval_seconds"], "a:1", "b:1")
    jobs = {job["job_name"]: job for job in settings["scrape_configs"]}
    assert jobs["node"]["scrape_interval"] == f"{INTERVAL_SECONDS}s"
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
    probe = programs.load("common/files/llm-probe.py")
    interval = defaults("vllm")["vllm_probe_interval_seconds"]
    timer = (ROLES / "common/templates/llm-probe.timer.j2").read_text()
    assert "AccuracySec=1\n" in timer
    assert interval + 1 + 1 <= PROBE_STARTS_SECONDS
    assert PROBE_ASKS_SECONDS >= probe.ASK_SECONDS + probe.COUNTERS_SECONDS
    assert PROBE_WRITES_SECONDS >= 2 * probe.STOP_SECONDS
    # What failed or loads is looked at sooner than the timer would.
    assert interval > probe.AGAIN_SECONDS


def test_the_figures_are_written_when_the_probe_has_looked() -> None:
    unit = (ROLES / "monitoring/templates/llm-textfile.path.j2").read_text()
    assert "PathChanged=/run/llm-probe/state.json\n" in unit
    service = (ROLES / "monitoring/templates/llm-textfile.service.j2").read_text()
    assert "StartLimitIntervalSec=0\n" in service, "systemd would give up after five looks within ten seconds"
