"""After the drills: how soon the message came, what measuring costs a host, and that no log has a prompt."""

from __future__ import annotations

import json
import re
import shlex
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import testinfra
import yaml

from lab.config import STATE, load

NAMES = ("node1", "node2", "node3")
HEADS = {"tiny_split": "node1", "tiny_single": "node3"}
DRILLS = yaml.safe_load((Path(__file__).parents[1] / "side_effect.yml").read_text())[0]["vars"]["drills"]
GUIDE = Path(__file__).parents[3] / "docs/guides/monitoring.md"
LIMIT_SECONDS = 60
MINUTE = 60
TEXTFILE = "/etc/systemd/system/llm-textfile.service"
# What all that measures a host may need: each minute as much processor time as this many starts of Python, and this much memory. The share of
# a core depends on the machine, and on what else runs there.
STARTS, BYTES = 20, 100 * 2**20


@cache
def connect(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def test_three_hosts_are_looked_at() -> None:
    assert [connect(name).check_output("hostname") for name in NAMES] == list(NAMES)


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill["name"])
def test_the_right_alert_came_and_went_within_a_minute(drill: dict[str, Any]) -> None:
    table = (STATE / "reports/alerts.txt").read_text()
    line = rf"^{drill['name']} +{drill['alert']} +after +([\d.]+) s, over after +([\d.]+) s$"
    (seconds,) = re.findall(line, table, re.MULTILINE)
    assert all(0 <= float(each) <= LIMIT_SECONDS for each in seconds), table


def shown(host: Any, *names: str) -> dict[str, str]:
    """What systemd says of the slice that holds the exporters."""
    properties = " ".join(f"--property={name}" for name in names)
    said = host.check_output(f"systemctl show {properties} llm-exporters.slice")
    return dict(line.split("=", 1) for line in said.splitlines())


def is_counted(host: Any) -> bool:
    """Whether the kernel counts the processor time of the slice: not where control groups of version 1 are mounted one by one."""
    return shown(host, "CPUUsageNSec")["CPUUsageNSec"].isdigit()


@contextmanager
def timed(host: Any) -> Iterator[None]:
    """Where it does not, each run of the program of the textfile says in the journal what it took, with its children."""
    if is_counted(host):
        yield
        return
    folder, unit = "/run/systemd/system/llm-textfile.service.d", host.file(TEXTFILE).content_string
    (command,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    shell = """/bin/bash -c 'TIMEFORMAT="processor %%3U %%3S"; time "$$@"' timed"""
    lines = f"[Service]\nExecStart=\nExecStart={shell} {command}\n"
    try:
        host.check_output(
            f"mkdir -p {folder} && printf %s {shlex.quote(lines)} > {folder}/timed.conf && systemctl daemon-reload"
        )
        yield
    finally:
        host.check_output(f"rm -r {folder} && systemctl daemon-reload")


def used(host: Any) -> tuple[float, int]:
    """Seconds of processors and bytes of memory of the slice, or of what runs in it."""
    found = shown(host, "CPUUsageNSec", "MemoryCurrent", "ControlGroup")
    memory = found["MemoryCurrent"]
    if not memory.isdigit():
        memory = host.check_output(f"cat /sys/fs/cgroup/memory{found['ControlGroup']}/memory.usage_in_bytes")
    if found["CPUUsageNSec"].isdigit():
        return int(found["CPUUsageNSec"]) / 1e9, int(memory)
    exporter = host.check_output(
        "cut -d ' ' -f 14,15 /proc/$(systemctl show --property=MainPID --value prometheus-node-exporter)/stat"
    )
    runs = re.findall(
        r"^processor ([\d.]+) ([\d.]+)$", host.check_output("journalctl --unit=llm-textfile --output=cat"), re.M
    )
    ticks = float(host.check_output("getconf CLK_TCK"))
    return sum(map(float, exporter.split())) / ticks + sum(float(one) for run in runs for one in run), int(memory)


def start_seconds(host: Any) -> float:
    """Seconds of processors for a start of Python with a few of its modules: always the same ones, whatever the programs import that are measured."""
    program = "import argparse, fnmatch, glob, json, re"
    said = host.check_output(
        f"""bash -c 'TIMEFORMAT="%3U %3S"; time for i in {{1..20}}; do python3 -I -c "{program}"; done' 2>&1"""
    )
    return sum(map(float, said.split())) / 20


def test_what_measures_a_host_costs_little() -> None:
    hosts = {name: connect(name) for name in NAMES}
    with ExitStack() as stack:
        for host in hosts.values():
            stack.enter_context(timed(host))
        starts = {name: start_seconds(host) for name, host in hosts.items()}
        before, began = {name: used(host) for name, host in hosts.items()}, time.monotonic()
        time.sleep(MINUTE)
        after, passed = {name: used(host) for name, host in hosts.items()}, time.monotonic() - began
        starts = {name: (starts[name] + start_seconds(host)) / 2 for name, host in hosts.items()}
    cores = {name: (after[name][0] - before[name][0]) / passed for name in NAMES}
    costs = {name: cores[name] * MINUTE / starts[name] for name in NAMES}
    memory = {name: after[name][1] for name in NAMES}
    said = {
        name: f"{cores[name]:.4f} of a core, {costs[name]:.1f} starts of {1000 * starts[name]:.0f} ms, {memory[name] >> 20} MiB"
        for name in NAMES
    }
    print(said)
    assert all(0 < cost <= STARTS for cost in costs.values()), said
    assert all(0 < size <= BYTES for size in memory.values()), said


@pytest.mark.parametrize("name", NAMES)
def test_what_measures_a_host_is_in_its_slice(name: str) -> None:
    host = connect(name)
    for unit in ("prometheus-node-exporter.service", "llm-textfile.service"):
        assert host.check_output(f"systemctl show --property=Slice --value {unit}") == "llm-exporters.slice"
    assert host.service("llm-textfile.path").is_running


def ask(deployment: str, prompt: str) -> int:
    """Tokens of an answer, as a client gets it."""
    address = load().nodes[HEADS[deployment]].mgmt
    key = (STATE / f"secrets/{deployment}_api_key").read_text().strip()
    request = urllib.request.Request(
        f"http://{address}:8000/v1/completions",
        json.dumps({"model": "tiny", "prompt": prompt, "max_tokens": 4}).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return int(json.load(response)["usage"]["completion_tokens"])


def test_no_log_has_a_prompt() -> None:
    words = uuid.uuid4().hex
    for deployment in HEADS:
        assert ask(deployment, f"The secret is {words}") > 0
    for name in NAMES:
        host = connect(name)
        containers = host.check_output("docker ps --all --format '{{.Names}}'").split()
        assert containers
        commands = ["journalctl --no-pager --quiet", *(f"docker logs {each} 2>&1" for each in containers)]
        read = 0
        for command in commands:
            lines, found = host.check_output(f"{command} | awk '/{words}/ {{ n++ }} END {{ print NR, n + 0 }}'").split()
            read += int(lines)
            assert int(found) == 0, f"{name}: {command}"
        assert read > 100, name


def get(path: str) -> Any:
    """What Prometheus on the host that watches answers."""
    code = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9090{path}').read().decode())"
    return json.loads(connect("node1").check_output(f'python3 -c "{code}"'))["data"]


def test_metrics_are_kept_up_to_a_size() -> None:
    flags = get("/api/v1/status/flags")
    assert flags["storage.tsdb.retention.size"] in ("1GiB", "1GB")
    assert flags["storage.tsdb.path"] == "/var/lib/prometheus/llm"
    (limit,) = get("/api/v1/query?query=prometheus_tsdb_retention_limit_bytes")["result"]
    assert int(limit["value"][1]) == 2**30


def test_every_target_of_the_fleet_is_asked() -> None:
    found = {
        (target["labels"]["job"], target["labels"].get("host")) for target in get("/api/v1/targets")["activeTargets"]
    }
    wanted = {("node", name) for name in NAMES} | {("vllm", head) for head in HEADS.values()}
    wanted |= {("api", head) for head in HEADS.values()} | {("ray", "node1"), ("ray", "node2"), ("gateway", "node3")}
    assert found >= wanted


ASKED = 'count_over_time(up{host="node2",job="node"}[6h])'
READY = "python3 -c \"import urllib.request; urllib.request.urlopen('http://127.0.0.1:9090/-/ready')\""


def seen() -> float:
    """How often a host has been asked in the last hours."""
    (found,) = get("/api/v1/query?query=" + quote(ASKED, safe=""))["result"]
    return float(found["value"][1])


def test_metrics_come_back_from_a_backup() -> None:
    backup, restore = re.findall(r"```bash\n(systemctl stop prometheus\n.*?)```", GUIDE.read_text(), re.DOTALL)
    before = seen()
    assert before > 10
    for commands in (backup, restore):
        connect("node1").check_output("set -e; " + "; ".join(commands.strip().splitlines()))
    deadline = time.monotonic() + 120
    while connect("node1").run(READY).rc:
        assert time.monotonic() < deadline
        time.sleep(1)
    assert seen() >= before
