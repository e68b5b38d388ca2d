# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports of starts that failed or surprised.

They were written down before the rules that they test: of the 23 in reports.json the planner then said 5 right, of the 33 in later_reports.json 25.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start

from tests.support.each import check_each

DATA = Path(__file__).resolve().parents[5] / "tests" / "data"


def check(report: dict[str, Any]) -> None:
    config = json.loads((DATA / "models" / f"{report['config']}.json").read_text("utf-8")) if "config" in report else {}
    gpus = [dict(zip(("name", "memory_mib", "compute_capability"), gpu, strict=True)) for gpu in report["gpus"]]
    settings = {**report["settings"], "host_memory_mib": report.get("host_memory_mib")}
    found = predict_start({**config, **report.get("overrides", {})}, gpus, settings)
    expected = report["expect"]
    if "refused" in expected:
        assert not found["ok"], "starts"
        said = [error["message"] for error in found["errors"]]
        assert any(re.search(expected["refused"], message, re.IGNORECASE) for message in said), said
    if expected.get("ok"):
        assert found["ok"], found["error"]
    if expected.get("refused_or_unverified"):
        assert found["verdict"] in ("does_not_start", "not_verified"), found["verdict"]
    for name in expected.get("changes", ()):
        assert found["change"].get(name), found["change"]
    if expected.get("starts"):
        assert found["verdict"] == "starts", found["verdict"]
    for name, value in expected.get("change", {}).items():
        assert found["change"].get(name, "not changed") == value, found["change"]
    if "weights_gib" in expected:
        weights, part = expected["weights_gib"]
        assert abs(found["ranks"][0]["weights_gib"] / weights - 1) <= part, found["ranks"][0]["weights_gib"]


def test_public_reports() -> None:
    reports = [
        report
        for name in ("reports", "later_reports")
        for report in json.loads((DATA / "planner" / f"{name}.json").read_text("utf-8"))
    ]
    assert len(reports) >= 56
    assert all(report["source"].startswith("https://") and report["truth"] for report in reports)
    check_each({report["id"]: report for report in reports}, check)
