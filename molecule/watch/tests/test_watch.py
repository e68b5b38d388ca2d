"""Three hosts that serve, and a gateway, are watched by one of the hosts: real Prometheus, Alertmanager and exporters of Debian, after the drills."""

from __future__ import annotations

import html
import json
import re
import shlex
import ssl
import subprocess
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
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.consoles import pages
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import rules_file

from lab.config import STATE, load
from tests.support.alert_cases import SETTINGS, cases, promtool_tests
from tests.support.browser import browser, drawn, forwarded, opened

testinfra_hosts = ["ssh://node1"]
NAMES = ("node1", "node2", "node3")
HEADS = {"tiny_split": "node1", "tiny_single": "node3"}
SCENARIO = Path(__file__).parents[1]
GUIDE = SCENARIO.parents[1] / "docs/guides/monitoring.md"
PAGES = pages()
(DRILLS,) = [
    play["vars"]["drills"]
    for play in yaml.safe_load((SCENARIO / "side_effect.yml").read_text())
    if "drills" in play.get("vars", {})
]
LIMIT_SECONDS = 60
MINUTE = 60
WINDOW = (1280, 920)
COLLECTED = "/var/log/journal/remote"
MARK = "of the test of journals"
TEXTFILE = "/etc/systemd/system/llm-textfile.service"
# What all that measures a host may need: each minute as much processor time as this many starts of Python, and this much memory. The share of
# a core depends on the machine, and on what else runs there.
STARTS, BYTES = 20, 100 * 2**20
READY = "python3 -c \"import urllib.request; urllib.request.urlopen('http://127.0.0.1:9090/-/ready')\""
# Panels without data: no GPU of the lab reports an error.
ABSENT = {"gpu_xid"}


@cache
def connect(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def get(path: str, port: int = 9090) -> str:
    """What a program on the host that watches answers."""
    code = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{port}{path}').read().decode())"
    return str(connect("node1").check_output(f'python3 -c "{code}"'))


def query(expr: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(get("/api/v1/query?query=" + quote(expr, safe="")))["data"]["result"]
    return found


def tokens(url: str, secret: str, prompt: str) -> int:
    """Tokens of an answer, as a client gets it."""
    key = (STATE / "secrets" / secret).read_text().strip()
    request = urllib.request.Request(
        f"{url}/v1/completions",
        json.dumps({"model": "tiny", "prompt": prompt, "max_tokens": 4}).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    trust = ssl.create_default_context(cafile=str(STATE / "secrets/gateway_ca.crt"))
    with urllib.request.urlopen(request, timeout=120, context=trust) as response:
        return int(json.load(response)["usage"]["completion_tokens"])


def ask_all(prompt: str) -> None:
    """Each deployment, and the gateway."""
    nodes = load().nodes
    for deployment, head in HEADS.items():
        assert tokens(f"http://{nodes[head].mgmt}:8000", f"{deployment}_api_key", prompt) > 0
    assert tokens(f"https://{nodes['node3'].mgmt}", "gateway_key_alice", prompt) > 0


def test_three_hosts_are_looked_at() -> None:
    assert [connect(name).check_output("hostname") for name in NAMES] == list(NAMES)


def test_every_target_of_the_fleet_answers() -> None:
    found = {
        (labels["job"], labels.get("host"), labels.get("deployment")): sample["value"][1]
        for sample in query("up")
        for labels in [sample["metric"]]
    }
    pair = [("node1", "tiny_split"), ("node2", "tiny_split")]
    wanted = [("node", *each) for each in [*pair, ("node3", "tiny_single")]] + [("ray", *each) for each in pair]
    wanted += [(job, head, name) for job in ("vllm", "api") for name, head in HEADS.items()]
    assert found.items() >= dict.fromkeys([*wanted, ("gateway", "node3", None)], "1").items(), found


@pytest.fixture(scope="module")
def asked() -> None:
    """Each deployment has answered in the last minutes, and its rates are there: a rate is right once there are figures of the whole time it is taken over."""
    deadline = time.monotonic() + 300
    rates = [f'llm:inter_token_latency_seconds:p95{{deployment="{name}"}}' for name in HEADS]
    rates.append('sum(rate(llm_gateway_usage_total{kind="requests"}[2m])) > 0')
    began = 'count(up{job="vllm",deployment="tiny_old"} offset 2m) == 1'
    while not all(map(query, [*rates, began])):
        assert time.monotonic() < deadline, {expr: query(expr) for expr in [*rates, began]}
        ask_all("Hello")
        time.sleep(2)


def test_the_names_of_two_releases_become_one(asked: None) -> None:
    """Those of the release that serves, and those of 0.8.5, which files/stand_in.py has."""
    releases = {sample["metric"]["deployment"]: sample["metric"]["release"] for sample in query('up{job="vllm"}')}
    assert releases == {"tiny_split": "0.32.0", "tiny_single": "0.32.0", "tiny_old": "0.8.5"}
    rates = {}
    for deployment in releases:
        of_it = f'{{deployment="{deployment}"}}'
        (usage,) = query("llm:kv_cache_usage_ratio" + of_it)
        assert usage["value"][1] == "0.4" if deployment == "tiny_old" else 0 <= float(usage["value"][1]) < 0.4
        (rate,) = query("llm:generation_tokens:rate2m" + of_it)
        rates[deployment] = float(rate["value"][1])
        assert len(query("llm:inter_token_latency_seconds:p95" + of_it)) == 1, deployment
    assert 15 < rates.pop("tiny_old") < 25
    assert all(rate > 0 for rate in rates.values()), rates


def test_a_start_that_was_not_as_planned_raises_an_alert() -> None:
    """The engine finds the memory of the machine, and not that of the simulated GPU that was planned with."""
    for name in HEADS:
        of_it = f'{{deployment="{name}"}}'
        (planned,) = query("llm_planned_kv_cache_tokens" + of_it)
        (measured,) = query("llm_measured_kv_cache_tokens" + of_it)
        assert float(planned["value"][1]) > 2 * float(measured["value"][1]) > 0
    # Of the ranks of tiny_split, which prepare.yml adds.
    assert len(query("llm_measured_rank_bytes")) == 4
    found = {sample["metric"]["deployment"] for sample in query('ALERTS{alertname="PlanMissed"}')}
    assert found == {"tiny_split", "tiny_single"}


@pytest.mark.parametrize(
    ("page", "panel"),
    [(page["page"], panel) for page in PAGES for panel in page["panels"]],
    ids=lambda value: str(value)[:40],
)
def test_a_panel_has_data(asked: None, page: str, panel: dict[str, Any]) -> None:
    assert query(panel["expr"]) or panel["title"] in ABSENT, f"{page}: {panel['expr']}"


@pytest.fixture(scope="module")
def prometheus() -> Iterator[str]:
    with forwarded(STATE / "ssh/config", "node1", 9090) as address:
        yield address


@pytest.mark.parametrize("page", [page["page"] for page in PAGES])
def test_a_page_is_shown(asked: None, prometheus: str, page: str, tmp_path: Path) -> None:
    assert browser(), "prepare.yml installs one"
    url = f"{prometheus}/consoles/{page}.html"
    text = opened(url, tmp_path, "--dump-dom")
    panels = next(entry["panels"] for entry in PAGES if entry["page"] == page)
    titles = re.findall(r"<section><h2><a [^>]*>([^<]+)</a></h2>", text)
    assert list(map(html.unescape, titles)) == [message("panel_" + panel["title"], "en") for panel in panels]
    assert "error executing template" not in text
    assert text.count("No data.") == sum(panel["title"] in ABSENT for panel in panels)
    # Kept beside the reports: docs/images has those that are worth looking at.
    picture = STATE / f"reports/console-{page}.png"
    assert drawn(url, tmp_path, picture, *WINDOW) == WINDOW
    blank = tmp_path / "blank.png"
    drawn("data:text/html,", tmp_path, blank, *WINDOW)
    assert picture.stat().st_size > 3 * blank.stat().st_size


def test_only_the_exporter_listens_to_others(host: Any) -> None:
    listening = host.check_output("ss --listening --tcp --numeric --no-header")
    found = {port: address for address, port in re.findall(r"(\S+):(9\d{3})\s", listening)}
    assert found.pop("9100").startswith("172.31."), "the management address, which is ansible_host"
    assert found == dict.fromkeys(("9090", "9093", "9096", "9115"), "127.0.0.1")


def test_the_journal_has_a_limit(host: Any) -> None:
    assert "SystemMaxUse=4G" in host.check_output("systemd-analyze cat-config systemd/journald.conf")
    assert host.service("systemd-journald").is_running


def test_the_tools_of_the_host_accept_what_it_has(host: Any) -> None:
    for command in (
        "promtool check config /etc/llm-monitoring/prometheus.yml",
        "amtool check-config /etc/llm-monitoring/alertmanager.yml",
    ):
        assert host.run(command).rc == 0, command


def test_every_alert_fires_when_it_should_and_only_then(host: Any) -> None:
    """By Prometheus's own tool, whose release is the one that watches here."""
    for name, text in (
        ("llm.yml", str(yaml.safe_dump(rules_file(SETTINGS)))),
        ("test.yml", promtool_tests("llm.yml", cases())),
    ):
        bring = ["ssh", "-F", str(STATE / "ssh/config"), "node1", f"mkdir -p /root/alerts && cat > /root/alerts/{name}"]
        subprocess.run(bring, input=text, text=True, check=True, timeout=60)
    done = host.run("promtool test rules /root/alerts/test.yml")
    assert done.rc == 0, done.stdout + done.stderr


def test_a_grafana_and_a_vector_of_the_site_find_their_files(host: Any) -> None:
    """Neither program runs in the lab; unit tests compare these files with the documentation of Grafana and Vector."""
    source = yaml.safe_load(host.check_output("cat /etc/llm-monitoring/grafana/datasources/llm.yml"))
    assert get("/-/ready", int(source["datasources"][0]["url"].rpartition(":")[2]))
    provider = yaml.safe_load(host.check_output("cat /etc/llm-monitoring/grafana/dashboards/llm.yml"))["providers"][0]
    assert len(host.check_output(f"ls {provider['options']['path']}/*.json").split()) == len(PAGES)
    for name in NAMES:
        vector = yaml.safe_load(connect(name).check_output("cat /etc/llm-logs/vector.yaml"))
        assert f'.llm_host = "{name}"' in vector["transforms"]["named"]["source"]
        assert vector["sinks"]["site"]["endpoint"] == "http://192.0.2.40:3100"


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill["name"])
def test_the_right_alert_came_and_went_within_a_minute(drill: dict[str, Any]) -> None:
    table = (STATE / "reports/alerts.txt").read_text()
    line = rf"^{drill['name']} +{drill['alert']} +after +([\d.]+) s, over after +([\d.]+) s$"
    (seconds,) = re.findall(line, table, re.MULTILINE)
    assert all(0 <= float(each) <= LIMIT_SECONDS for each in seconds), table


def test_the_webhook_got_the_alerts_of_the_drill(host: Any) -> None:
    def states() -> set[tuple[str, str, str]]:
        messages = [json.loads(line) for line in host.check_output("cat /root/alerts.json").splitlines()]
        alerts = [alert for each in messages for alert in each["alerts"]]
        return {(one["labels"]["alertname"], one["labels"].get("host", ""), one["status"]) for one in alerts}

    deadline = time.monotonic() + 60
    while not states() >= {("HostDown", "node2", "firing"), ("HostDown", "node2", "resolved")}:
        assert time.monotonic() < deadline, states()
        time.sleep(2)
    assert host.file("/etc/llm-monitoring/secrets/hook").mode == 0o640
    assert "8099/hook" not in host.check_output("cat /etc/llm-monitoring/alertmanager.yml"), (
        "an address may be a secret"
    )


def test_a_host_that_watches_nothing_runs_only_its_exporter(host: Any) -> None:
    other = connect("node2")
    assert other.service("prometheus-node-exporter").is_running
    assert other.service("llm-textfile.timer").is_running
    assert other.service("llm-textfile.path").is_running
    assert not other.package("prometheus").is_installed


def test_a_line_of_every_host_is_collected(host: Any) -> None:
    """Asked as the guide asks."""
    (line,) = re.findall(
        r"^journalctl --directory .*_HOSTNAME=gpu02.*$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE
    )
    for name in NAMES:
        connect(name).check_output(f"logger --tag journals '{MARK} {name}'")
    for name in NAMES:
        command = line.replace("gpu02", name).replace("llm-probe", "journals").replace("--unit", "--identifier")
        deadline = time.monotonic() + 60
        while f"{MARK} {name}" not in host.check_output(command):
            assert time.monotonic() < deadline, command
            time.sleep(1)


def test_who_sends_a_journal_has_a_certificate_of_the_authority(host: Any) -> None:
    said = host.check_output("journalctl --unit llm-journal-gate --no-pager")
    assert [name for name in NAMES if f"{name} sends its journal" in said] == list(NAMES)
    other = connect("node2")
    address = host.check_output("ss --listening --tcp --numeric --no-header 'sport = 19532' | awk '{ print $4 }'")
    assert address.startswith("172.31."), "the management address, which is ansible_host"
    ask_gate = f"openssl s_client -connect {address} -CAfile /etc/llm-journal/authority.pem -verify_return_error -quiet"
    request = "POST /upload HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: text/plain\\r\\nContent-Length: 0\\r\\n\\r\\n"
    # As somebody who trusts the server, with no certificate and with one that nobody has signed.
    other.check_output(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=node2 "
        "-keyout /root/own.key -out /root/own.pem 2>&1"
    )
    for mine in ("", "-cert /root/own.pem -key /root/own.key"):
        answer = other.run(f"(printf '{request}'; sleep 3) | timeout 20 {ask_gate} {mine} 2>&1")
        assert answer.rc not in (0, 124), mine
        assert "verify return:1" in answer.stdout, "the server is the right one"
        assert "HTTP/1.1" not in answer.stdout, mine
    # With the host's own one it is let in, as far as the program that collects.
    mine = "-cert /etc/llm-journal/host.pem -key /etc/llm-journal/host.key"
    answer = other.run(f"(printf '{request}'; sleep 3) | timeout 20 {ask_gate} {mine} 2>&1")
    assert "HTTP/1.1" in answer.stdout, answer.stdout


def test_nobody_else_reads_what_journals_are_sent_with(host: Any) -> None:
    for name in NAMES:
        key = connect(name).file("/etc/llm-journal/host.key")
        assert (key.user, key.group, key.mode) == ("root", "systemd-journal-remote", 0o640)
        folder = connect(name).file("/etc/llm-journal")
        assert (folder.group, folder.mode) == ("systemd-journal-remote", 0o750)
    listening = host.check_output("ss --listening --tcp --numeric --no-header 'sport = 19533'")
    assert "127.0.0.1:19533" in listening


def test_a_host_goes_on_after_the_one_that_collects_was_away(host: Any) -> None:
    host.check_output("systemctl stop llm-journal-gate")
    other = connect("node2")
    other.check_output(f"logger --tag journals '{MARK} meanwhile'")
    time.sleep(5)
    assert f"{MARK} meanwhile" not in host.check_output(f"journalctl --directory {COLLECTED} --identifier journals")
    host.check_output("systemctl start llm-journal-gate")
    deadline = time.monotonic() + 90
    while f"{MARK} meanwhile" not in host.check_output(f"journalctl --directory {COLLECTED} --identifier journals"):
        assert time.monotonic() < deadline
        time.sleep(2)


def test_collected_journals_have_a_limit(host: Any) -> None:
    assert host.service("llm-journal-limit.timer").is_running
    assert "--vacuum-size=1G" in host.check_output("systemctl show --property=ExecStart --value llm-journal-limit")
    host.check_output("systemctl start llm-journal-limit")
    assert host.check_output("systemctl show --property=Result --value llm-journal-limit") == "success"
    assert MARK in host.check_output(f"journalctl --directory {COLLECTED} --identifier journals")
    # What it removes are files that are complete, by the name that they get then.
    complete = f"/root/collected/remote-127.0.0.1@{'0' * 32}-{'0' * 16}-{'0' * 16}.journal"
    host.check_output(f"mkdir -p /root/collected && cp {COLLECTED}/*.journal {complete}")
    host.check_output("journalctl --directory=/root/collected --vacuum-size=1M")
    assert not host.file(complete).exists


def kept(host: Any) -> dict[str, float]:
    """When each host last sent something, as the host that collects noted it."""
    found: dict[str, float] = json.loads(host.check_output("cat /var/lib/llm-journal-gate/senders.json"))
    return found


def test_a_host_that_stops_sending_is_noticed(host: Any) -> None:
    """The alert JournalStopped waits for minutes: that it fires then is tested with promtool."""
    figures = query("llm_journal_received_timestamp_seconds")
    assert {sample["metric"]["sender"] for sample in figures} == {*NAMES}
    connect("node2").check_output("systemctl stop systemd-journal-upload")
    # What was on its way has come by then.
    time.sleep(3)
    stopped = float(host.check_output("date +%s.%N"))
    deadline = time.monotonic() + 60
    # All times are written together, every few seconds where something comes.
    while not all((found := kept(host))[name] > stopped for name in ("node1", "node3")):
        for name in NAMES:
            connect(name).check_output("logger --tag journals 'something'")
        assert time.monotonic() < deadline
        time.sleep(2)
    assert found["node2"] < stopped
    connect("node2").check_output("systemctl start systemd-journal-upload")
    while kept(host)["node2"] < stopped:
        assert time.monotonic() < deadline + 60
        time.sleep(1)


def test_the_age_of_the_backup_is_a_metric(host: Any) -> None:
    folder = host.file("/var/backups/llm-monitoring")
    assert (folder.user, folder.group, folder.mode) == ("root", "prometheus", 0o750)
    (waits,) = query("llm_backup_written_timestamp_seconds")
    assert waits["metric"]["host"] == "node1"
    assert 0 < time.time() - float(waits["value"][1]) < 3600, "since the folder was made"
    host.check_output("touch --date=2020-01-01 /var/backups/llm-monitoring/metrics.tar.gz")
    try:
        deadline = time.monotonic() + 60
        old = "time() - llm_backup_written_timestamp_seconds > 86400"
        while not query(old):
            assert time.monotonic() < deadline
            time.sleep(2)
    finally:
        host.check_output("rm /var/backups/llm-monitoring/metrics.tar.gz")


def test_a_clock_that_is_wrong_raises_the_alert_until_it_is_right(host: Any) -> None:
    """side_effect.yml makes the exporter of node3 tell another time."""
    firing = 'ALERTS{alertname="ClockSkew",alertstate="firing"}'
    deadline = time.monotonic() + 180
    while not query(firing):
        assert time.monotonic() < deadline
        time.sleep(2)
    assert [sample["metric"]["host"] for sample in query(firing)] == ["node3"]
    connect("node3").check_output(
        "systemctl stop drill-clock && rm /run/systemd/system/prometheus-node-exporter.service.d/drill-clock.conf "
        "/var/lib/llm-monitoring/drill-clock.prom && systemctl daemon-reload && systemctl restart prometheus-node-exporter"
    )
    deadline = time.monotonic() + 60
    while query(firing):
        assert time.monotonic() < deadline
        time.sleep(1)


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


def test_no_log_has_a_prompt() -> None:
    words = uuid.uuid4().hex
    ask_all(f"The secret is {words}")
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


def test_metrics_are_kept_up_to_a_size() -> None:
    flags = json.loads(get("/api/v1/status/flags"))["data"]
    assert flags["storage.tsdb.retention.size"] in ("1GiB", "1GB")
    assert flags["storage.tsdb.path"] == "/var/lib/prometheus/llm"
    (limit,) = query("prometheus_tsdb_retention_limit_bytes")
    assert int(limit["value"][1]) == 2**30


def seen() -> float:
    """How often a host has been asked in the last hours."""
    (found,) = query('count_over_time(up{host="node2",job="node"}[6h])')
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
