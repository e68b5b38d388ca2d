"""The rules of which GPU runs which code, and which driver which CUDA."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import (
    built_for,
    capabilities,
    capability,
    code_for,
    lowest_driver,
    older,
    runs,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("code", "on", "not_on"),
    [
        ("sm_70", ["7.0", "7.5"], ["6.1", "8.0", "7.2"]),
        ("sm_75", ["7.5"], ["7.0", "8.0"]),
        ("sm_80", ["8.0", "8.6", "8.9"], ["7.5", "9.0", "8.7"]),
        ("sm_86", ["8.6", "8.9"], ["8.0"]),
        ("sm_87", ["8.7"], ["8.9"]),
        ("sm_90", ["9.0"], ["8.9", "10.0", "12.0"]),
        ("sm_90a", ["9.0"], ["10.0"]),
        ("sm_100", ["10.0", "10.3"], ["9.0", "12.0"]),
        ("sm_100a", ["10.0"], ["10.3"]),
        ("sm_100f", ["10.0", "10.3"], ["11.0", "12.0"]),
        ("sm_103f", ["10.3"], ["10.0"]),
        ("sm_120", ["12.0", "12.1"], ["10.0"]),
        ("sm_120f", ["12.0", "12.1"], ["11.0"]),
        ("compute_70", ["7.0", "7.5", "8.0", "12.0"], ["6.1"]),
        ("compute_90a", ["9.0"], ["10.0", "8.9"]),
        ("compute_100f", ["10.0", "10.3"], ["12.0"]),
        ("lto_90", [], ["9.0"]),
        ("nonsense", [], ["9.0"]),
    ],
)
def test_code_runs_where_the_rules_say(code: str, on: list[str], not_on: list[str]) -> None:
    assert [gpu for gpu in on if not runs(code, capability(gpu))] == []
    assert [gpu for gpu in not_on if runs(code, capability(gpu))] == []


@given(st.integers(1, 20), st.integers(0, 9), st.integers(1, 20), st.integers(0, 9))
def test_ptx_runs_wherever_a_cubin_of_its_number_does(major: int, minor: int, gpu_major: int, gpu_minor: int) -> None:
    if runs(f"sm_{major}{minor}", (gpu_major, gpu_minor)):
        assert runs(f"compute_{major}{minor}", (gpu_major, gpu_minor))


@pytest.mark.parametrize("text", ["", "7", "70", "sm_70", "7.0.1", "7.10", None])
def test_a_malformed_capability_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="no compute capability"):
        capability(text)


def test_strays_are_not_what_a_library_is_built_for() -> None:
    # vLLM 0.19.1, vllm/_C.abi3.so as read from its wheel
    counts = {"sm_52": 1, "sm_70": 28, "sm_75": 40, "sm_80": 50, "sm_90": 36, "compute_52": 1, "compute_80": 19}
    assert built_for(106, counts) == ["sm_70", "sm_75", "sm_80", "sm_90"]
    assert built_for(52, {"sm_80": 52, "compute_80": 52}) == ["sm_80", "compute_80"]


def test_how_a_gpu_is_served() -> None:
    assert code_for(["sm_80", "compute_80"], (8, 6)) == "sm"
    assert code_for(["sm_80", "compute_80"], (9, 0)) == "compute"
    assert code_for(["sm_80", "compute_80"], (7, 0)) is None


def test_all_libraries_have_to_serve_a_capability() -> None:
    vllm = ["sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_90a"]
    assert capabilities([vllm, ["sm_50", "sm_70", "sm_80", "sm_86", "sm_90"]]) == [
        "7.0",
        "7.5",
        "8.0",
        "8.6",
        "8.9",
        "9.0",
    ]
    assert capabilities([vllm, ["sm_75", "sm_80", "compute_80"]]) == ["7.5", "8.0", "8.9"]
    assert capabilities([vllm, []]) == []


@pytest.mark.parametrize(
    ("cuda", "lowest", "through_ptx"),
    [
        ("12.1", "525.60.13", "530.30.02"),
        ("12.4.1", "525.60.13", "550.54.14"),
        ("12.9.1", "525.60.13", "575.51.03"),
        ("13.0.2", "580.65.06", "580.65.06"),
        ("13.7", "580.65.06", "590.44.01"),
        ("10.2", None, None),
        ("", None, None),
    ],
)
def test_lowest_driver(cuda: str, lowest: str | None, through_ptx: str | None) -> None:
    assert lowest_driver(cuda) == lowest
    assert lowest_driver(cuda, through_ptx=True) == through_ptx


def test_older() -> None:
    assert older("470.57.02", "525.60.13")
    assert older("525.60.12", "525.60.13")
    assert not older("525.60.13", "525.60.13")
    assert not older("570.26", "525.60.13")
    assert not older("580", "580.65.06"), "a branch stands for its newest driver"
    assert older("570", "580.65.06")
