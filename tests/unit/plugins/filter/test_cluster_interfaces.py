"""The filter: facts or descriptions in, an agreement and a text out."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.filter import cluster_interfaces as plugin

cluster_interfaces = plugin.FilterModule().filters()["cluster_interfaces"]


def facts(name: str, address: str) -> dict[str, Any]:
    return {"interfaces": [name], name: {"device": name, "type": "ether", "ipv4": {"address": address, "prefix": "24"}}}


@pytest.mark.parametrize(
    "first",
    [
        facts("eth1", "10.0.0.1"),
        {"interfaces": [{"name": "eth1", "addresses": ["10.0.0.1/24"]}]},
        [{"name": "eth1", "addresses": ["10.0.0.1/24"]}],
    ],
)
def test_facts_and_descriptions(first: Any) -> None:
    agreed = cluster_interfaces({"gpu01": first, "gpu02": facts("ens3f0", "10.0.0.2")})
    assert [entry["network"] for entry in agreed.pop("candidates")] == ["10.0.0.0/24"]
    assert agreed == {
        "network": "10.0.0.0/24",
        "interfaces": {
            "gpu01": {"interface": "eth1", "address": "10.0.0.1"},
            "gpu02": {"interface": "ens3f0", "address": "10.0.0.2"},
        },
        "problems": [],
        "message": "",
    }


@pytest.mark.parametrize(
    ("language", "text"), [("en", "share no subnet"), ("zh", "没有共同的子网"), ("fr", "share no subnet")]
)
def test_the_message_is_for_people(language: str, text: str) -> None:
    agreed = cluster_interfaces(
        {"gpu01": facts("eth0", "10.0.0.1"), "gpu02": facts("eth0", "10.0.1.1")}, language=language
    )
    assert text in agreed["message"]
    assert "10.0.1.1/24" in agreed["message"]


def test_hosts_without_facts_share_nothing() -> None:
    assert [entry["code"] for entry in cluster_interfaces({"gpu01": {}, "gpu02": []})["problems"]] == [
        "no_shared_network"
    ]


@pytest.mark.parametrize("hosts", [["gpu01"], "gpu01", {"gpu01": "eth0"}])
def test_wrong_input_is_named(hosts: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="cluster_interfaces wants"):
        cluster_interfaces(hosts)


def test_the_documentation_is_yaml() -> None:
    for text in (plugin.DOCUMENTATION, plugin.EXAMPLES, plugin.RETURN):
        assert yaml.safe_load(text)
