"""How far clocks are apart. The hosts of the lab share theirs, so that only this shows a wrong one."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import check_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.clock import (
    clock_offset,
    clocks_apart,
    controller_off,
)
from hypothesis import given
from hypothesis import strategies as st

SECONDS = st.floats(-1e6, 1e6)


def clock(offset: float, uncertainty: float = 0.5) -> dict[str, float]:
    return {"offset_seconds": offset, "uncertainty_seconds": uncertainty}


@given(SECONDS, st.floats(0, 100), st.floats(0, 1))
def test_the_true_offset_lies_within_the_uncertainty(offset: float, took: float, when: float) -> None:
    before = 1.7e9
    found = clock_offset(before + took * when + offset, before, before + took)
    assert abs(found["offset_seconds"] - offset) <= found["uncertainty_seconds"] + 0.01


def test_one_that_is_off_is_told_from_those_that_are_not() -> None:
    clocks = {"gpu01": clock(-93.0), "gpu02": clock(0.1), "gpu03": clock(0.2)}
    assert clocks_apart(clocks, 10) == ("gpu02", {"gpu01": -92.1})
    assert clocks_apart({**clocks, "gpu01": clock(93.0)}, 10) == ("gpu03", {"gpu01": 91.8})
    assert clocks_apart({"gpu01": clock(93.0), "gpu02": clock(0.1)}, 10) == ("gpu02", {"gpu01": 91.9})


def test_what_a_slow_answer_may_explain_is_no_finding() -> None:
    assert clocks_apart({"gpu01": clock(0), "gpu02": clock(12, 3)}, 10) == ("gpu01", {})
    assert clocks_apart({"gpu01": clock(0), "gpu02": clock(14, 3)}, 10) == ("gpu01", {"gpu02": 10.5})


def test_a_controller_that_is_off_is_no_host_s_problem() -> None:
    assert clocks_apart({"gpu01": clock(3600), "gpu02": clock(3600.3)}, 1)[1] == {}
    assert clocks_apart({}, 1) == ("", {})


def test_a_controller_is_off_where_its_certificates_would_not_be_valid() -> None:
    assert [controller_off(clock(each)) for each in (0, 3600, -3600.4)] == [0, 0, 0]
    assert [controller_off(clock(each)) for each in (3601, -3601)] == [3600.5, -3600.5]
    assert controller_off(clock(4000, 500)) == 0, "a slow answer"
    assert controller_off(None) == 0
    found = check_hosts(
        {"qwen": {"hosts": ["gpu01", "gpu02"], "head": "gpu01"}},
        {host: {"system": "Linux"} for host in ("gpu01", "gpu02")},
        {host: {"host": {"clock": clock(-9e7)}} for host in ("gpu01", "gpu02")},
    )
    said = [entry for entry in found["problems"] if entry["code"].startswith("clock")]
    assert [(entry["code"], entry["value"]) for entry in said] == [("clock_of_controller", "+90000000 s")]


@given(st.dictionaries(st.text(min_size=1), SECONDS, min_size=1), st.floats(0, 1e4))
def test_the_host_in_the_middle_is_never_off(offsets: dict[str, float], limit: float) -> None:
    middle, apart = clocks_apart({host: clock(offset, 0) for host, offset in offsets.items()}, limit)
    assert middle in offsets
    assert middle not in apart
