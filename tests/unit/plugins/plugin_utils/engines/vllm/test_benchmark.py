"""vLLM's own benchmark."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections

from tests.support.deployments import deployment, member


def test_the_benchmark_finds_server_model_and_key() -> None:
    found = host_sections(member(executor="mp", vllm_version="0.11.0"))["vllm"]["benchmark"]
    assert not found["problem"]
    assert found["command"] == [
        *("docker", "run", "--rm", "--interactive", "--name=llm-benchmark"),
        *("--label=baremetal.llm.deployment=tiny", "--network=host", "--userns=host", "--user=0:0"),
        *("--runtime=nvidia", "--env=NVIDIA_VISIBLE_DEVICES=all", "--env=NVIDIA_DRIVER_CAPABILITIES=utility"),
        *("--cap-drop=ALL", "--security-opt=no-new-privileges", "--env=HOME=/tmp", "--env=HF_HUB_OFFLINE=1"),
        *("--memory=8g", "--pids-limit=65536"),
        *("--volume=/opt/llm/secrets:/run/secrets:ro", "--volume=/opt/llm/models:/opt/llm/models:ro"),
        *("--entrypoint=/bin/bash", "image:1", "-s", "--", "1800", "/run/secrets/vllm_api_key"),
        *("--base-url=http://10.0.0.1:8000", "--model=lab/tiny", "--tokenizer=/opt/llm/models/lab--tiny"),
        *("--dataset-name=random", "--random-input-len=512", "--random-output-len=128", "--ignore-eos"),
        *("--num-prompts=64", "--max-concurrency=8", "--percentile-metrics=ttft,itl", "--metric-percentiles=99"),
        "--disable-tqdm",
    ]


def test_without_containers_it_is_a_unit_of_the_user_of_the_server() -> None:
    made = member(executor="mp", vllm_version="0.11.0", vllm_runtime="venv", vllm_python="/opt/vllm/bin/python3")
    found = host_sections(made)["vllm"]["benchmark"]
    assert not found["problem"]
    command = found["command"]
    begun, asked = command[: command.index("--")], command[command.index("--") + 1 :]
    assert begun[:7] == [
        *("systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--unit=llm-benchmark", "--property=User=llm-vllm")
    ]
    assert {
        *("--property=NoNewPrivileges=yes", "--property=MemoryMax=8G", "--property=TasksMax=65536"),
        *("--property=RuntimeMaxSec=1810", "--property=Environment=HOME=/tmp", "--property=PrivateTmp=yes"),
    } <= set(begun)
    assert any(word.startswith("--property=Environment=PATH=/opt/vllm/bin:") for word in begun)
    assert asked[:5] == ["/bin/bash", "-s", "--", "1800", "/opt/llm/secrets/vllm_api_key"]
    assert "--model=lab/tiny" in asked


def test_the_benchmark_has_no_key_where_there_is_none() -> None:
    command = host_sections(member(vllm_api_key_enabled=False))["vllm"]["benchmark"]["command"]
    assert not [word for word in command if "secrets" in word]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"vllm_version": "0.8.4"}, ["0.8.4", "0.8.5 or newer"]),
        ({"vllm_options": {"runner": "pooling"}}, ["generates no text", "pooling"]),
        ({"vllm_benchmark_output_tokens": 1537}, ["2048 tokens", "value:   2049", "at most 2048 together"]),
    ],
    ids=["an old release", "embeddings", "longer than the context"],
)
def test_the_benchmark_is_refused(more: dict[str, Any], said: list[str]) -> None:
    made = deployment("mp", **{"vllm_version": "0.11.0", **more})
    made = dataclasses.replace(made, plan={**made.plan, "settings": {"max_model_len": 2048}})
    problem = host_sections(made.of("gpu1"))["vllm"]["benchmark"]["problem"]
    for part in [*said, "group_vars/tiny.yml"]:
        assert part in problem, problem
