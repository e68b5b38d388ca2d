"""What a Vector of the site is told: options that it has, and where each line is from."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.files import shipping

# The options of each component: website/cue/reference/components/{sources,transforms,sinks}/base of vectordotdev/vector (0.3x to 0.4x).
COMMON = {"type", "inputs"}
OPTIONS = {
    "journald": {"current_boot_only", "include_units", "exclude_units", "journal_directory", "since_now", "batch_size"},
    "docker_logs": {"include_containers", "exclude_containers", "include_labels", "docker_host", "auto_partial_merge"},
    "remap": {"source", "file", "drop_on_error", "drop_on_abort", "reroute_dropped", "timezone"},
    "loki": {
        "endpoint",
        "path",
        "encoding",
        "labels",
        "out_of_order_action",
        "auth",
        "tls",
        "tenant_id",
        "compression",
    },
    "elasticsearch": {"endpoints", "mode", "bulk", "auth", "tls", "api_version", "compression", "pipeline"},
}
NEEDED = {"loki": {"endpoint", "encoding", "labels"}, "elasticsearch": {"endpoints"}, "remap": {"source"}}
URL = "https://logs.example:3100"


def written(kind: str, **more: str) -> dict[str, Any]:
    said = {"monitoring_logs_kind": kind, "monitoring_logs_url": URL, **more}
    found: dict[str, Any] = yaml.safe_load(shipping("gpu01", "qwen", said))
    return found


@pytest.mark.parametrize("kind", ["loki", "elasticsearch"])
def test_every_option_is_one_that_vector_has(kind: str) -> None:
    found = written(kind, monitoring_logs_username="llm", monitoring_logs_ca_file="/etc/ssl/site.pem")
    assert set(found) == {"sources", "transforms", "sinks"}
    parts = {name: part for group in found.values() for name, part in group.items()}
    assert [part["type"] for part in parts.values()] == ["journald", "docker_logs", "remap", kind]
    for part in parts.values():
        options = set(part) - COMMON
        assert options <= OPTIONS[part["type"]]
        assert NEEDED.get(part["type"], set()) <= options
        assert set(part.get("inputs", [])) <= set(parts)
    assert parts["site"]["auth"] == {"strategy": "basic", "user": "llm", "password": "${LLM_LOGS_PASSWORD}"}
    assert parts["site"]["tls"] == {"ca_file": "/etc/ssl/site.pem"}
    assert URL in (parts["site"].get("endpoint"), *parts["site"].get("endpoints", []))


def test_labels_of_a_line_are_fields_that_are_set() -> None:
    found = written("loki")
    program = found["transforms"]["named"]["source"]
    assert '.llm_host = "gpu01"' in program
    assert '.llm_deployment = "qwen"' in program
    assert all(f".llm_{name} = " in program for name in found["sinks"]["site"]["labels"])
    assert set(found["sinks"]["site"]["labels"].values()) == {
        f"{{{{ llm_{name} }}}}" for name in ("host", "deployment", "source")
    }
    assert "auth" not in found["sinks"]["site"]


def test_nothing_is_written_where_logs_go_nowhere() -> None:
    assert shipping("gpu01", "qwen", {}) == shipping("gpu01", "qwen", {"monitoring_logs_kind": "none"}) == ""
