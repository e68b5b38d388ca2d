"""What a host says of its GPUs becomes a verdict on each, and garbage becomes a finding."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import LANGUAGES, TEXTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight import acceptance

from tests.support.each import check_each

FIRST, SECOND = "00000000:3B:00.0", "00000000:5E:00.0"


def card(**more: Any) -> dict[str, Any]:
    healthy = {
        "link": {"generation": 1, "generation_max": 5, "width": 16, "width_max": 16},
        "ecc": {"enabled": True, "volatile": {"corrected": 0, "uncorrected": 0}},
        "remapped_rows": {"pending": False, "failed": False},
        "retired_pages": {"uncorrected": None, "pending": None},
        "persistence_enabled": True,
        "power_limit_watts": {"now": 700, "default": 700},
        "pcie_replays": 0.0,
        "temperature_slow_celsius": None,
    }
    return {**healthy, **more}


def burnt(uuid: str, **more: Any) -> dict[str, Any]:
    # As an H100 80GB HBM3 gave them.
    measured = {"matmul_flops": 7.78e14, "memory_bytes_per_second": 2.77e12, "host_bytes_per_second": 5.19e10}
    return (
        {"uuid": uuid, "backend": "cuda", "memory_errors": 0, "matmul_errors": 0, "matmul_slowest_share": 0.99}
        | measured
        | more
    )


def facts() -> dict[str, Any]:
    """A host with two cards that are as they should be."""
    gpus = [
        {"index": index, "uuid": f"GPU-{index}", "name": "NVIDIA H100 80GB HBM3", "bus_id": bus_id}
        for index, bus_id in enumerate((FIRST, SECOND))
    ]
    load = {
        "width": 16,
        "generation": 5,
        "temperature_celsius": 57,
        "temperature_left_celsius": 30,
        "throttle_reasons": ["sw_power_cap"],
    }
    return {
        "gpus": gpus,
        "on_bus": [{"bus_id": gpu["bus_id"], "name": gpu["name"]} for gpu in gpus],
        "before": {FIRST: card(), SECOND: card()},
        "after": {FIRST: card(), SECOND: card()},
        "load": {FIRST: dict(load), SECOND: dict(load)},
        "burn": [burnt("GPU-0"), burnt("GPU-1")],
        "xids": [],
        "dcgm": None,
        "nvlink_before": {"0": 4},
        "nvlink_after": {"0": 4},
    }


def found(given: Any, last: Any = None) -> dict[str, list[str]]:
    """The findings of each card by its index; every one can be said in every language."""
    gpus = acceptance.judge(given, last or {})
    for language in LANGUAGES:
        assert acceptance.accept_text("gpu01", gpus, language)
    return {str(gpu["index"]): [finding["code"] for finding in gpu["findings"]] for gpu in gpus}


# Where a fact of the first card changes, to what, and what is found then.
CASES: list[tuple[str, Any, list[str]]] = [
    ("after/{}/ecc/volatile/uncorrected", 3, ["ecc_uncorrected"]),
    ("after/{}/ecc/volatile/corrected", 3, ["ecc_corrected"]),
    ("before/{}/ecc/enabled", False, ["ecc_off"]),
    ("after/{}/remapped_rows/failed", True, ["worn"]),
    ("after/{}/retired_pages/uncorrected", 60, ["worn"]),
    ("after/{}/retired_pages/uncorrected", 59, []),
    ("after/{}/unrepairable", True, ["worn"]),
    ("after/{}/remapped_rows/pending", True, ["reset_pending"]),
    ("after/{}/pcie_replays", 7.0, ["pcie_replays"]),
    ("before/{}/persistence_enabled", False, ["persistence_off"]),
    ("before/{}/power_limit_watts/now", 300, ["power_limited"]),
    ("load/{}/width", 8, ["link_narrow"]),
    ("load/{}/generation", 4, ["link_slow"]),
    ("load/{}/throttle_reasons", ["hw_slowdown", "hw_thermal_slowdown"], ["heat"]),
    ("load/{}/throttle_reasons", ["hw_slowdown"], ["power"]),
    ("load/{}/temperature_left_celsius", 2, ["hot"]),
    ("burn/0/memory_errors", 1, ["memory_errors"]),
    ("burn/0/matmul_errors", 1, ["matmul_errors"]),
    ("burn/0/matmul_flops", 3.0e14, ["matmul_low", "slower_than_others"]),
    ("burn/0/memory_bytes_per_second", 1.0e12, ["memory_low", "slower_than_others"]),
    ("burn/0/host_bytes_per_second", 1.2e10, ["host_low", "slower_than_others"]),
    ("burn/0/matmul_slowest_share", 0.7, ["unsteady"]),
    ("burn/0/matmul_flops", 7.1e14, []),
    ("burn/0/error", "CUDA error: an illegal memory access", ["burn_failed"]),
    ("nvlink_after/0", 9, ["nvlink_errors"]),
    ("xids", [{"bus_id": "0000:3b:00", "xid": 79, "action": "reboot", "during": False}], ["xid"]),
    ("xids", [{"bus_id": "0000:3b:00", "xid": 13, "action": "restart", "during": True}], ["xid"]),
    ("xids", [{"bus_id": "0000:3b:00", "xid": 13, "action": "restart", "during": False}], []),
    ("dcgm", [{"gpu": 0, "test": "Memory", "status": "Fail", "said": "x"}], ["dcgm_failed"]),
]


def test_each_fact_is_judged() -> None:
    def check(case: tuple[str, Any, list[str]]) -> None:
        path, value, expected = case
        given: Any = facts()
        *way, last = path.replace("{}", FIRST).split("/")
        inner: Any = given
        for key in way:
            inner = inner[int(key) if isinstance(inner, list) else key]
        inner[last] = value
        assert found(given) == {"0": expected, "1": []}

    check_each({f"{number} {case[0]}": case for number, case in enumerate(CASES)}, check)


def test_a_whole_host_is_accepted_and_compared_next_time() -> None:
    gpus = acceptance.judge(facts(), {})
    assert [gpu["verdict"] for gpu in gpus] == ["pass", "pass"]
    record = acceptance.to_record(gpus)
    slower = facts()
    slower["burn"] = [burnt("GPU-0", matmul_flops=6.9e14), burnt("GPU-1", matmul_flops=6.9e14)]
    assert found(slower, record) == {"0": ["slower_than_before"], "1": ["slower_than_before"]}
    slower["burn"] = [burnt("GPU-0", matmul_flops=7.1e14), burnt("GPU-1", matmul_flops=7.1e14)]
    assert found(slower, record) == {"0": [], "1": []}


def test_a_failed_card_is_no_measure_for_the_next_time() -> None:
    given = facts()
    given["burn"][0]["memory_errors"] = 5
    record = acceptance.to_record(acceptance.judge(given, {}))
    assert record["gpus"]["GPU-0"] == {"verdict": "fail", "name": "NVIDIA H100 80GB HBM3"}
    assert "matmul_flops" in record["gpus"]["GPU-1"]


def test_a_card_that_is_lost_is_named() -> None:
    given = facts()
    given["gpus"] = given["gpus"][1:]
    assert found(given) == {"0": ["lost"], "1": []}
    given = facts()
    del given["after"][FIRST]
    assert found(given)["0"] == ["lost"]


def test_a_processor_in_place_of_a_card_is_compared_with_nothing() -> None:
    given = facts()
    given["burn"] = [
        burnt("GPU-0", backend="cpu", matmul_flops=1e9, matmul_slowest_share=0.2),
        burnt("GPU-1", backend="cpu", matmul_flops=2e9),
    ]
    assert found(given) == {"0": [], "1": []}


def test_garbage_is_a_finding_and_never_an_error() -> None:
    """A host whose nvidia-smi answers nonsense is named; facts of any shape are no failure."""
    given = facts()
    given.update(before=None, after=None, load={}, burn=None, burn_said="nvidia-smi -L lists no GPU")
    assert found(given) == {"0": ["unreadable", "burn_failed"], "1": ["unreadable", "burn_failed"]}
    assert found({}) == {}
    for name in facts():
        for nonsense in (
            None,
            "x",
            3,
            [],
            [None],
            ["x"],
            {},
            {FIRST: None},
            {FIRST: "x"},
            [{}],
            [{"bus_id": 3, "uuid": []}],
        ):
            found({**copy.deepcopy(facts()), name: nonsense}, {"gpus": nonsense})
    for name in ("link", "ecc", "remapped_rows", "retired_pages", "power_limit_watts", "temperature_slow_celsius"):
        for nonsense in (None, "x", [], True):
            given = facts()
            for when in ("before", "after"):
                given[when][FIRST][name] = nonsense
            found(given)


def test_every_finding_and_remedy_can_be_said() -> None:
    codes = [f"accept_{code}" for code in acceptance.CHECKS] + [
        f"accept_remedy_{check.remedy}" for check in acceptance.CHECKS.values()
    ]
    codes += [f"accept_remedy_xid_{action}" for action in ("watch", "restart", "reset", "reboot", "replace")]
    assert [(language, code) for language in LANGUAGES for code in codes if code not in TEXTS[language]] == []
