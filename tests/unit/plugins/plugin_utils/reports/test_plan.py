"""Plans as a table and as a page."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.columns import width
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import (
    BAR_WIDTH,
    fleet_text,
    inventory_text,
    plan_html,
    plan_table,
)

from tests.support.pages import Page, assert_self_contained

MODELS = Path(__file__).resolve().parents[5] / "tests" / "data" / "models"
HOSTILE = "<script>alert('x')</script> \"&amp; 主机"
V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
SMALL = {"name": "Tesla V100 (8 GB)", "memory_mib": 8192, "compute_capability": "7.0"}


def plan(**request: Any) -> dict[str, Any]:
    """Qwen2.5-14B on two hosts with one GPU each."""
    config = json.loads((MODELS / "Qwen__Qwen2.5-14B.json").read_text(encoding="utf-8"))
    nodes = [{"host": "gpu01", "gpus": [V100]}, {"host": "gpu02", "gpus": [V100]}]
    return plan_deployment(config, nodes, {"vllm_version": "0.8.5.post1", "max_model_len": 2048, **request})


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("en", ["Deployment plan", "Where the ranks run", "libraries and NCCL", "Alternatives", "starts"]),
        ("zh", ["部署计划", "各 rank 的位置", "库与 NCCL", "备选方案", "可以启动"]),
    ],
)
def test_the_page_is_complete_in_each_language(language: str, texts: list[str]) -> None:
    page = Page(plan_html({"qwen": plan()}, language))
    assert_self_contained(page)
    assert page.all("html") == [{"lang": language}]
    assert f"<title>{texts[0]}</title>" in page.source
    assert "prefers-color-scheme: dark" in page.source
    for text in [*texts, "gpu02", "1 x Tesla V100-PCIE-16GB", "pipeline_parallel_size", "--max-model-len 2048"]:
        assert text in page.text


def test_the_page_shows_the_figures_of_the_plan() -> None:
    found = plan()
    text = Page(plan_html(found)).text
    predicted = found["predicted"]
    assert f"{predicted['kv_cache_tokens']:,}" in text
    assert f"{predicted['max_concurrency']:.2f}" in text
    for rank in predicted["ranks"]:
        for value in rank.values():
            assert f"{value:.2f}" in text
    for one in found["alternatives"]:
        assert one["change"] in text
        assert one["gain"] in text


def rectangles(page: str) -> list[list[tuple[float, float]]]:
    """(left edge, width) of the parts of each bar."""
    bars: list[list[tuple[float, float]]] = []
    for tag, attributes in Page(page).elements:
        if tag == "svg":
            bars.append([])
        if tag == "rect":
            bars[-1].append((float(attributes["x"] or 0), float(attributes["width"] or 0)))
    return bars


def test_the_parts_of_a_bar_lie_side_by_side_and_fill_it() -> None:
    bars = rectangles(plan_html(plan()))
    assert len(bars) == len(plan()["gpus"]) > 0
    for bar in bars:
        assert len(bar) == 6
        for (left, wide), (following, _wide) in itertools.pairwise(bar):
            assert left + wide == pytest.approx(following, abs=0.11)
        assert sum(bar[-1]) == pytest.approx(BAR_WIDTH, abs=0.11)


def test_all_bars_of_a_deployment_have_one_scale() -> None:
    found = plan()
    found["gpus"][1]["memory_gib"] = found["gpus"][0]["memory_gib"] * 2
    first, second = rectangles(plan_html(found))
    assert sum(second[-1]) == pytest.approx(BAR_WIDTH, abs=0.11)
    assert sum(first[-1]) == pytest.approx(BAR_WIDTH / 2, abs=0.11)


def test_where_the_parts_exceed_the_memory_the_end_of_the_gpu_is_marked() -> None:
    found = plan()
    found["gpus"][0]["memory_gib"] = 8.0
    page = plan_html(found)
    assert page.count("the GPU ends here") == 1
    assert [len(bar) for bar in rectangles(page)] == [7, 6]


def test_errors_stand_with_their_remedies() -> None:
    config = json.loads((MODELS / "Qwen__Qwen2.5-14B.json").read_text(encoding="utf-8"))
    found = plan_deployment(config, [{"host": "gpu01", "gpus": [SMALL]}], {"vllm_version": "0.8.5.post1"})
    error = found["predicted"]["error"]
    for text in (Page(plan_html(found)).text, plan_table(found)):
        assert "does not start" in text
        assert error["code"] in text
        assert error["message"] in text
        assert error["remedy"] in text
    failing = [one for one in found["alternatives"] if not one["ok"]]
    assert failing
    assert all(one["error"]["remedy"] in Page(plan_html(found)).text for one in failing)


def test_the_command_line_of_each_host() -> None:
    found = plan()
    found["launch"] = {
        "gpu01": {"argv": ["vllm", "serve", "/models/a b"], "environment": {"VLLM_HOST_IP": "10.0.0.1"}},
        "gpu02": {"argv": ["ray", "start"], "environment": {}},
    }
    for text in (Page(plan_html(found)).text, plan_table(found)):
        for part in ("vllm serve '/models/a b'", "VLLM_HOST_IP=10.0.0.1", "ray start"):
            assert part in text


def test_a_correction_by_past_starts_is_said() -> None:
    found = plan()
    found["past"] = {"observations": 3, "level": "model", "kv_cache_error_gib": 0.25}
    assert "3 past starts (model): the KV cache was 0.25 GiB less" in Page(plan_html(found)).text


@pytest.mark.parametrize(
    ("language", "narrowly", "off"),
    [
        ("en", "starts narrowly: 0.", "GiB to spare on the fullest GPU, but the prediction may be 0.38 GiB off"),
        ("zh", "勉强可以启动：最满的 GPU 上余量为 0.", "而预测可能偏差 0.38 GiB"),
    ],
)
def test_a_start_that_is_narrow_says_so_and_why(language: str, narrowly: str, off: str) -> None:
    fixed = {"max_num_seqs": 16, "gpu_memory_utilization": 0.94, "enforce_eager": True}
    narrow = plan(**fixed)
    assert narrow["verdict"] == "starts_narrowly"
    for text in (plan_table(narrow, language), Page(plan_html(narrow, language)).text):
        assert narrowly in text
        assert off in text
    safe = Page(plan_html(plan(), language)).text
    assert narrowly not in safe
    # The page says of a start that is safe what it leaves as well.
    assert "0.38 GiB" in safe


def test_hostile_texts_are_text() -> None:
    found = plan()
    found["nodes"][0]["host"] = HOSTILE
    found["gpus"][0]["name"] = HOSTILE
    found["reasons"] = [HOSTILE]
    found["settings"][HOSTILE] = HOSTILE
    found["predicted"]["errors"] = [dict.fromkeys(("code", "message", "remedy"), HOSTILE)]
    found["alternatives"][0].update(change=HOSTILE, cost=HOSTILE, gain=HOSTILE)
    config = {"argv": ["<script>"], "path": "/f", "content": {"x": HOSTILE}}
    found["launch"] = {HOSTILE: {"argv": [], "environment": {}, "config": config}}
    page = Page(plan_html({HOSTILE: found}, "zh"))
    assert_self_contained(page)
    # The deployment, three times the host (placement, bar, figures), GPU, reason, setting and value (and both in the inventory's), error, alternative,
    # command, option.
    assert page.text.count(HOSTILE) == 18
    assert "'<script>'" in page.text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_plan_without_figures_can_be_shown(language: str) -> None:
    empty = {"predicted": {}, "ok": False}
    assert "plan" in Page(plan_html(empty, language)).text
    assert plan_table(empty, language).startswith("plan: vLLM None")


def test_the_table_keeps_its_columns_in_chinese() -> None:
    lines = plan_table(plan(), "zh").splitlines()
    header = next(number for number, line in enumerate(lines) if "权重" in line)
    rule, first = lines[header + 1 : header + 3]
    # The last column holds the unit in its title and nothing below.
    assert width(lines[header]) == len(rule) == len(first) + len("  -----")
    assert first.split()[:2] == ["gpu01", "0"]


def test_a_refused_plan_says_so_first_with_day_model_fleet_and_settings_to_copy() -> None:
    found = {**plan(), "model_name": "Qwen/Qwen2.5-14B-Instruct", "fleet": [{"host": "a", "gpus": ["T4", "T4"]}] * 3}
    problem = {"what": "It does not fit.", "value": "1", "where": "group_vars", "allowed": "less"}
    page = Page(plan_html({"d": found}, "en", [problem], day="2026-01-02"))
    text = page.text
    assert (
        text.index("Refused: 1 problems.")
        < text.index("It does not fit.")
        < text.index("Qwen/Qwen2.5-14B-Instruct on 3 x 2 T4")
    )
    assert "Plan of 2026-01-02" in text
    settings = yaml.safe_load(inventory_text(found))
    assert settings["vllm_model"] == "Qwen/Qwen2.5-14B-Instruct"
    assert settings["vllm_tensor_parallel_size"] == found["settings"]["tensor_parallel_size"]
    # What it copies, an inventory accepts: variables that exist.
    known = known_variables()
    assert [name for name in settings if name not in known] == []


def test_a_fleet_is_written_as_people_write_it() -> None:
    hosts = [{"host": name, "gpus": gpus} for name, gpus in (("a", ["T4"] * 2), ("b", ["T4"] * 2), ("c", ["L4"]))]
    assert fleet_text({"fleet": hosts}) == "2 x 2 T4 + 1 x 1 L4"
    assert fleet_text({}) == "-"
