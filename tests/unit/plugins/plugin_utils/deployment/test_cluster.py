"""Why hosts form no cluster: every cause has its own text, and only the first cause is reported."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.cluster import cluster_problems
from hypothesis import given
from hypothesis import strategies as st

RUNNING = {"item": "b", "stdout": "running, restarted 0 times"}
TIMEOUT = {"item": "b", "msg": "Timeout when waiting"}


def absent(joined: list[dict[str, Any]], **changes: Any) -> list[str]:
    look = {
        "head": "10.0.0.1:6379",
        "port": 6380,
        "planned": {"b": 1},
        "joined": joined,
        "addresses": {"b": "10.0.0.2"},
        "logs": [],
        "states": [RUNNING],
        "forth": [],
        "back": [],
        **changes,
    }
    return cluster_problems({"absent": look})


def test_who_joined_as_planned_is_no_problem() -> None:
    assert absent([{"host": "b", "address": "10.0.0.2", "gpus": 1}]) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"states": [{"item": "b", "unreachable": True}]}, "does not answer the controller"),
        ({"states": [{"item": "b", "stdout": "", "rc": 1}]}, "no container and no unit llm-ray"),
        ({"states": [{"item": "b", "stdout": "", "rc": 124}]}, "the Docker Engine of b does not answer"),
        ({"logs": [{"item": "b", "stderr": "RuntimeError: Version mismatch: Ray: 2.59.0"}]}, "another release of Ray"),
        ({"logs": [{"item": "b", "stdout": "AuthenticationError: no token"}]}, "another Ray token"),
        ({"forth": [TIMEOUT], "back": [TIMEOUT]}, "does not reach the head's port 10.0.0.1:6379"),
        ({"back": [TIMEOUT]}, "the head does not reach port 6380 of b (10.0.0.2)"),
        ({"logs": [{"item": "b", "stdout": "nothing unusual"}]}, "b did not join"),
    ],
)
def test_the_first_cause_is_told(changes: dict[str, Any], said: str) -> None:
    (text,) = absent([], **changes)
    assert said in text.splitlines()[0]


@pytest.mark.parametrize("cause", ["nothing unusual", "AuthenticationError: no token"])
def test_the_state_of_the_container_is_told_with_every_cause(cause: str) -> None:
    state = {"item": "b", "stdout": "restarting, restarted 4 times"}
    (text,) = absent([], states=[state], logs=[{"item": "b", "stderr": cause}])
    assert text.splitlines()[1:] == [
        "  its state: restarting, restarted 4 times",
        "  the end of its log:",
        "    " + cause,
    ]


def test_a_log_is_cut_to_its_end() -> None:
    (text,) = absent([], logs=[{"item": "b", "stdout": "\n".join(f"line {number}" for number in range(100))}])
    assert "line 99" in text
    assert "line 50" not in text


def test_the_wrong_address_and_the_wrong_number_of_gpus_are_told() -> None:
    assert "joined with the address 127.0.0.1" in absent([{"host": "b", "address": "127.0.0.1", "gpus": 1}])[0]
    assert "joined with 2 GPUs" in absent([{"host": "b", "address": "10.0.0.2", "gpus": 2}])[0]


def test_the_host_with_another_release_is_named() -> None:
    same = {"ray": "2.60.0", "python": "3.11.2"}
    hosts = {"b": {**same, "ray": "2.59.0"}, "a": same, "c": same}
    (text,) = cluster_problems({"versions": {"head": "a", "hosts": hosts}})
    assert "b would run Ray 2.59.0" in text
    assert "the head a runs Ray 2.60.0" in text
    (text,) = cluster_problems({"versions": {"head": "a", "hosts": {"a": {"ray": "", "python": "3.12.1"}}}})
    assert "holds no Ray" in text


@given(st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "2"]), min_size=1))
def test_equal_releases_are_no_problem_and_different_ones_are(versions: dict[str, str]) -> None:
    hosts = {host: {"ray": ray, "python": "3"} for host, ray in versions.items()}
    assert bool(cluster_problems({"versions": {"head": "a", "hosts": hosts}})) == (len(set(versions.values())) > 1)


def test_lost_hosts_are_named_in_chinese_too() -> None:
    assert "gpu2" in cluster_problems({"lost": ["gpu2"]}, "zh")[0]
