"""The benchmark of hosts that are not fresh: it decides enough to mean something, and sees what is wrong."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.history import JUDGEMENTS

from benchmarks import hosts


def test_no_decision_harms_what_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["hosts.py", "--count", "60"])
    assert hosts.main() == 0
    assert "of the decisions: 0 stopped, 0 removed, 0 invalid, 0 useless" in capsys.readouterr().out


def test_a_decision_that_harms_is_seen() -> None:
    draw = random.Random(hosts.SEED)
    case = next(case for case in (hosts.Case(draw) for _number in range(500)) if case.live_restore and case.flags)

    def careless() -> tuple[dict[str, Any], str]:
        return {"method": "present", "other_kind": False, "daemon_options": dict.fromkeys(case.flags, True)}, ""

    case.decide_engine = careless  # type: ignore[method-assign]
    case.preflight = list  # type: ignore[method-assign,assignment]
    outcome, wrong = hosts.judge(case, "")
    assert outcome == "decided"
    assert any(what.startswith("invalid") for what in wrong)


@pytest.mark.parametrize(
    ("code", "kind"),
    [("engine_too_old", "useless"), ("kernel_locked", "useless"), ("package_sources_conflict", "invalid")],
)
def test_a_row_that_the_table_lacks_is_missed(monkeypatch: pytest.MonkeyPatch, code: str, kind: str) -> None:
    monkeypatch.setitem(JUDGEMENTS, code, lambda _picture: iter(()))
    draw = random.Random(hosts.SEED)
    decided = (hosts.judge(hosts.Case(draw), "")[1] for _number in range(1000))
    assert any(what.startswith(kind) for wrong in decided for what in wrong)
