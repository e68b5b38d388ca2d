"""Plans for GGUF files, as templates ask for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.filter.plan_gguf import plan_gguf

from tests.support.each import check_each
from tests.support.gguf_files import write_gguf
from tests.support.gguf_models import MODELS, tensors, values

V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384}


@pytest.fixture(name="path")
def model_file(tmp_path: Path) -> Path:
    shape = MODELS["llama mixed"]
    return write_gguf(tmp_path / "m.gguf", values(shape, has_words=False), tensors(shape))


def test_a_file_is_planned(path: Path) -> None:
    plan = plan_gguf(str(path), [V100, V100], {"context": 4096}, "b11000")
    assert {
        name: plan[name]
        for name in ("architecture", "quantization", "fits", "verdict", "layers", "gpu_layers", "longest_context")
    } == {
        "architecture": "llama",
        "quantization": "Q4_K",
        "fits": True,
        "verdict": "measured",
        "layers": 6,
        "gpu_layers": 7,
        "longest_context": 32768,
    }
    assert plan["all_in_one"] == {"weights_gib": 0.235, "cache_gib": 0.047, "compute_gib": 0.056}
    assert plan["argv"][:2] == ["--model", str(path)]
    assert plan_gguf(str(path), [V100])["argv"] == []


def test_older_builds_need_room_for_an_answer_to_every_token(path: Path) -> None:
    """512 tokens x 32,000 words of 32 bits are 62.5 MiB."""
    older, newer = (
        plan_gguf(str(path), [V100], {}, release)["all_in_one"]["compute_gib"] for release in ("b9603", "b11000")
    )
    assert older > newer
    assert older > 62.5 / 1024


def parts(folder: Path, second: dict[str, Any]) -> Path:
    shape = MODELS["llama"]
    rows = tensors(shape)
    first = {**values(shape, has_words=False), "split.no": 0, "split.count": 2, "split.tensors.count": len(rows)}
    write_gguf(folder / "m-00001-of-00002.gguf", first, rows[:5])
    write_gguf(folder / "m-00002-of-00002.gguf", {"split.no": 1, "split.count": 2, **second}, rows[5:])
    return folder / "m-00001-of-00002.gguf"


def test_parts_are_read_together(tmp_path: Path) -> None:
    path = parts(tmp_path, {"split.tensors.count": len(tensors(MODELS["llama"]))})
    assert plan_gguf(str(path), [V100])["all_in_one"]["weights_gib"] == 0.06
    parts(tmp_path, {"split.no": 0})
    with pytest.raises(AnsibleFilterError, match="part 1/2"):
        plan_gguf(str(path), [V100])


def test_what_cannot_be_planned_is_refused_in_words(path: Path, tmp_path: Path) -> None:
    shape = MODELS["llama f16"]
    cut = write_gguf(tmp_path / "cut.gguf", values(shape, has_words=False), tensors(shape))
    os.truncate(cut, cut.stat().st_size - 100)
    (tmp_path / "page.gguf").write_text("<html>")
    latent = MODELS["deepseek2"]
    together = write_gguf(tmp_path / "latent.gguf", values(latent, has_words=False), tensors(latent))
    cases: dict[str, tuple[tuple[Any, ...], str]] = {
        "no file": ((str(tmp_path / "none.gguf"), [V100]), "cannot be read"),
        "cut off": ((str(tmp_path / "cut.gguf"), [V100]), "its header says"),
        "a page": ((str(tmp_path / "page.gguf"), [V100]), "no GGUF file"),
        "no GPU": ((str(path), []), "GPU"),
        "wishes": ((str(path), [V100], {"max_model_len": 1}), "there are context"),
        "a type": ((str(path), [V100], {"key_type": "fp8"}), "q8_0"),
        "no flash": ((str(path), [V100], {"value_type": "q8_0", "flash": False}), "flash attention"),
        "two types of one": ((str(together), [V100], {"key_type": "q8_0"}), "have to be the same"),
        "a context": ((str(path), [V100], {"context": 10**8}), "absurd"),
        "a build": ((str(path), [V100], {}, "b1000"), "b6327"),
    }

    def check(case: tuple[tuple[Any, ...], str]) -> None:
        arguments, word = case
        with pytest.raises(AnsibleFilterError) as raised:
            plan_gguf(*arguments)
        assert word in str(raised.value)

    check_each(cases, check)
    with pytest.raises(AnsibleFilterError, match="不是 GGUF"):
        plan_gguf(str(tmp_path / "page.gguf"), [V100], language="zh")
