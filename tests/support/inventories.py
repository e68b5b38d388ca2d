"""An inventory that is right, to be broken by a test."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from hypothesis import strategies as st

KNOWN: dict[str, dict[str, Any]] = {
    "llm_bundle_dir": {"type": "path"},
    "llm_offline": {"type": "bool", "default": False},
    "llm_cluster_network": {"type": "str"},
    "llm_engine": {"type": "str", "default": "vllm"},
    "llm_container_uid": {"type": "int"},
    "llm_firewall_api_sources": {"type": "list", "elements": "str"},
    "llm_gpus": {"type": "list", "elements": "dict"},
    "llm_gpu_indices": {"type": "list", "elements": "str"},
    "llm_gpu_count": {"type": "int"},
    "vllm_collective_enabled": {"type": "bool", "default": True},
    "vllm_collective_port": {"type": "int", "default": 29502},
    "llm_language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
    "llm_foreign_variables": {"type": "list", "elements": "str"},
    "docker_version": {"type": "str"},
    "models_checks": {
        "type": "list",
        "elements": "dict",
        "options": {"name": {"type": "str", "required": True}, "count": {"type": "int"}},
    },
    "models_verify_interval": {"type": "str", "choices": ["", "daily", "weekly"], "default": ""},
    "models_source": {"type": "raw", "default": ""},
    "gateway_keys": {
        "type": "list",
        "elements": "dict",
        "options": {"name": {"type": "str", "required": True}, "key": {"type": "str"}},
    },
    "ray_head_host": {"type": "str"},
    "ray_capabilities": {"type": "list", "elements": "str"},
    "ray_environment": {"type": "dict"},
    "ray_ulimits": {"type": "list", "elements": "str"},
    "llama_cpp_environment": {"type": "dict"},
    "lmdeploy_environment": {"type": "dict"},
    "ollama_environment": {"type": "dict"},
    "sglang_environment": {"type": "dict"},
    "triton_environment": {"type": "dict"},
    "vllm_environment": {"type": "dict"},
    "web_ui_environment": {"type": "dict"},
    "vllm_model": {"type": "str", "required": True},
    "vllm_version": {"type": "str", "required": True},
    "vllm_image": {"type": "str"},
    "vllm_served_model_name": {"type": "str"},
    "vllm_port": {"type": "int", "default": 8000},
    "vllm_api_paths": {"type": "list", "elements": "str"},
    "vllm_start_timeout_seconds": {"type": "int"},
    "vllm_max_model_len": {"type": "int"},
    "vllm_gpu_memory_utilization": {"type": "float"},
    "vllm_tensor_parallel_size": {"type": "int"},
    "vllm_pipeline_parallel_size": {"type": "int"},
    "vllm_enforce_eager": {"type": "bool"},
    "vllm_executor": {"type": "str", "choices": ["auto", "ray", "mp", "uni"], "default": "auto"},
    "vllm_options": {"type": "dict", "default": {}},
    "vllm_tokenizer": {"type": "str"},
    "vllm_speculative_model": {"type": "str"},
    "vllm_lora_adapters": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"name": {"type": "str", "required": True}, "model": {"type": "str", "required": True}},
    },
    "vllm_extra_volumes": {"type": "list", "elements": "str", "default": []},
    "vllm_runtime": {"type": "str", "choices": ["container", "venv"], "default": "container"},
    "vllm_python": {"type": "path"},
    "vllm_base_python": {"type": "path", "default": "/usr/bin/python3"},
    "vllm_compute_capabilities": {"type": "list", "elements": "str"},
    "web_ui_image": {"type": "str", "default": "lab/page:0"},
    "vllm_api_key": {"type": "str", "no_log": True},
    "monitoring_mode": {"type": "str", "choices": ["full", "rules_only"], "default": "full"},
    "monitoring_grafana_image": {"type": "str", "default": ""},
    "monitoring_exporter_enabled": {"type": "bool", "default": True},
    "monitoring_gpu_exporter": {"type": "str", "choices": ["auto", "dcgm", "textfile"], "default": "auto"},
    "monitoring_dcgm_image": {"type": "str", "default": ""},
}


V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}


MANIFEST = {
    "schema": 1,
    "files": [
        {"path": "models/tiny", "kind": "model", "model": "lab/tiny-qwen2", "revision": "1"},
        {
            "path": "images.tar",
            "kind": "image",
            "images": [{"reference": "lab/vllm:1", "id": "sha256:aa", "vllm_version": "0.32.0+cpu"}],
        },
    ],
}


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


class Inventory:
    """An inventory that is right, to be broken by a test: qwen on gpu01 and gpu02, tiny on gpu03."""

    def __init__(self) -> None:
        qwen = {"vllm_model": "Qwen/Qwen2.5-14B-Instruct", "vllm_version": "0.8.5.post1"}
        tiny = {"vllm_model": "lab/tiny-qwen2", "vllm_version": "0.32.0"}
        self.hosts: dict[str, dict[str, Any]] = {"gpu01": dict(qwen), "gpu02": dict(qwen), "gpu03": dict(tiny)}
        self.groups: dict[str, dict[str, list[str]]] = {
            "all": {"hosts": ["gpu01", "gpu02", "gpu03"], "children": ["ungrouped", "llm_deployments"]},
            "llm_deployments": {"hosts": ["gpu01", "gpu02", "gpu03"], "children": ["qwen", "tiny"]},
            "qwen": {"hosts": ["gpu01", "gpu02"], "children": []},
            "tiny": {"hosts": ["gpu03"], "children": []},
        }
        self.more: dict[str, Any] = {}

    def set(self, *hosts: str, **variables: Any) -> Inventory:
        for host in hosts or self.hosts:
            self.hosts[host].update(variables)
        return self

    def check(self) -> dict[str, Any]:
        before = copy.deepcopy(self.hosts)
        found = check_inventory(self.hosts, self.groups, KNOWN, **self.more)
        assert self.hosts == before, "the input is left alone"
        in_chinese = check_inventory(self.hosts, self.groups, KNOWN, **self.more, lang="zh")
        assert [entry["code"] for entry in in_chinese["problems"]] == [entry["code"] for entry in found["problems"]]
        return found

    def problems(self) -> list[dict[str, str]]:
        return list(self.check()["problems"])

    def codes(self) -> list[str]:
        return [entry["code"] for entry in self.problems()]

    def only(self) -> dict[str, str]:
        problems = self.problems()
        assert len(problems) == 1, problems
        return problems[0]
