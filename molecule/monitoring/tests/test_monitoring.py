"""Three hosts are watched by one of them: real Prometheus, Alertmanager and exporters of Debian."""

from __future__ import annotations

import html
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import rules_file

from lab.config import STATE
from tests.support.alert_cases import SETTINGS, cases, promtool_tests
from tests.support.browser import browser, drawn, forwarded, opened

testinfra_hosts = ["ssh://node1"]
GUIDE = Path(__file__).parents[3] / "docs/guides/monitoring.md"
PANELS = Path(__file__).parents[3] / "plugins/plugin_utils/monitoring/panels.yml"
PAGES = yaml.safe_load(PANELS.read_text(encoding="utf-8"))
# The hosts are bare: they have neither a driver, nor Ray, nor a probe, nor a model, and there is no gateway.
ABSENT = {"gpu", "ray", "probe", "gateway", "model"}
WINDOW = (1280, 920)


def get(host: Any, path: str, port: int = 9090) -> str:
    return str(
        host.check_output(
            f"python3 -c \"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{port}{path}').read().decode())\""
        )
    )


def query(host: Any, expr: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(get(host, "/api/v1/query?query=" + quote(expr, safe="")))["data"]["result"]
    return found


def test_three_hosts_are_watched(host: Any) -> None:
    assert host.check_output("hostname") == "node1"
    found = {
        (sample["metric"]["host"], sample["metric"]["deployment"], sample["value"][1])
        for sample in query(host, 'up{job="node"}')
    }
    assert found == {("node1", "tiny_split", "1"), ("node2", "tiny_split", "1"), ("node3", "tiny_single", "1")}


def test_the_names_of_two_releases_become_one(host: Any) -> None:
    # A rate is right once there are figures of the whole two minutes that it is taken over.
    began = 'count(up{job="vllm"} offset 2m) == 2'
    deadline = time.monotonic() + 180
    while not query(host, began):
        assert time.monotonic() < deadline
        time.sleep(2)
    for deployment, release in (("tiny_split", "0.8.5"), ("tiny_single", "0.32.0")):
        of_it = f'{{deployment="{deployment}"}}'
        assert [sample["value"][1] for sample in query(host, "llm:kv_cache_usage_ratio" + of_it)] == ["0.4"], release
        (rate,) = query(host, "llm:generation_tokens:rate2m" + of_it)
        assert 15 < float(rate["value"][1]) < 25, release
        assert len(query(host, "llm:inter_token_latency_seconds:p95" + of_it)) == 1, release


def test_a_start_that_was_not_as_planned_raises_an_alert(host: Any) -> None:
    (planned,) = query(host, "llm_planned_kv_cache_tokens")
    assert (planned["metric"]["deployment"], planned["value"][1]) == ("tiny_split", "15072000")
    assert len(query(host, "llm_measured_rank_bytes")) == 4
    found = {sample["metric"]["deployment"] for sample in query(host, 'ALERTS{alertname="PlanMissed"}')}
    assert found == {"tiny_split"}


@pytest.mark.parametrize(
    ("page", "panel"),
    [(page["page"], panel) for page in PAGES for panel in page["panels"]],
    ids=lambda value: str(value)[:40],
)
def test_a_panel_has_data_or_a_reason(host: Any, page: str, panel: dict[str, Any]) -> None:
    # Of what has happened: the drill of side_effect.yml is over, requests are counted all the time.
    count = len(query(host, panel["expr"]))
    if panel.get("without") in ABSENT or panel["title"] == "alerts_firing":
        return
    assert count > 0, f"{page}: {panel['expr']}"


@pytest.fixture(scope="module")
def prometheus() -> Iterator[str]:
    with forwarded(STATE / "ssh/config", "node1", 9090) as address:
        yield address


@pytest.mark.parametrize("page", [page["page"] for page in PAGES])
def test_a_page_is_shown(host: Any, prometheus: str, page: str, tmp_path: Path) -> None:
    assert host.check_output("hostname") == "node1"
    assert browser(), "prepare.yml installs one"
    url = f"{prometheus}/consoles/{page}.html"
    text = opened(url, tmp_path, "--dump-dom")
    panels = next(entry["panels"] for entry in PAGES if entry["page"] == page)
    titles = re.findall(r"<section><h2><a [^>]*>([^<]+)</a></h2>", text)
    assert list(map(html.unescape, titles)) == [message("panel_" + panel["title"], "en") for panel in panels]
    assert "error executing template" not in text
    without = sum(panel.get("without") in ABSENT for panel in panels)
    assert text.count("No data.") >= without
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
    assert get(host, "/-/ready", int(source["datasources"][0]["url"].rpartition(":")[2]))
    provider = yaml.safe_load(host.check_output("cat /etc/llm-monitoring/grafana/dashboards/llm.yml"))["providers"][0]
    assert len(host.check_output(f"ls {provider['options']['path']}/*.json").split()) == len(PAGES)
    for name in ("node1", "node2", "node3"):
        vector = yaml.safe_load(on(host, name).check_output("cat /etc/llm-logs/vector.yaml"))
        assert f'.llm_host = "{name}"' in vector["transforms"]["named"]["source"]
        assert vector["sinks"]["site"]["endpoint"] == "http://192.0.2.40:3100"


def test_the_webhook_got_the_alerts_of_the_drill(host: Any) -> None:
    messages = [json.loads(line) for line in host.check_output("cat /root/alerts.json").splitlines()]
    alerts = [
        alert for message in messages for alert in message["alerts"] if alert["labels"]["alertname"] == "HostDown"
    ]
    states = {(alert["labels"]["host"], alert["status"]) for alert in alerts}
    assert states >= {("node2", "firing"), ("node2", "resolved")}
    assert host.file("/etc/llm-monitoring/secrets/hook").mode == 0o640
    assert "8000/hook" not in host.check_output("cat /etc/llm-monitoring/alertmanager.yml"), (
        "an address may be a secret"
    )


def test_an_exporter_costs_little(host: Any) -> None:
    """At most 100 MB, and 1 % of a core where it is asked every 10 s; here it is asked twice as often."""
    pid = host.check_output("systemctl show --property=MainPID --value prometheus-node-exporter")

    def seconds() -> float:
        fields = host.check_output(f"cat /proc/{pid}/stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    before, began = seconds(), time.monotonic()
    time.sleep(20)
    core = (seconds() - before) / (time.monotonic() - began)
    kib = int(re.search(r"VmRSS:\s+(\d+)", host.check_output(f"cat /proc/{pid}/status")).group(1))  # type: ignore[union-attr]
    print(f"{core:.4f} of a core, {kib} KiB")
    assert kib < 100_000
    assert core < 0.02


def test_a_host_that_watches_nothing_runs_only_its_exporter(host: Any) -> None:
    other = host.get_host("ssh://node2", ssh_config=host.backend.ssh_config)
    assert other.service("prometheus-node-exporter").is_running
    assert other.service("llm-textfile.timer").is_running
    assert other.service("llm-textfile.path").is_running
    assert not other.package("prometheus").is_installed


COLLECTED = "/var/log/journal/remote"
MARK = "of the test of journals"


def on(host: Any, name: str) -> Any:
    return host.get_host(f"ssh://{name}", ssh_config=host.backend.ssh_config)


def test_a_line_of_every_host_is_collected(host: Any) -> None:
    """Asked as the guide asks."""
    (asked,) = re.findall(
        r"^journalctl --directory .*_HOSTNAME=gpu02.*$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE
    )
    for name in ("node1", "node2", "node3"):
        on(host, name).check_output(f"logger --tag journals '{MARK} {name}'")
    for name in ("node1", "node2", "node3"):
        query = asked.replace("gpu02", name).replace("llm-probe", "journals").replace("--unit", "--identifier")
        deadline = time.monotonic() + 60
        while f"{MARK} {name}" not in host.check_output(query):
            assert time.monotonic() < deadline, query
            time.sleep(1)


def test_who_sends_a_journal_has_a_certificate_of_the_authority(host: Any) -> None:
    said = host.check_output("journalctl --unit llm-journal-gate --no-pager")
    assert {name for name in ("node1", "node2", "node3") if f"{name} sends its journal" in said} == {
        "node1",
        "node2",
        "node3",
    }
    other = on(host, "node2")
    address = host.check_output("ss --listening --tcp --numeric --no-header 'sport = 19532' | awk '{ print $4 }'")
    assert address.startswith("172.31."), "the management address, which is ansible_host"
    connect = f"openssl s_client -connect {address} -CAfile /etc/llm-journal/authority.pem -verify_return_error -quiet"
    request = "POST /upload HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: text/plain\\r\\nContent-Length: 0\\r\\n\\r\\n"
    # As somebody who trusts the server, with no certificate and with one that nobody has signed.
    other.check_output(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=node2 "
        "-keyout /root/own.key -out /root/own.pem 2>&1"
    )
    for mine in ("", "-cert /root/own.pem -key /root/own.key"):
        answer = other.run(f"(printf '{request}'; sleep 3) | timeout 20 {connect} {mine} 2>&1")
        assert answer.rc not in (0, 124), mine
        assert "verify return:1" in answer.stdout, "the server is the right one"
        assert "HTTP/1.1" not in answer.stdout, mine
    # With the host's own one it is let in, as far as the program that collects.
    mine = "-cert /etc/llm-journal/host.pem -key /etc/llm-journal/host.key"
    answer = other.run(f"(printf '{request}'; sleep 3) | timeout 20 {connect} {mine} 2>&1")
    assert "HTTP/1.1" in answer.stdout, answer.stdout


def test_nobody_else_reads_what_journals_are_sent_with(host: Any) -> None:
    for name in ("node1", "node2", "node3"):
        key = on(host, name).file("/etc/llm-journal/host.key")
        assert (key.user, key.group, key.mode) == ("root", "systemd-journal-remote", 0o640)
        folder = on(host, name).file("/etc/llm-journal")
        assert (folder.group, folder.mode) == ("systemd-journal-remote", 0o750)
    listening = host.check_output("ss --listening --tcp --numeric --no-header 'sport = 19533'")
    assert "127.0.0.1:19533" in listening


def test_a_host_goes_on_after_the_one_that_collects_was_away(host: Any) -> None:
    host.check_output("systemctl stop llm-journal-gate")
    other = on(host, "node2")
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
    figures = query(host, "llm_journal_received_timestamp_seconds")
    assert {sample["metric"]["sender"] for sample in figures} == {"node1", "node2", "node3"}
    on(host, "node2").check_output("systemctl stop systemd-journal-upload")
    # What was on its way has come by then.
    time.sleep(3)
    stopped = float(host.check_output("date +%s.%N"))
    deadline = time.monotonic() + 60
    # All times are written together, every few seconds where something comes.
    while not all((found := kept(host))[name] > stopped for name in ("node1", "node3")):
        for name in ("node1", "node2", "node3"):
            on(host, name).check_output("logger --tag journals 'something'")
        assert time.monotonic() < deadline
        time.sleep(2)
    assert found["node2"] < stopped
    on(host, "node2").check_output("systemctl start systemd-journal-upload")
    while kept(host)["node2"] < stopped:
        assert time.monotonic() < deadline + 60
        time.sleep(1)


def test_the_age_of_the_backup_is_a_metric(host: Any) -> None:
    folder = host.file("/var/backups/llm-monitoring")
    assert (folder.user, folder.group, folder.mode) == ("root", "prometheus", 0o750)
    (waits,) = query(host, "llm_backup_written_timestamp_seconds")
    assert waits["metric"]["host"] == "node1"
    assert 0 < time.time() - float(waits["value"][1]) < 3600, "since the folder was made"
    host.check_output("touch --date=2020-01-01 /var/backups/llm-monitoring/metrics.tar.gz")
    try:
        deadline = time.monotonic() + 60
        old = "time() - llm_backup_written_timestamp_seconds > 86400"
        while not query(host, old):
            assert time.monotonic() < deadline
            time.sleep(2)
    finally:
        host.check_output("rm /var/backups/llm-monitoring/metrics.tar.gz")


def test_a_clock_that_is_wrong_raises_the_alert_until_it_is_right(host: Any) -> None:
    """side_effect.yml makes the exporter of node3 tell another time."""
    firing = 'ALERTS{alertname="ClockSkew",alertstate="firing"}'
    deadline = time.monotonic() + 180
    while not query(host, firing):
        assert time.monotonic() < deadline
        time.sleep(2)
    assert [sample["metric"]["host"] for sample in query(host, firing)] == ["node3"]
    on(host, "node3").check_output(
        "systemctl stop drill-clock && rm /run/systemd/system/prometheus-node-exporter.service.d/drill-clock.conf "
        "/var/lib/llm-monitoring/drill-clock.prom && systemctl daemon-reload && systemctl restart prometheus-node-exporter"
    )
    deadline = time.monotonic() + 60
    while query(host, firing):
        assert time.monotonic() < deadline
        time.sleep(1)
