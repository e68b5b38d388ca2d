# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models that see: the weights of the encoder, the largest image in the profile run, and what is not known of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import entries
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

DATA = Path(__file__).resolve().parents[5] / "tests" / "data"
H100 = {"name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "compute_capability": "9.0"}
TEXT = {"limit_mm_per_prompt": {"image": 0, "video": 0}}


def catalogue(name: str) -> dict[str, Any]:
    return dict(next(entry.config for entry in entries() if entry.model == name))


def start(config: dict[str, Any], version: str = "0.33.0", count: int = 1, **settings: Any) -> dict[str, Any]:
    asked = {"vllm_version": version, "tensor_parallel_size": count, "max_model_len": 8192, **settings}
    return predict_start(config, [H100] * count, asked)


def test_a_published_start_has_these_weights() -> None:
    """Qwen2.5-VL-72B on four ranks: 34.43 GiB, says its log (vllm-project/vllm, issue 16570)."""
    reports = json.loads((DATA / "planner" / "reports.json").read_text(encoding="utf-8"))
    report = next(one for one in reports if one["id"] == "qwen25vl-72b-a100-40")
    base = json.loads((DATA / "models" / f"{report['config']}.json").read_text(encoding="utf-8"))
    found = start({**base, **report["overrides"]}, "0.8.4", 4)
    assert found["ranks"][0]["weights_gib"] == pytest.approx(34.43, rel=0.002)


def text_model(kind: str, hidden: int, inner: int, layers: int, heads: int, words: int, **more: Any) -> dict[str, Any]:
    sizes = {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }
    return {"model_type": kind, **sizes, "vocab_size": words, "max_position_embeddings": 131072, **more}


def encoder(hidden: int, inner: int, layers: int, image: int, patch: int, **more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers}
    return {**sizes, "image_size": image, "patch_size": patch, **more}


MISTRAL = text_model("mistral", 5120, 32768, 40, 32, 131072, num_key_value_heads=8, head_dim=128)
NEMO = text_model("mistral", 5120, 14336, 40, 32, 131072, num_key_value_heads=8, head_dim=128)
QWEN = text_model("qwen2", 3584, 18944, 28, 28, 151674, num_key_value_heads=4, architectures=["Qwen2ForCausalLM"])
SCOUT = text_model(
    *("llama4_text", 5120, 8192, 48, 40, 202048),
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size_mlp=16384,
    num_local_experts=16,
    num_experts_per_tok=1,
)
WHISPER = {
    "architectures": ["WhisperForConditionalGeneration"],
    "model_type": "whisper",
    "torch_dtype": "float16",
    "vocab_size": 51866,
    "d_model": 1280,
    "num_hidden_layers": 32,
    "encoder_layers": 32,
    "encoder_ffn_dim": 5120,
    "encoder_attention_heads": 20,
    "num_mel_bins": 128,
    "decoder_layers": 32,
    "decoder_ffn_dim": 5120,
    "decoder_attention_heads": 20,
    "max_target_positions": 448,
}


def seeing(name: str, kind: str, text: dict[str, Any], vision: dict[str, Any]) -> dict[str, Any]:
    inner = "llm_config" if kind == "internvl_chat" else "text_config"
    return {
        "architectures": [name],
        "model_type": kind,
        "torch_dtype": "bfloat16",
        inner: text,
        "vision_config": vision,
    }


def test_the_weights_are_those_of_so_many_parameters() -> None:
    """As the makers' pages say, in billions: 24.01, 12.68, 7.94, 108.64 and 1.54."""
    wanted = (
        (seeing("Mistral3ForConditionalGeneration", "mistral3", MISTRAL, encoder(1024, 4096, 24, 1540, 14)), 24.01, 1),
        (seeing("PixtralForConditionalGeneration", "pixtral", NEMO, encoder(1024, 4096, 24, 1024, 16)), 12.68, 1),
        (seeing("InternVLChatModel", "internvl_chat", QWEN, encoder(1024, 4096, 24, 448, 14)), 7.94, 1),
        (seeing("Llama4ForConditionalGeneration", "llama4", SCOUT, encoder(1408, 5632, 34, 336, 14)), 108.64, 8),
        (WHISPER, 1.54, 1),
    )
    for config, billions, count in wanted:
        found = start(config, "0.12.0", count, max_model_len=448, trust_remote_code=True)
        held = found["ranks"][0]["weights_gib"] * count * (1 << 30) / 2e9
        assert held == pytest.approx(billions, rel=0.015), config["architectures"]
        assert found["verdict"] != "not_verified", config["architectures"]


def test_v0_encodes_an_item_for_every_sequence() -> None:
    """As Llama 3.2 Vision and Whisper fail with their defaults, and start with fewer sequences (later_reports.json)."""
    taken = {
        seqs: start(WHISPER, "0.8.5", max_model_len=448, max_num_seqs=seqs)["ranks"][0]["activation_gib"]
        for seqs in (64, 256)
    }
    assert taken[256] == pytest.approx(4 * taken[64], rel=0.01)
    by_batch = start(WHISPER, "0.12.0", max_model_len=448, max_num_seqs=256)["ranks"][0]["activation_gib"]
    assert by_batch < taken[64]


@pytest.mark.parametrize("name", ["Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-35B-A3B", "Qwen/Qwen3.5-9B"])
def test_text_alone_takes_less(name: str) -> None:
    both, text = start(catalogue(name), count=2), start(catalogue(name), count=2, **TEXT)
    assert both["verdict"] == text["verdict"] == "starts"
    assert both["ranks"][0]["weights_gib"] == text["ranks"][0]["weights_gib"]
    assert both["margin"]["uncertainty_gib"] > text["margin"]["uncertainty_gib"] + 1
    assert both["margin"]["spare_gib"] <= text["margin"]["spare_gib"]


@examples(40)
@given(st.integers(8, 16), st.integers(0, 16), st.sampled_from(["Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-9B"]))
def test_larger_images_never_take_less(size: int, more: int, name: str) -> None:
    """From where one image fills a batch: of smaller ones several are profiled, as many as whole ones fit."""

    def taken(pixels: int) -> tuple[float, float]:
        found = start(catalogue(name), count=2, mm_processor_kwargs={"max_pixels": pixels << 20})
        return found["ranks"][0]["activation_gib"], found["margin"]["uncertainty_gib"]

    small, large = taken(size), taken(size + more)
    assert small[0] <= large[0]
    assert small[1] <= large[1]


def test_only_the_first_stage_sees() -> None:
    settings = {"pipeline_parallel_size": 2, "tensor_parallel_size": 1}
    found = predict_start(
        catalogue("Qwen/Qwen3.5-9B"), [H100] * 2, {"vllm_version": "0.33.0", "max_model_len": 8192, **settings}
    )
    plain = predict_start(
        {**catalogue("Qwen/Qwen3.5-9B"), "vision_config": None},
        [H100] * 2,
        {"vllm_version": "0.33.0", "max_model_len": 8192, **settings},
    )
    assert found["ranks"][0]["weights_gib"] > plain["ranks"][0]["weights_gib"] + 0.5
    assert found["ranks"][1] == plain["ranks"][1]


def test_an_item_of_gemma_4_is_one_batch() -> None:
    found = start(catalogue("google/gemma-4-26B-A4B"), max_num_batched_tokens=512, max_num_seqs=16)
    assert "2496 tokens" in found["error"]["message"]
    assert found["change"] == {"max_num_batched_tokens": None}
    assert start(catalogue("google/gemma-4-26B-A4B"), max_num_batched_tokens=512, max_num_seqs=16, **TEXT)["ok"]


def test_an_encoder_of_which_nothing_is_known() -> None:
    found = start(catalogue("meta-llama/Llama-4-Scout-17B-16E-Instruct"), count=8)
    assert found["verdict"] == "not_verified"
    assert "image encoder" in found["margin"]["reason"]
    without = start({**catalogue("Qwen/Qwen3.5-9B"), "vision_config": None})
    assert without["verdict"] == "not_verified"
