"""A plan from one line: the model and the fleet that the command line names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.gpus import as_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import COMMAND_LINE, EVERYTHING
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.one_line import (
    deployment_name,
    host_names,
    one_line,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import NEWEST
from hypothesis import given
from hypothesis import strategies as st

V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
LINE = {"llm_model": "Qwen/Qwen2.5-14B-Instruct", "llm_fleet": "3 x 2 Tesla V100-PCIE-16GB"}


def test_one_line_is_an_inventory() -> None:
    found = one_line(LINE, False)
    assert found is not None
    assert found.hosts == ["gpu01", "gpu02", "gpu03"]
    assert found.variables["gpu02"] == {
        "vllm_model": "Qwen/Qwen2.5-14B-Instruct",
        "vllm_version": "0.8.5.post1",  # the one that is recommended for a V100
        "llm_gpus": [V100, V100],
    }
    check = check_inventory(found.variables, found.groups, known_variables())
    assert check["problems"] == []
    assert check["deployments"] == {"qwen2_5_14b_instruct": {"hosts": found.hosts, "head": "gpu01"}}


def test_settings_of_the_command_line_count() -> None:
    found = one_line({**LINE, "vllm_version": "0.6.3", "vllm_model": "/srv/models/mine"}, False)
    assert found is not None
    assert found.deployment == "mine"
    assert "vllm_version" not in found.variables["gpu01"]
    assert found.variables["gpu01"]["vllm_model"] == "/srv/models/mine"


def test_an_engine_that_there_is_not_is_all_that_is_said() -> None:
    found = one_line({**LINE, "llm_engine": "llamacpp"}, False)
    assert found is not None
    hosts = {host: {**said, "llm_engine": "llamacpp"} for host, said in found.variables.items()}
    origins = {host: {EVERYTHING: COMMAND_LINE} for host in hosts}
    [problem] = check_inventory(hosts, found.groups, known_variables(), origins=origins)["problems"]
    assert (problem["code"], problem["where"]) == ("unknown_engine", "the command line (-e)")


def test_a_card_without_a_release_is_left_to_the_plan() -> None:
    found = one_line({**LINE, "llm_fleet": "1 x 1 P40"}, False)
    assert found is not None
    assert found.variables["gpu01"]["vllm_version"] == NEWEST


def test_an_inventory_with_deployments_counts_alone() -> None:
    assert one_line(LINE, True) is None
    assert one_line({"llm_model": "x"}, False) is None


def test_the_release_is_that_of_the_oldest_card() -> None:
    found = one_line({**LINE, "llm_fleet": "2 x 4 RTX 4090 + 1 x 2 V100-PCIE-16GB"}, False)
    assert found is not None
    assert [len(each["llm_gpus"]) for each in found.variables.values()] == [4, 4, 2]
    assert found.variables["gpu01"]["vllm_version"] == "0.8.5.post1"


@pytest.mark.parametrize("fleet", ["many", "3 x 2 RTX 9999", "0 x 2 RTX 4090", "3 x RTX 4090", "2 RTX 4090"])
def test_a_fleet_that_cannot_be_read_is_refused_in_words(fleet: str) -> None:
    with pytest.raises(InputError, match="llm_fleet"):
        one_line({**LINE, "llm_fleet": fleet}, False)


@given(st.text(max_size=60))
def test_every_model_has_a_name_that_a_group_can_have(model: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", deployment_name(model))


@given(st.integers(1, 2000))
def test_hosts_are_in_their_order(count: int) -> None:
    names = host_names(count)
    assert len(set(names)) == count
    assert names == sorted(names)


def test_a_host_s_gpus_may_be_one_line() -> None:
    assert as_gpus("2 x Tesla V100-PCIE-16GB") == [V100, V100]
    for kept in ([V100], None, "{{ of_another }}", "2 x RTX 9999", 3):
        assert as_gpus(kept) == kept


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_line_of_gpus_that_cannot_be_read_is_a_problem_of_the_inventory(language: str) -> None:
    found = one_line(LINE, False)
    assert found is not None
    hosts: dict[str, dict[str, Any]] = {name: dict(said) for name, said in found.variables.items()}
    hosts["gpu02"]["llm_gpus"] = "2 x RTX 9999"
    check = check_inventory(hosts, found.groups, known_variables(), lang=language)
    (said,) = check["problems"]
    assert said["code"] == "gpus_malformed"
    assert "RTX 9999" in said["what"]
