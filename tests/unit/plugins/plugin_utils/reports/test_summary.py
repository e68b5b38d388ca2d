"""The report at the end of a playbook."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.summary import Run, report_lines

SERVING: dict[str, Any] = {
    "url": "http://10.0.0.1:8000",
    "model": "tiny",
    "prompt": "Hello",
    "answer": " world",
    "tokens": 1,
    "ranks": ["b", "a"],
}
PLAN: dict[str, Any] = {
    "settings": {"tensor_parallel_size": 1, "pipeline_parallel_size": 2},
    "executor": "ray",
    "predicted": {"kv_cache_tokens": 1000},
}
STAGES = [{"name": "plan", "started": 10.0}, {"name": "serve", "started": 12.0}, {"name": "report", "started": 73.4}]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_shows_answer_and_ranks(language: str) -> None:
    text = "\n".join(
        report_lines(
            Run(
                stages=STAGES,
                deployments={"d": {"hosts": ["a", "b"], "head": "a"}},
                plans={"d": PLAN},
                serving={"a": SERVING},
            ),
            language,
        )
    )
    for part in ("' world'", "http://10.0.0.1:8000", "1,000"):
        assert part in text


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ({"vllm_version": "0.8.5"}, "tiny with vLLM 0.8.5 on"),
        ({"engine": "llama_cpp", "llama_cpp_version": "b9603"}, "tiny with llama.cpp b9603 on"),
        ({"engine": "triton", "triton_version": "26.08", "vllm_version": "0.27.1"}, "tiny with Triton 26.08 on"),
    ],
)
def test_what_was_planned_is_said_with_its_engine(release: dict[str, str], said: str) -> None:
    plan = {**PLAN, **release, "ok": True, "model_name": "tiny"}
    lines = report_lines(Run(deployments={"d": {"hosts": ["a", "b"], "head": "a"}}, plans={"d": plan}))
    assert said in lines[0]


@pytest.mark.parametrize(
    ("predicted", "said"),
    [
        ({"ranks": [{}, {}], "kv_cache_tokens": 35860}, "plan: 2 GPUs, 35,860 tokens of KV cache expected"),
        ({"ranks": []}, "plan: what fits is not known before the start"),
    ],
)
def test_an_engine_without_parallel_sizes_has_none(predicted: dict[str, Any], said: str) -> None:
    plan = {"engine": "lmdeploy", "settings": {"tp": 2}, "executor": "uni", "ok": True, "predicted": predicted}
    text = "\n".join(report_lines(Run(deployments={"d": {"hosts": ["a"], "head": "a"}}, plans={"d": plan})))
    assert said in text
    assert "tensor parallel" not in text


@pytest.mark.parametrize("serving", [{}, {"a": SERVING}])
@pytest.mark.parametrize(("value", "named"), [(True, True), ("yes", True), (False, False), (None, False)])
def test_code_of_the_model_is_named(value: Any, named: bool, serving: dict[str, Any]) -> None:
    plan = {**PLAN, "ok": True, "settings": {**PLAN["settings"], "trust_remote_code": value}}
    text = "\n".join(
        report_lines(Run(deployments={"d": {"hosts": ["a", "b"], "head": "a"}}, plans={"d": plan}, serving=serving))
    )
    assert ("trust_remote_code is on" in text) is named


@pytest.mark.parametrize(
    ("language", "root", "renew"), [("en", "root certificate", "20 days"), ("zh", "根证书", "20 天")]
)
def test_a_gateway_is_shown_with_what_clients_need(language: str, root: str, renew: str) -> None:
    section: dict[str, Any] = {
        "url": "https://llm.example",
        "models": [{"name": "tiny", "replicas": [{"name": "a"}, {"name": "b"}]}],
        "keys": [{"name": "alice"}],
        "web_ui": {"url": "https://llm.example:8443"},
        "certificate": {"root": "/s/gateway_ca.crt", "days": 20, "certificate": "/s/gate.crt"},
    }
    text = "\n".join(report_lines(Run(gateways={"gate": section}), language))
    for part in ("https://llm.example", "https://llm.example:8443", "a, b", "alice", root, "/s/gateway_ca.crt"):
        assert part in text
    assert renew not in text, "one that is made anew by itself"
    own = {**section, "certificate": {**section["certificate"], "root": ""}}
    assert renew in "\n".join(report_lines(Run(gateways={"gate": own}), language))


def test_a_playbook_that_ends_before_serving_says_what_comes_next() -> None:
    lines = report_lines(Run(stages=[{"name": "prepare", "started": 10.0}, STAGES[-1]]))
    assert "site.yml" in lines[0]


def test_a_stage_lasts_until_the_next_begins() -> None:
    lines = report_lines(Run(stages=STAGES))
    assert [line.split() for line in lines[1:]] == [
        ["plan", "2", "s"],
        ["serve", "61", "s"],
        ["all", "of", "it", "63", "s"],
    ]


def test_a_deployment_that_does_not_serve_yet_is_named_all_the_same() -> None:
    lines = report_lines(Run(deployments={"d": {"hosts": ["a", "b"], "head": "a"}}))
    assert lines == ["Deployment d on a, b", ""]


@pytest.mark.parametrize("how", ["made", "adopted", "rotated"])
def test_new_secrets_are_named_with_their_place(how: str) -> None:
    found = [
        {"deployment": "d", "kind": kind, "how": how, "place": f"/s/d_{kind}"} for kind in ("ray_token", "api_key")
    ]
    lines = report_lines(Run(secrets=found))
    assert lines[0] == "Secrets:"
    assert ["/s/d_ray_token" in lines[1], "/s/d_api_key" in lines[2]] == [True, True]
    assert ("llm_rotate_secrets=finish" in lines[2]) is (how == "rotated")


def test_the_all_reduce_is_compared_with_the_link() -> None:
    found = {
        "backend": "gloo",
        "ranks": 2,
        "measured": "today",
        "link_mbps": 10000,
        "results": [
            {
                "bytes": size,
                "seconds": 0.001,
                "algbw_bytes_per_second": rate,
                "busbw_bytes_per_second": rate,
            }
            for size, rate in ((1024, 23e3), (16 << 20, 625e6))
        ],
    }
    text = "\n".join(report_lines(Run(deployments={"d": {"hosts": ["a"], "head": "a"}}, collective={"a": found})))
    assert "16 MiB" in text
    assert "1.000 ms" in text
    assert "625.0 MB/s" in text
    assert "algbw     0.023 MB/s" in text, "a slow start is not nothing"
    assert "at best 50 % of the slowest link's 10 Gbit/s" in text


@pytest.mark.parametrize(("backend", "compared"), [("nccl", True), ("gloo", False)])
def test_on_one_host_nccl_is_compared_with_what_joins_the_gpus(backend: str, compared: bool) -> None:
    # Measured on two H200 of one host with roles/vllm/files/collective.py.
    rate = 268435456 / 0.000904443099999952
    row = {"bytes": 256 << 20, "seconds": 0.000904443, "algbw_bytes_per_second": rate, "busbw_bytes_per_second": rate}
    found = {
        "backend": backend,
        "ranks": 2,
        "measured": "today",
        "link": "NVLink x18",
        "link_mbps": 3600000,
        "results": [row],
    }
    text = "\n".join(report_lines(Run(deployments={"d": {"hosts": ["a"], "head": "a"}}, collective={"a": found})))
    assert "256 MiB" in text
    assert ("at best 66 % of the 3600 Gbit/s of NVLink x18" in text) == compared


@pytest.mark.parametrize(
    ("ports", "network", "reason", "said"),
    [
        ("mlx5_0:1", "Socket", "NET/IB : No device found.", ["warning", "mlx5_0:1", '"NET/IB : No device found."']),
        ("mlx5_0:1", "Socket", "", ["warning", "nothing of RDMA"]),
        ("mlx5_0:1", "IB", "", ["RDMA (IB) over mlx5_0:1"]),
        ("mlx5_0:1", "", "", []),
        ("", "Socket", "NET/IB : No device found.", []),
    ],
)
def test_sockets_in_place_of_rdma_are_a_warning_with_the_reason(
    ports: str, network: str, reason: str, said: list[str]
) -> None:
    row = {"bytes": 1024, "seconds": 0.1, "algbw_bytes_per_second": 1e4, "busbw_bytes_per_second": 1e4}
    measured = {"network": network, "rdma_reason": reason, "results": [row]}
    found = {"backend": "nccl", "ranks": 2, "measured": "today", "link_rdma": ports, **measured}
    text = "\n".join(report_lines(Run(deployments={"d": {"hosts": ["a"], "head": "a"}}, collective={"a": found})))
    assert all(words in text for words in said)
    assert ("RDMA" in text) == bool(said)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_says_how_long_a_start_took_and_who_answered(language: str) -> None:
    def said(meanwhile: dict[str, list[str]], served_before: bool, first: float | None = None, kept: int = 0) -> str:
        deployments = {"d": {"hosts": ["a"], "head": "a"}}
        starts = {"a": {"seconds": 61.7, "served_before": served_before, "first": first, "kept_kib": kept}}
        return "\n".join(report_lines(Run(deployments=deployments, starts=starts, meanwhile=meanwhile), language))

    assert "62" in said({}, True)
    assert "other" in said({"d": ["other"]}, True)
    assert "other" not in said({"d": ["other"]}, False)
    assert said({}, True) != said({}, False)
    for saved in ("118", "56"):
        assert saved in said({}, True, 118.2)
    assert "12.5 MiB" in said({}, True, 118.2, 12800)
    assert "MiB" not in said({}, True, 118.2)
    slower = said({}, True, 50.0)
    assert "50" in slower
    assert "12" not in slower, "nothing was saved"


def test_the_report_says_what_measures_gpus() -> None:
    said = report_lines(Run(gpu_exporters={"nvidia-smi, since A": ["gpu01", "gpu02"]}))
    assert "GPU figures of gpu01, gpu02: nvidia-smi, since A" in said
