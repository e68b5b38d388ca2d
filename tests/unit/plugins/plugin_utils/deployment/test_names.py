"""One deployment on a machine has the names that it always had; with several the deployment is part of them."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import (
    alias_hosts,
    foreign,
    former,
    names,
    names_of_all,
    part_of_names,
    removal,
)
from hypothesis import given
from hypothesis import strategies as st

PLAIN = {
    "suffix": "",
    "server": "llm-vllm",
    "vllm": "llm-vllm",
    "others": ["llm-llama_cpp", "llm-lmdeploy", "llm-ollama", "llm-sglang", "llm-triton"],
    "ray": "llm-ray",
    "probe": "llm-probe",
    "state": "/run/llm-probe",
    "collective": "llm-collective",
    "benchmark": "llm-benchmark",
    "firewall": "llm-firewall",
    "table": "baremetal_llm",
    "folder": "",
}
MACHINES: dict[str, Hashable | None] = {"a": "m1", "b": "m1", "c": "m2", "d": None}


def test_a_machine_with_one_deployment_keeps_its_names() -> None:
    found = names_of_all({"one": ["a", "c"], "two": ["d"]}, MACHINES.get)
    assert found == {host: {**PLAIN, "sharing": [host]} for host in "acd"}


def test_with_several_the_deployment_is_part_of_every_name() -> None:
    found = names_of_all({"one": ["a", "c"], "two": ["b"]}, MACHINES.get)
    assert found["c"] == {**PLAIN, "sharing": ["c"]}
    for host, deployment in (("a", "one"), ("b", "two")):
        assert found[host]["sharing"] == ["a", "b"]
        for kind, plain in PLAIN.items():
            assert found[host][kind] != plain
            assert deployment in str(found[host][kind])
    assert not {str(each) for each in found["a"].values()} & {str(each) for each in found["b"].values()} - {
        "['a', 'b']"
    }


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_part_of_a_name_is_one_for_every_program_and_of_one_deployment_only(one: str, other: str) -> None:
    assert re.fullmatch("[A-Za-z0-9_]+", part_of_names(one))
    assert (part_of_names(one) == part_of_names(other)) == (one == other)


def test_a_machine_is_prepared_under_its_first_name_of_the_run() -> None:
    found = names_of_all({"one": ["a", "c"], "two": ["b"]}, MACHINES.get)
    assert alias_hosts(["a", "b", "c"], found) == ["b"]
    assert alias_hosts(["b", "c"], found) == []
    assert alias_hosts(["x"], {}) == []


def ours(*found: str) -> list[dict[str, Any]]:
    return [{"name": name, "ours": True} for name in found]


def test_containers_of_another_number_of_deployments_are_found() -> None:
    found = ["llm-vllm", "llm-ray", "llm-vllm-one", "llm-vllm-two", "postgres"]
    current = [names("one"), names("two")]
    assert [each["vllm"] for each in former(ours(*found), current, "/opt/llm", found)] == ["llm-vllm"]
    assert [each["vllm"] for each in former(ours(*found), [names()], "/opt/llm", found)] == [
        "llm-vllm-one",
        "llm-vllm-two",
    ]
    assert former(ours("llm-collective", "llm-vllm"), [names()], "/opt/llm", found) == []


@pytest.mark.parametrize(
    "name", ["llm-ray-x", "llm-vllm", "llm-vllm-..", "llm-vllm-../..", "llm-vllm-a/b", "llm-vllm-"]
)
def test_what_only_has_such_a_name_is_somebody_elses(name: str) -> None:
    """A label and a record are needed, and a name that is a part of a path."""
    current = [names("one"), names("two")]
    assert former([{"name": name, "ours": False}], current, "/opt/llm", [name]) == []
    assert former([{"name": name}], current, "/opt/llm", [name]) == []
    assert former(ours(name), current, "/opt/llm", []) == []
    paths = [path for each in former(ours(name), current, "/opt/llm", [name]) for path in each["paths"]]
    assert not [path for path in paths if ".." in path]
    assert bool(paths) == (name in ("llm-ray-x", "llm-vllm"))


def test_containers_of_others_under_a_deployments_names_are_found() -> None:
    found = [
        {"name": "llm-vllm", "ours": False},
        {"name": "llm-ray", "ours": True},
        {"name": "llm-ray-x", "ours": False},
    ]
    assert foreign(found, names()) == ["llm-vllm"]
    assert foreign(found, names("x")) == ["llm-ray-x"]


def test_what_they_left_is_named_with_them() -> None:
    paths = former(ours("llm-vllm"), [names("one"), names("two")], "/opt/llm", ["llm-vllm"])[0]["paths"]
    assert "/etc/systemd/system/llm-probe.timer" in paths
    assert "/etc/systemd/system/docker.service.d/llm-firewall.conf" in paths
    assert "/opt/llm/secrets" in paths
    paths = former(ours("llm-ray-one"), [names()], "/opt/llm", ["llm-ray-one"])[0]["paths"]
    assert "/etc/llm-firewall-one.nft" in paths
    assert "/opt/llm/deployments/one/secrets" in paths


def test_a_server_without_a_container_leaves_its_unit() -> None:
    paths = former(ours("llm-vllm"), [names("one"), names("two")], "/opt/llm", ["llm-vllm"])[0]["paths"]
    assert "/etc/systemd/system/llm-vllm.service" in paths


def test_a_deployment_that_a_host_leaves_takes_its_own_records_along_and_no_others() -> None:
    alone, shared = (removal(names(part), "/opt/llm")["paths"] for part in ("", "one"))
    assert {"/opt/llm/network.json", "/opt/llm/records/vllm.json", "/opt/llm/secrets"} <= set(alone)
    assert "/opt/llm/records/docker.json" not in alone
    assert "/opt/llm/deployments/one/records/ray.json" in shared
    assert not set(alone) & set(shared)
