"""Names of hosts, deployments, keys and models: right everywhere, or refused before a host is touched."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import (
    certificate_files,
    clashes,
    is_name,
    key_file,
    names,
    part_of_names,
    secret_file,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.one_line import deployment_name
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.inventories import Inventory

GOOD = ["gpu01", "GPU-01", "10.0.0.5", "gpu_01.rack-2.example.org", "7", "a" * 63]
BAD = [
    "x/../../../evil",
    "gpu01\nflush ruleset",
    "gpu01\r[Service]\rExecStartPre=/bin/sh",
    "模型",
    "节点一",
    "qwen 14",
    "a/b",
    "..",
    ".hidden",
    "-oProxyCommand=x",
    "fd00::1",
    "[fd00::1]",
    "gpu01:22",
    "gpu*",
    "~gpu",
    "!gpu01",
    "&gpu01",
    "a,b",
    "a;b",
    "$(id)",
    "`id`",
    "a%n",
    "a\\b",
    'a"b',
    "a'b",
    "{a}",
    "a\x00b",
    "a\u2028b",
    "gpu01 ",
    "gpu01.",
    "gpu..01",
    "gpu01\n",
    "a" * 64,
    "a." * 64 + "a",
    "",
    "gpu\u0430",  # Cyrillic
]
NAMES = st.text("aA0._-/ :\n模*", max_size=6) | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,130}", fullmatch=True)


def renamed(inventory: Inventory, host: str, name: str) -> Inventory:
    inventory.hosts = {name if each == host else each: said for each, said in inventory.hosts.items()}
    for group in inventory.groups.values():
        group["hosts"] = [name if each == host else each for each in group["hosts"]]
    return inventory


def regrouped(inventory: Inventory, deployment: str, name: str) -> Inventory:
    inventory.groups[name] = inventory.groups.pop(deployment)
    children = inventory.groups["llm_deployments"]["children"]
    inventory.groups["llm_deployments"]["children"] = [name if each == deployment else each for each in children]
    return inventory


def test_each_name_of_a_host_and_of_a_deployment_is_taken_or_refused() -> None:
    right = Inventory()
    for name in GOOD:
        assert renamed(copy.deepcopy(right), "gpu01", name).codes() == [], name
        if name != "gpu01":
            assert regrouped(copy.deepcopy(right), "tiny", name).codes() == [], name
    for name in BAD:
        found = renamed(copy.deepcopy(right), "gpu01", name).only()
        assert (found["code"], "gpu01;" in found["allowed"]) == ("host_names", True), name
        assert regrouped(copy.deepcopy(right), "tiny", name).only()["code"] == "deployment_names", name


def test_all_names_are_refused_at_once(inventory: Inventory) -> None:
    regrouped(renamed(renamed(inventory, "gpu01", "a/b"), "gpu02", "节点一"), "tiny", "模型")
    inventory.set("gpu03", ansible_host="-oProxyCommand=id")
    found = {entry["code"]: entry["value"] for entry in inventory.problems()}
    assert found == {
        "host_names": '"a/b", "节点一"',
        "deployment_names": '"模型"',
        "address_malformed": '"-oProxyCommand=id"',
    }


def test_a_host_is_not_called_like_a_group(inventory: Inventory) -> None:
    assert renamed(inventory, "gpu03", "tiny").only()["code"] == "host_named_like_group"


@pytest.mark.parametrize(
    ("hosts", "deployments", "keys", "identifier"),
    [
        (["ca"], [], [], "gateway_ca.crt"),
        (["GPU01", "gpu01"], [], [], "gateway_gpu01.crt"),
        ([], ["Qwen", "qwen"], [], "qwen_api_key"),
        ([], [], ["Bob", "bob"], "gateway_key_bob"),
        ([], ["gateway_key_x"], ["x_api_key"], "gateway_key_x_api_key"),
        ([], ["a-b", part_of_names("a-b")], [], names(part_of_names("a-b"))["table"]),
    ],
)
def test_two_things_never_have_one_name(
    hosts: list[str], deployments: list[str], keys: list[str], identifier: str
) -> None:
    assert identifier in clashes(hosts, deployments, keys)


def test_what_would_have_one_name_is_refused(inventory: Inventory) -> None:
    found = renamed(inventory, "gpu03", "GPU01").only()
    assert (found["code"], found["value"]) == ("names_clash", "the host gpu01, the host GPU01")
    inventory = renamed(Inventory(), "gpu03", "ca")
    assert inventory.only()["value"] == "gateway_ca.crt, which the collection keeps for itself, the host ca"


def test_an_address_is_a_name_or_an_address(inventory: Inventory) -> None:
    for address in ("gpu01.example.org", "10.0.0.9", "fd00::9", "::ffff:10.0.0.9"):
        assert inventory.set("gpu01", ansible_host=address).codes() == [], address
    for address in ("fe80::1%eth0", "gpu 01", "a\nb", "-x", "节点", "http://gpu01", "gpu01:22", ["gpu01"]):
        found = inventory.set("gpu01", ansible_host=address).only()
        assert found["code"] == "address_malformed", address


def test_a_model_is_named_as_the_gateway_routes(inventory: Inventory) -> None:
    inventory.set("gpu03", vllm_served_model_name="我的 模型")
    assert inventory.codes() == []
    inventory.groups["llm_gateway"] = {"hosts": ["gpu01"], "children": []}
    assert inventory.only()["code"] == "gateway_model_name"


@given(NAMES)
@examples(60)
def test_a_name_that_is_taken_stands_for_itself_in_every_language(name: str) -> None:
    if not is_name(name):
        return
    # Files: https://man7.org/linux/man-pages/man7/path_resolution.7.html, one part of a path.
    for file in (secret_file(name, "api_key"), key_file(name), *certificate_files("gateway", name)):
        assert "/" not in file
        assert len(file.encode()) <= 255
    made: dict[str, Any] = names(part_of_names(name))
    assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]*", made["table"])  # nft(8), lexical conventions
    assert len(made["table"]) < 256
    for kind in ("vllm", "ray", "probe", "collective", "firewall"):
        assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+", made[kind])  # Docker's names of containers
        assert len(f"{made[kind]}.service.d") <= 255
    assert re.fullmatch(r"[A-Za-z0-9_.:-]+", name)  # HAProxy's manual, names of servers
    name.encode("ascii")  # DNS names of certificates
    hosts = InventoryManager(loader=DataLoader(), sources=[])
    hosts._inventory.add_host(name)
    hosts._inventory.add_host("other")
    assert [host.name for host in hosts.get_hosts(f"other:{name}:!{name}")] == ["other"]
    assert [host.name for host in hosts.get_hosts(name)] == [name]


@given(st.text(max_size=200))
def test_the_name_that_a_model_gives_a_deployment_is_one(model: str) -> None:
    assert is_name(deployment_name(model))
    assert is_name(deployment_name("m" * 500))
