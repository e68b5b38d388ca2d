"""From facts of hosts to an inventory that plans as it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.discover import (
    FoundHost,
    Proposal,
    fleet_table,
    found_host,
    inventory_files,
    inventory_names,
    kinds,
    propose,
    refusals,
    unreached,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.columns import width

DATA = Path(__file__).parents[4] / "data"
V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
RTX4090 = {"name": "NVIDIA GeForce RTX 4090", "memory_mib": 24564, "compute_capability": "8.9"}
A6000 = {"name": "NVIDIA RTX A6000", "memory_mib": 49140, "compute_capability": "8.6"}
MODEL = "Qwen/Qwen2.5-14B-Instruct"
CONFIG: dict[str, Any] = json.loads((DATA / "models/Qwen__Qwen2.5-14B.json").read_text())


def host(name: str, *gpus: dict[str, Any], **more: Any) -> FoundHost:
    said: dict[str, Any] = {
        "system": "ubuntu-22.04",
        "kernel": "5.15.0-1",
        "memory_mib": 128 << 10,
        "free_bytes": 1 << 40,
    }
    return FoundHost(name, f"192.0.2.{name[-1]}", gpus, **{**said, **more})


FACTS = {
    "distribution": "Ubuntu",
    "distribution_version": "22.04",
    "llm_gpus_found": [{**V100, "uuid": "GPU-1"}, {**V100, "uuid": "GPU-2"}],
    "llm_gpu": {"driver": {"loaded": "570.195.03"}},
    "llm_memory_mib": 131072,
    "llm_host": {"kernel": "5.15.0-1-generic"},
    "llm_nics_found": [
        {"up": True, "kind": "ethernet", "addresses": ["192.0.2.11/24", "fe80::1/64"]},
        {"up": False, "kind": "ethernet", "addresses": ["198.51.100.1/24"]},
        {"up": True, "kind": "bridge", "addresses": ["172.17.0.1/16"]},
    ],
    "llm_discovered": {
        "versions": {"docker": "28.5.1", "toolkit": ""},
        "reached": ["huggingface.co"],
        "disks": [
            {"path": "/", "available_bytes": 5, "total_bytes": 9},
            {"path": "/data", "available_bytes": 7, "total_bytes": 9},
        ],
        "models": [{"path": "/data/x", "name": MODEL, "bytes": 3, "format": "safetensors"}],
        "complete": True,
    },
}


def test_facts_become_a_host() -> None:
    found = found_host("gpu01", "192.0.2.11", FACTS)
    assert found.cards == "2 x Tesla V100-PCIE-16GB"
    assert (found.system, found.kernel, found.networks) == ("ubuntu-22.04", "5.15.0-1-generic", ("192.0.2.0/24",))
    assert (found.driver, found.docker, found.toolkit) == ("570.195.03", "28.5.1", "")
    assert (found.free_bytes, found.reached) == (7, ("huggingface.co",))
    # A host that says nothing, or nothing that can be read, is one without GPUs.
    assert found_host("x", "x", {}).gpus == ()
    assert found_host("x", "x", {"llm_gpus_found": [{"name": None}]}).gpus == ()


def test_hosts_with_equal_gpus_belong_together() -> None:
    hosts = [host("h1", V100, V100), host("h2", RTX4090), host("h3", V100, V100), host("h4"), host("h5", V100)]
    assert [[one.name for one in alike] for alike in kinds(hosts)] == [["h1", "h3"], ["h2"], ["h5"]]


def test_a_model_that_fits_one_host_has_a_replica_on_each() -> None:
    proposal = propose([host("h1", A6000), host("h2", A6000), host("h3", *[RTX4090] * 4)], MODEL, CONFIG, "en")
    assert [(one.name, one.hosts) for one in proposal.deployments] == [
        ("qwen2_5_14b_instruct_1", ("h1",)),
        ("qwen2_5_14b_instruct_2", ("h2",)),
        ("qwen2_5_14b_instruct_3", ("h3",)),
    ]
    assert proposal.refused == {}


def test_a_model_that_does_not_is_split_over_hosts_that_are_alike() -> None:
    hosts = [host(f"h{number}", V100) for number in (1, 2, 3)]
    (one,) = propose(hosts, MODEL, CONFIG, "en").deployments
    assert (one.name, one.hosts, one.version) == ("qwen2_5_14b_instruct", ("h1", "h2", "h3"), "0.8.5.post1")
    assert one.plan["ok"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_model_that_fits_nowhere_is_refused_with_what_comes_nearest(language: str) -> None:
    proposal = propose([host("h1", V100)], MODEL, CONFIG, language)
    assert proposal.deployments == ()
    (said,) = refusals(proposal, MODEL, language)
    assert "1 x 1 x Tesla V100-PCIE-16GB" in said["what"]
    assert said["allowed"]


def written(hosts: list[FoundHost], language: str = "en") -> dict[str, str]:
    proposal = propose(hosts, MODEL, CONFIG, language)
    return inventory_files(hosts, proposal, MODEL, {"ansible_user": "o'neil"}, "2026-01-02", language)


def variables(files: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The variables of each host, and the groups, as Ansible reads them."""
    tree = yaml.safe_load(files["hosts.yml"])["all"]
    deployments = tree["children"]["llm_deployments"]["children"]
    groups = {name: {"hosts": list(group["hosts"]), "children": []} for name, group in deployments.items()}
    groups["llm_deployments"] = {"hosts": [], "children": list(deployments)}
    if "llm_gateway" in tree["children"]:
        groups["llm_gateway"] = {"hosts": list(tree["children"]["llm_gateway"]["hosts"]), "children": []}
    common = yaml.safe_load(files["group_vars/all.yml"])
    found = {}
    for name, group in deployments.items():
        own = yaml.safe_load(files[f"group_vars/{name}.yml"])
        found |= {each: {**common, **own, **tree["hosts"][each]} for each in group["hosts"]}
    return found, groups


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    "hosts",
    [
        [host("h1", V100, V100), host("h2", V100, V100)],
        [host("h1", A6000, reached=("huggingface.co",)), host("h2", A6000, reached=("huggingface.co",)), host("h3")],
        [
            host(
                "h1",
                *[RTX4090] * 4,
                driver="570.1",
                docker="28.1",
                toolkit="1.17",
                models=tuple(FACTS["llm_discovered"]["models"]),
            )
        ],
    ],
)
def test_what_is_written_passes_the_check_of_inventories(hosts: list[FoundHost], language: str) -> None:
    files = written(hosts, language)
    found, groups = variables(files)
    check = check_inventory(found, groups, known_variables())
    assert check["problems"] == []
    used = [each for each in hosts if each.gpus]
    assert check["hosts"] == [each.name for each in used]
    for each in used:
        assert found[each.name]["llm_gpus"] == [dict(gpu) for gpu in each.gpus]
        assert found[each.name]["ansible_user"] == "o'neil"
        assert found[each.name]["llm_offline"] is not bool(each.reached)
    assert ("llm_gateway" in groups) is (len(groups["llm_deployments"]["children"]) > 1)


def test_offline_hosts_get_what_a_bundle_needs_to_know() -> None:
    found, _groups = variables(written([host("h1", V100, V100), host("h2", V100, V100)]))
    assert found["h1"]["bundle_systems"] == ["ubuntu-22.04"]
    assert found["h1"]["bundle_kernels"] == ["5.15.0-1"]


@pytest.mark.parametrize(
    ("path", "name", "kind", "adopted"),
    [
        ("/data/models/Qwen2.5-14B-Instruct", "models/Qwen2.5-14B-Instruct", "safetensors", True),
        ("/data/Qwen--Qwen2.5-14B-Instruct", "data/Qwen--Qwen2.5-14B-Instruct", "safetensors", True),
        ("/data/Qwen/qwen2.5-14b-instruct", "Qwen/qwen2.5-14b-instruct", "pytorch", True),
        ("/data/Qwen/Qwen2.5-14B", "Qwen/Qwen2.5-14B", "safetensors", False),
        ("/data/Qwen2.5-14B-Instruct.gguf", "Qwen2.5-14B-Instruct", "gguf", False),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen2.5-14B-Instruct/snapshots/1", MODEL, "safetensors", False),
    ],
)
def test_weights_that_are_there_are_used_where_they_lie(path: str, name: str, kind: str, adopted: bool) -> None:
    models = ({"path": path, "name": name, "bytes": 3, "format": kind},)
    text = written([host("h1", A6000, models=models)])["group_vars/qwen2_5_14b_instruct.yml"]
    assert yaml.safe_load(text).get("models_source") == (f"host:{path}" if adopted else None)


def test_weights_that_are_not_whole_are_not_used() -> None:
    models = (
        {"path": "/data/Qwen2.5-14B-Instruct", "name": MODEL, "bytes": 3, "format": "safetensors", "whole": False},
    )
    text = written([host("h1", A6000, models=models)])["group_vars/qwen2_5_14b_instruct.yml"]
    assert "models_source" not in yaml.safe_load(text)


def test_systems_whose_packages_are_not_fetched_are_said_and_not_asked_for() -> None:
    openeuler = found_host("h1", "x", {**FACTS, "distribution": "openEuler", "distribution_version": "22.03"}).system
    assert openeuler == "openeuler-22.03"
    text = written([host("h1", V100, V100, system=openeuler), host("h2", V100, V100)])["group_vars/all.yml"]
    assert yaml.safe_load(text)["bundle_systems"] == ["ubuntu-22.04"]
    assert "# Packages of openeuler-22.03 are not fetched" in text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_table_is_aligned(language: str) -> None:
    lines = fleet_table([host("h1", V100, V100, docker="28.5.1"), host("h2")], language)
    assert len(lines) == 4
    assert "2 x Tesla V100-PCIE-16GB" in lines[2]
    starts = [line.index("ubuntu-22.04") for line in lines[2:]]
    assert starts[0] - starts[1] == 0 or width(lines[2][: starts[0]]) == width(lines[3][: starts[1]])


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("Permission denied (publickey,password).", "ansible_user"),
        ("Host key verification failed.", "accept the key"),
        ("ssh: Could not resolve hostname gpu09: Name or service not known", "DNS"),
        ("ssh: connect to host 192.0.2.9 port 22: Connection timed out", "switched on"),
        ("ssh: connect to host 192.0.2.9 port 22: Connection refused", "sshd"),
        ("Missing sudo password", "--ask-become-pass"),
        ("/bin/sh: 1: /usr/bin/python3: not found", "python3"),
        ("something else", "See what it said"),
    ],
)
def test_a_host_that_does_not_answer_says_what_to_do(said: str, advice: str) -> None:
    problem = unreached("gpu09", said, "en")
    assert "gpu09" in problem["what"]
    assert advice in problem["what"]
    assert problem["value"] == said.removeprefix("ssh: ")
    assert unreached("gpu09", f"Task failed: Failed to connect to the host via ssh: {said}", "en") == problem


def test_without_a_deployment_nothing_is_proposed() -> None:
    assert propose([host("h1")], MODEL, CONFIG, "en") == Proposal()


def test_an_address_gets_a_name_of_its_own() -> None:
    named = inventory_names(["192.0.2.1", "gpu01", "fd00::2", "node.example"])
    assert named == {"192.0.2.1": "gpu02", "gpu01": "gpu01", "fd00::2": "gpu03", "node.example": "node.example"}
