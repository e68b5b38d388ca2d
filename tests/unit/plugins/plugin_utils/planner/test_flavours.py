# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of a site's own, and forks with kernels of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.flavours import FLAVOURS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import releases
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

Model = Callable[[str], dict[str, Any]]
ROOT = Path(__file__).resolve().parents[5]
V100 = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}
AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}}
SMALL = {"architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 4, "vocab_size": 32000}
SMALL.update(num_attention_heads=16, intermediate_size=3072, max_position_embeddings=8192, torch_dtype="float16")


def start(config: dict[str, Any], version: str, **settings: Any) -> dict[str, Any]:
    return predict_start(config, [V100], {"vllm_version": version, "max_model_len": 4096, "dtype": "half", **settings})


def test_a_fork_has_kernels_of_its_own() -> None:
    own = {**SMALL, **AWQ}
    assert not start(own, "0.19.1")["ok"]
    for flavour in FLAVOURS:
        found = start(own, "0.21.0", flavour=flavour)
        assert (found["ok"], found["verdict"]) == (True, "not_verified")
        assert flavour in found["margin"]["reason"]


def test_a_fork_serves_no_other_gpus() -> None:
    turing = {"name": "Tesla T4", "memory_mib": 15360, "compute_capability": "7.5"}
    settings = {"vllm_version": "0.21.0", "max_model_len": 4096, "dtype": "half", "flavour": "1cat-1.2"}
    assert predict_start({**SMALL}, [turing], settings)["error"] is None  # 7.0 code runs on 7.5
    ampere = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}
    assert predict_start({**SMALL}, [ampere], settings)["error"]["code"] == "gpu_not_supported"


@pytest.mark.parametrize(("flavour", "ok"), [("1cat-0.0", False), ("1cat-1.0", True)])
def test_what_a_fork_lacks_is_refused(flavour: str, ok: bool) -> None:
    assert start(SMALL, "0.21.0", flavour=flavour, kv_cache_dtype="fp8")["ok"] is ok


def test_an_unknown_fork_is_refused() -> None:
    with pytest.raises(InputError, match=r"1cat-1\.2"):
        start(SMALL, "0.21.0", flavour="mine")


@examples(40)
@given(st.sampled_from(releases()), st.sampled_from([{"compute_capabilities": ["7.0"]}, {"flavour": "1cat-1.2"}]))
def test_no_other_release_takes_the_place_of_an_own_build(version: str, own: dict[str, Any]) -> None:
    config = {**SMALL, "architectures": ["Qwen3ForCausalLM"]}
    found = start(config, version, **own)
    assert "vllm_version" not in found["change"]
    assert "gpu_not_supported" not in [error["code"] for error in found["errors"]]
    plan = plan_deployment(config, [{"host": "a", "gpus": [V100]}], {"vllm_version": version, **own})
    assert not [one for one in plan["alternatives"] if "vllm_version" in str(one["change"])]


def test_the_role_knows_the_forks() -> None:
    specs = yaml.safe_load((ROOT / "roles/vllm/meta/argument_specs.yml").read_text(encoding="utf-8"))
    assert specs["argument_specs"]["main"]["options"]["vllm_flavour"]["choices"] == list(FLAVOURS)
    for page in ("docs/guides/v100.md", "docs/zh/guides/v100.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert all(f"`{name}`" in text for name in FLAVOURS)
