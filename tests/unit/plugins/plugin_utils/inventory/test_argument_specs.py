"""The variables that the roles describe."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine, engine_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.settings import SHARED, SHARED_BY_ALL
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.spelling import prefix_of

CHECKED_BY_NAME = {
    "llm_bundle_dir",
    "llm_offline",
    "llm_cluster_network",
    "llm_firewall_api_sources",
    "llm_gpus",
    "llm_language",
    "llm_foreign_variables",
    "vllm_api_paths",
    "vllm_options",
}


def test_the_owner_of_a_variable_describes_it(tmp_path: Path) -> None:
    roles = {
        "ray": {"ray_head_host": {"type": "str"}, "vllm_port": {"type": "str"}},
        "vllm": {"vllm_port": {"type": "int"}, "ray_head_host": {"type": "int"}, "vllm_model": None},
    }
    for role, options in roles.items():
        meta = tmp_path / role / "meta"
        meta.mkdir(parents=True)
        (meta / "argument_specs.yml").write_text(json.dumps({"argument_specs": {"main": {"options": options}}}))
    assert known_variables(tmp_path) == {
        "ray_head_host": {"type": "str"},
        "vllm_port": {"type": "int"},
        "vllm_model": {},
    }


def test_without_roles_nothing_is_known(tmp_path: Path) -> None:
    assert known_variables(tmp_path / "nowhere") == {}


def test_the_roles_describe_every_variable_that_is_checked() -> None:
    known = known_variables()
    own = {f"{name}_{setting}" for name in engine_names() for setting in (*SHARED, *engine(name).shared)}
    # These run in containers only.
    in_containers = ["llama_cpp_runtime", "lmdeploy_runtime", "ollama_runtime", "sglang_runtime", "triton_runtime"]
    assert sorted({*own, *SHARED_BY_ALL, *CHECKED_BY_NAME} - set(known)) == in_containers
    # What roles hand to the internal role is no variable of an inventory.
    assert [name for name in known if not name.startswith(("_", "common_")) and not prefix_of(name)] == []
