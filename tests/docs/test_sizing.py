"""The example of the page about sizes, in both languages: what it shows is what the planner says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_report

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("page", "language"), [("docs/guides/sizing.md", "en"), ("docs/zh/guides/sizing.md", "zh")])
def test_the_example_is_what_the_planner_says(page: str, language: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    request = yaml.safe_load(re.findall(r"^    request: (.+)$", text, re.MULTILINE)[0])
    v100 = yaml.safe_load(re.findall(r"^    v100: (.+)$", text, re.MULTILINE)[0])
    config = json.loads((ROOT / "tests/data/models/Qwen__Qwen2.5-14B.json").read_text(encoding="utf-8"))
    nodes = [{"host": name, "gpus": [v100]} for name in ("gpu01", "gpu02")]
    said = plan_report({"qwen": plan_deployment(config, nodes, request, language)}, language=language)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    # The page leaves out the reasons, the rule below the heads of the columns, and the unit behind them.
    missing = [line for line in shown.splitlines() if line and line not in said]
    assert missing == []
