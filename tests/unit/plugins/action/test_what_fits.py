# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/catalogue.yml, as people call it: without an inventory, and with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.playbooks import playbook

pytestmark = pytest.mark.slow
ONE_MODEL = ("-e", "llm_model=Qwen/Qwen2.5-14B-Instruct")


def test_a_fleet_of_the_command_line() -> None:
    run = playbook(
        "playbooks/catalogue.yml", "-i", "localhost,", "-e", "llm_fleet=3 x 2 Tesla V100-PCIE-16GB", *ONE_MODEL
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 hosts with 2 x Tesla V100-PCIE-16GB each (gpu01, gpu02, gpu03), vLLM 0.8.5.post1" in run.stdout
    assert "Qwen/Qwen2.5-14B-Instruct  float16    27.6 GiB  6 on 3 hosts" in run.stdout
    assert "Qwen/Qwen2.5-14B-Instruct by engine and format" in run.stdout
    assert "\nllama.cpp             Q8_0 " in run.stdout
    assert "changed=0" in run.stdout


def test_the_fleet_of_an_inventory_in_chinese(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        """
all:
  vars: {llm_language: zh}
  children:
    llm_deployments:
      children:
        qwen: {hosts: {gpu01: , gpu02: }}
  hosts:
    gpu01: {llm_gpus: 2 x RTX 4090}
    gpu02: {llm_gpus: [{name: Some card, memory_mib: 24576, compute_capability: "8.9"}]}
    other: {llm_gpus: 1 x T4}
"""
    )
    run = playbook("playbooks/catalogue.yml", "-i", inventory, "--check", *ONE_MODEL, "-e", "llm_language=zh")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "gpu01，2 x NVIDIA GeForce RTX 4090，vLLM" in run.stdout
    assert "gpu02，1 x Some card，vLLM" in run.stdout
    assert "T4" not in run.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-e", "llm_fleet=2 x RTX 4090"], "write '1 x 2 RTX 4090' for one host"),
        (["-e", "llm_fleet=1 x 1 RTX 4090 + 1 x 1 GTX 1080"], "the table of cards has no 'GTX 1080'"),
        ([], "No GPUs are known"),
        (
            ["-e", "llm_fleet=1 x 1 T4", "-e", "llm_model=Qwen/Qwen2.5-14"],
            "The catalogue has no model Qwen/Qwen2.5-14.",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(arguments: list[str], said: str) -> None:
    run = playbook("playbooks/catalogue.yml", "-i", "localhost,", *arguments)
    assert run.returncode != 0
    assert said in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
