"""Rules that Prometheus's own tool accepts and evaluates: one name for each release's metrics, and alerts that have a runbook."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring import configuration
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.consoles import pages
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import (
    alert_name,
    alert_rules,
    recording_rules,
    rules_file,
    table,
    vllm_metrics,
)

REPOSITORY = Path(__file__).resolve().parents[5]
RUNBOOKS = [REPOSITORY / "docs" / folder / "alerts.md" for folder in ("runbooks", "zh/runbooks")]
SETTINGS = {"first_token_seconds": 5, "runbook_url": "https://example.com/alerts.md"}
RELEASES = table("vllm_metrics.yml")["releases"]
ALERTS = table("alerts.yml")
needs_promtool = pytest.mark.skipif(
    not shutil.which("promtool"),
    reason="no promtool on this machine (Debian's package prometheus); the scenario monitoring runs it on its host",
)


def served_names(metric: dict[str, Any], release: str) -> list[str]:
    """The names of a metric in a release; none where the release does not have it."""
    at = RELEASES.index(release)
    return [
        entry["name"]
        for entry in metric["names"]
        if RELEASES.index(entry["first"]) <= at <= RELEASES.index(entry.get("last", RELEASES[-1]))
    ]


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60)
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
    assert served_names(dict(vllm_metrics()[ours]), release) == names


@pytest.mark.parametrize("ours", sorted(vllm_metrics()))
def test_every_release_since_the_first_has_a_name(ours: str) -> None:
    metric = vllm_metrics()[ours]
    since = min(RELEASES.index(entry["first"]) for entry in metric["names"])
    assert [release for release in RELEASES[since:] if not served_names(dict(metric), release)] == []
    assert "engine" not in str(metric.get("fold"))


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


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["name"])
def test_an_alert_links_to_a_section_of_the_runbook(alert: dict[str, Any]) -> None:
    for runbook in RUNBOOKS:
        headings = re.findall(r"^## (\w+)$", runbook.read_text(encoding="utf-8"), re.MULTILINE)
        assert alert_name(alert["name"]) in headings
        assert len(headings) == len(ALERTS)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_alert_names_what_it_is_about(lang: str) -> None:
    (rule,) = [rule for rule in alert_rules(SETTINGS, lang) if rule["alert"] == "HostDown"]
    assert "{{ $labels.host }}" in rule["annotations"]["summary"]
    assert rule["annotations"]["runbook_url"] == "https://example.com/alerts.md#hostdown"
    assert "@" not in str([rule["expr"] for rule in alert_rules(SETTINGS, lang)])


@needs_promtool
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_promtool_accepts_the_rules(lang: str, tmp_path: Path) -> None:
    path = tmp_path / "llm.yml"
    path.write_text(yaml.safe_dump(rules_file(SETTINGS, lang), allow_unicode=True))
    promtool("check", "rules", str(path))


@needs_promtool
def test_promtool_accepts_what_the_panels_ask(tmp_path: Path) -> None:
    asked = [{"record": "panel", "expr": panel["expr"]} for page in pages() for panel in page["panels"]]
    # Each with a label of its own: the same rule twice is a finding.
    rules = [{**rule, "labels": {"number": str(number)}} for number, rule in enumerate(asked)]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(tmp_path / "panels.yml"))


@needs_promtool
def test_promtool_accepts_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration.prometheus(str(tmp_path), 15, "127.0.0.1:9093", "127.0.0.1:9090")))
    promtool("check", "config", str(path))


PROBE = 'container="llm-vllm",deployment="qwen",host="gpu01"'
SERVER = 'deployment="qwen",host="gpu01",model_name="m"'
NODE = 'job="node",host="gpu01",deployment="qwen",instance="gpu01:9100"'


def series(**values: str) -> list[dict[str, str]]:
    return [{"series": name, "values": value} for name, value in values.items()]


def case(minutes: str, given: dict[str, str], alert: str, labels: dict[str, str] | None) -> dict[str, Any]:
    """At this time the alert fires with these labels, or not at all."""
    rule = next(rule for rule in alert_rules(SETTINGS) if rule["alert"] == alert)
    expected = []
    if labels is not None:
        summary = rule["annotations"]["summary"]
        for name, value in labels.items():
            summary = summary.replace("{{ $labels." + name + " }}", value)
        annotations = {**rule["annotations"], "summary": summary}
        expected = [{"exp_labels": {**rule["labels"], **labels}, "exp_annotations": annotations}]
    return {
        "interval": "15s",
        "input_series": series(**given),
        "alert_rule_test": [{"eval_time": minutes, "alertname": alert, "exp_alerts": expected}],
    }


UP = {"job": "node", "host": "gpu01", "deployment": "qwen", "instance": "gpu01:9100"}
HEAD = '{deployment="qwen",host="gpu01"}'
PLAN = {
    "llm_planned_kv_cache_tokens" + HEAD: "100000x200",
    'llm_planned_rank_bytes{deployment="qwen",host="gpu01",rank="0",part="weights"}': "2000000000x200",
    'llm_measured_rank_bytes{deployment="qwen",host="gpu01",rank="0",part="weights"}': "2100000000x200",
}
GPU = {"host": "gpu01", "gpu": "0"}
FALLEN = {"host": "gpu01", "pci_bus_id": "0000:3b:00", "xid": "79"}
XID = 'llm_gpu_xid_timestamp_seconds{host="gpu01",pci_bus_id="0000:3b:00",xid="79"}'
IMAGES = {
    f'llm_container_info{{deployment="qwen",host="gpu0{n}",container="llm-vllm",image="sha256:{n}"}}': "1x100"
    for n in (1, 2)
}
CASES = {
    "a host that stops is told after 45 s": case("1m45s", {f"up{{{NODE}}}": "1 1 1 1 0x20"}, "HostDown", UP),
    "a host that is back is forgotten at once": case("2m", {f"up{{{NODE}}}": "1 1 0 0 0 0 1x20"}, "HostDown", None),
    "one missed answer is nothing": case("1m15s", {f"up{{{NODE}}}": "1 1 1 1 1 0 1x20"}, "HostDown", None),
    "a server that gives no metrics": case(
        "3m",
        {'up{job="vllm",instance="gpu01:8000"}': "0x20"},
        "TargetMissing",
        {"job": "vllm", "instance": "gpu01:8000"},
    ),
    "an api that does not answer": case(
        "3m",
        {'probe_success{job="api",deployment="qwen"}': "0x20"},
        "DeploymentNotReady",
        {"job": "api", "deployment": "qwen"},
    ),
    "no token for half a minute": case(
        "1m30s",
        {f"llm_probe_failures{{{PROBE}}}": "0 0 0 0 1 2 3x20", f"llm_probe_restarts{{{PROBE}}}": "0x30"},
        "GenerationDead",
        {"container": "llm-vllm", "deployment": "qwen", "host": "gpu01"},
    ),
    "a token after a restart": case(
        "3m",
        {f"llm_probe_failures{{{PROBE}}}": "0 1 2 3 0x30", f"llm_probe_restarts{{{PROBE}}}": "0 0 0 0 1 1 0x30"},
        "GenerationDead",
        None,
    ),
    "restarts that help nothing": case(
        "2m",
        {f"llm_probe_starts{{{PROBE}}}": "1 2 3x30"},
        "RestartLoop",
        {"container": "llm-vllm", "deployment": "qwen", "host": "gpu01"},
    ),
    "a full cache and a queue, by the old name": case(
        "10m",
        {f"vllm:gpu_cache_usage_perc{{{SERVER}}}": "1x60", f"vllm:num_requests_waiting{{{SERVER}}}": "3x60"},
        "KvCacheFull",
        {"deployment": "qwen", "host": "gpu01"},
    ),
    "a full cache and a queue, by the new name": case(
        "10m",
        {f"vllm:kv_cache_usage_perc{{{SERVER}}}": "1x60", f"vllm:num_requests_waiting{{{SERVER}}}": "3x60"},
        "KvCacheFull",
        {"deployment": "qwen", "host": "gpu01"},
    ),
    "a full cache without a queue": case(
        "10m",
        {f"vllm:kv_cache_usage_perc{{{SERVER}}}": "1x60", f"vllm:num_requests_waiting{{{SERVER}}}": "0x60"},
        "KvCacheFull",
        None,
    ),
    "a plan that held": case("30m", PLAN | {"llm_measured_kv_cache_tokens" + HEAD: "95000x200"}, "PlanMissed", None),
    "a cache that is smaller than planned": case(
        "30m",
        PLAN | {"llm_measured_kv_cache_tokens" + HEAD: "80000x200"},
        "PlanMissed",
        {"deployment": "qwen", "host": "gpu01"},
    ),
    "a rank that needs more than planned": case(
        "30m",
        PLAN | {'llm_measured_rank_bytes{deployment="qwen",host="gpu01",rank="1",part="weights"}': "4000000000x200"},
        "PlanMissed",
        {"deployment": "qwen", "host": "gpu01", "part": "weights"},
    ),
    "a start that took longer than weights and disk explain": case(
        "30m",
        {f"llm_probe_start_seconds{{{PROBE}}}": "400x200", f"llm_probe_start_expected_seconds{{{PROBE}}}": "300x200"},
        "PlanMissed",
        {"container": "llm-vllm", "deployment": "qwen", "host": "gpu01"},
    ),
    "fewer gpus than before": case("10m", {'llm_gpus{host="gpu01"}': "2x10 1x60"}, "GpuLost", {"host": "gpu01"}),
    "fewer pcie lanes": case(
        "15m",
        {
            'DCGM_FI_DEV_PCIE_LINK_WIDTH{host="gpu01",gpu="0"}': "8x100",
            'DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH{host="gpu01",gpu="0"}': "16x100",
        },
        "GpuLinkNarrow",
        GPU,
    ),
    "two versions of the driver": case(
        "15m",
        {
            'llm_nvidia_driver_info{deployment="qwen",host="gpu01",version="535.1"}': "1x100",
            'llm_nvidia_driver_info{deployment="qwen",host="gpu02",version="570.1"}': "1x100",
        },
        "DriverMismatch",
        {"deployment": "qwen"},
    ),
    "a gateway that does not answer": case(
        "3m",
        {'probe_success{job="gateway",host="gate"}': "0x20"},
        "GatewayNotReady",
        {"job": "gateway", "host": "gate"},
    ),
    "a certificate that ends in ten days": case(
        "90m", {'probe_ssl_earliest_cert_expiry{instance="g"}': "864000x400"}, "CertificateExpiring", {"instance": "g"}
    ),
    "a certificate that ends in a month": case(
        "90m", {'probe_ssl_earliest_cert_expiry{instance="g"}': "2592000x400"}, "CertificateExpiring", None
    ),
    "an error that the driver logged": case("10m", {XID: "300x100"}, "GpuXid", FALLEN),
    "an error of half an hour ago": case("35m", {XID: "300x200"}, "GpuXid", None),
    "memory errors that cannot be corrected": case(
        "1m", {'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{host="gpu01",gpu="0"}': "1x20"}, "GpuEccErrors", GPU
    ),
    "clocks that heat lowers": case("10m", {'llm_gpu_throttled{host="gpu01",gpu="0"}': "1x60"}, "GpuThrottled", GPU),
    "two images": case("15m", IMAGES, "ImageMismatch", {"deployment": "qwen", "container": "llm-vllm"}),
    "one image on every host": case("15m", dict(list(IMAGES.items())[:1]), "ImageMismatch", None),
    "two states of a model": case(
        "15m",
        {f'llm_model_info{{deployment="qwen",host="gpu0{n}",model="lab--tiny",digest="{n}"}}': "1x100" for n in (1, 2)},
        "ModelMismatch",
        {"deployment": "qwen", "model": "lab--tiny"},
    ),
    "a file that the disk changed": case(
        "1m",
        {'llm_model_damaged_files{host="gpu01",model="lab--tiny"}': "1x20"},
        "ModelDamaged",
        {"host": "gpu01", "model": "lab--tiny"},
    ),
    "a bundle of last year": case(
        "90m",
        {'llm_bundle_written_timestamp_seconds{host="gpu01"}': f"-{200 * 86400}x400"},
        "BundleOld",
        {"host": "gpu01"},
    ),
    "a clock that is behind": case(
        "5m", {'node_time_seconds{host="gpu01"}': "-60+15x40"}, "ClockSkew", {"host": "gpu01"}
    ),
    "a disk that is nearly full": case(
        "10m",
        {
            'node_filesystem_avail_bytes{host="gpu01",mountpoint="/",fstype="ext4"}': "5x60",
            'node_filesystem_size_bytes{host="gpu01",mountpoint="/",fstype="ext4"}': "100x60",
            'node_filesystem_readonly{host="gpu01",mountpoint="/",fstype="ext4"}': "0x60",
        },
        "DiskFilling",
        {"host": "gpu01", "mountpoint": "/", "fstype": "ext4"},
    ),
}


@needs_promtool
@pytest.mark.parametrize("name", CASES)
def test_promtool_evaluates(name: str, tmp_path: Path) -> None:
    (tmp_path / "llm.yml").write_text(yaml.safe_dump(rules_file(SETTINGS)))
    test = {"rule_files": ["llm.yml"], "evaluation_interval": "15s", "tests": [CASES[name]]}
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump(test))
    promtool("test", "rules", str(path))
