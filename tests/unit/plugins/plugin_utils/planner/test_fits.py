# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which models of the catalogue fit some hosts."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.cards import read_fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import config_of, entries
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.fits import Fit, Kind, kinds, what_fits
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import NARROWLY

SMALL = ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen2.5-32B-Instruct", "Qwen/Qwen3-8B-AWQ")


def fitted(text: str, *models: str) -> list[Kind]:
    return what_fits([(f"gpu{number:02}", gpus) for number, gpus in enumerate(read_fleet(text), 1)], models)


def by_model(kind: Kind) -> dict[str, list[Fit]]:
    found: dict[str, list[Fit]] = {}
    for fit in kind.fits:
        found.setdefault(fit.model, []).append(fit)
    return found


@pytest.mark.parametrize("model", SMALL)
def test_what_is_said_is_what_the_plan_says(model: str) -> None:
    [kind] = fitted("1 x 2 V100-PCIE-16GB", model)
    [fit] = kind.fits
    nodes = [{"host": "gpu01", "gpus": kind.gpus}]
    plan = plan_deployment(config_of(model), nodes)
    assert kind.release == plan["vllm_version"] == "0.8.5.post1"
    assert fit.verdict == plan["verdict"]
    if plan["ok"]:
        assert fit.context == plan["settings"]["max_model_len"]
        assert fit.conversations == max(int(plan["predicted"]["max_concurrency"]), 1)
        assert fit.gpus == sum(len(node["ranks"]) for node in plan["nodes"])


def test_a_model_that_fits_a_host_has_a_copy_on_each_and_one_that_holds_more_on_all() -> None:
    [kind] = fitted("3 x 2 V100-PCIE-16GB", *SMALL)
    found = by_model(kind)
    assert [(fit.hosts, fit.copies) for fit in found["Qwen/Qwen2.5-7B-Instruct"]] == [(1, 3)]
    assert [(fit.hosts, fit.copies) for fit in found["Qwen/Qwen2.5-14B-Instruct"]] == [(1, 3), (3, 1)]
    assert [(fit.hosts, fit.copies) for fit in found["Qwen/Qwen2.5-32B-Instruct"]] == [(3, 1)]
    alone, together = found["Qwen/Qwen2.5-14B-Instruct"]
    assert alone.context < together.context == together.most == 32768


def test_what_keeps_a_model_from_fitting_is_said() -> None:
    [kind] = fitted(
        "1 x 1 V100-PCIE-16GB", *SMALL, "Qwen/Qwen3.5-9B", "Qwen/Qwen2.5-7B-Instruct-AWQ", "openai/gpt-oss-20b"
    )
    reasons = {fit.model: fit.reason for fit in kind.fits if not fit.ok}
    assert reasons["Qwen/Qwen2.5-32B-Instruct"] == "fits_memory"
    assert reasons["Qwen/Qwen2.5-7B-Instruct-AWQ"] == reasons["Qwen/Qwen3-8B-AWQ"] == "fits_format"
    assert "Qwen/Qwen3.5-9B" in reasons
    assert all(reasons.values())


def test_the_largest_model_that_fits_comes_first_and_what_does_not_fit_last() -> None:
    [kind] = fitted("1 x 1 A6000")
    assert {fit.model for fit in kind.fits} == {entry.model for entry in entries()}
    order = [(not fit.ok, -fit.weights if fit.ok else fit.weights) for fit in kind.fits]
    assert order == sorted(order)
    assert 20 < sum(fit.ok for fit in kind.fits) < len(kind.fits)
    assert len({fit.precision for fit in kind.fits}) > 4


def test_models_with_one_configuration_are_planned_once() -> None:
    [kind] = fitted("1 x 2 H100", "meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct")
    one, other = kind.fits
    assert one._replace(model="") == other._replace(model="")


def test_hosts_with_other_gpus_are_kept_apart() -> None:
    mixed = fitted("2 x 4 RTX 4090 + 1 x 2 RTX A6000", "Qwen/Qwen3-8B")
    assert [(kind.hosts, kind.cards) for kind in mixed] == [
        (("gpu01", "gpu02"), "4 x NVIDIA GeForce RTX 4090"),
        (("gpu03",), "2 x NVIDIA RTX A6000"),
    ]


def test_the_order_of_gpus_makes_no_other_kind_and_hosts_without_gpus_none() -> None:
    [[small], [large]] = read_fleet("1 x 1 4090 + 1 x 1 A6000")
    found = kinds([("a", [small, large]), ("b", []), ("c", [large, small])])
    assert [names for names, _gpus in found] == [("a", "c")]


def test_gpus_that_no_release_serves_are_said() -> None:
    [kind] = fitted("1 x 4 P40")
    assert kind.fits == ()
    assert kind.refusal is not None
    assert "6.1" in kind.refusal.say("en")


def test_old_gpus_compute_in_half_precision() -> None:
    [kind] = fitted("1 x 1 V100-PCIE-16GB", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-72B-Instruct")
    assert {fit.precision for fit in kind.fits} == {"float16"}


def test_a_start_with_little_to_spare_is_called_narrow() -> None:
    [kind] = fitted("1 x 1 V100-PCIE-16GB", "meta-llama/Llama-3.1-8B-Instruct")
    assert [fit.verdict for fit in kind.fits] == [NARROWLY]


@pytest.mark.parametrize(
    "fleet", ["3 x 2 V100-PCIE-16GB", "1 x 8 H100", "16 x 8 A100 80GB", "2 x 4 RTX 4090 + 1 x 2 RTX A6000"]
)
@pytest.mark.slow
def test_the_whole_catalogue_takes_seconds(fleet: str) -> None:
    began = time.process_time()
    fitted(fleet)
    assert time.process_time() - began < 5


def test_gpus_as_an_inventory_declares_them_are_read() -> None:
    gpus: list[dict[str, Any]] = [{"name": "Some card", "memory_mib": 24576, "compute_capability": "8.9"}]
    [kind] = what_fits([("gpu01", gpus)], ["Qwen/Qwen3-8B"])
    assert [fit.ok for fit in kind.fits] == [True]
