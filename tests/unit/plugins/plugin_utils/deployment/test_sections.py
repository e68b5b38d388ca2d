"""What is decided for a host has the fields of its types, and roles read no others."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.decide import DecisionInput, Readers, decide
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import HostSection
from jsonschema import Draft202012Validator

from tests.support.deployments import ROLES
from tests.support.schema import field, host_schema
from tests.unit.plugins.plugin_utils.deployment.test_decide import PAIR, Bundle, connected, hosts

SCHEMA = Draft202012Validator(host_schema())
# _llm.vllm.container.user, _llm.ray.runtimes[item].state; a method of a mapping ends it.
READ = re.compile(r"(?<![\w.])_llm\.([a-z_]+(?:(?:\.[a-z_]+)|(?:\[[a-z_]+\]))*)")
METHODS = {"items", "keys", "values"}
VENV = {
    "vllm_runtime": "venv",
    "vllm_python": "/opt/venv/bin/python",
    "vllm_model_config": "/inventory/tiny.json",
}


def problems(section: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}"[:300] for error in SCHEMA.iter_errors(section)]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"vllm_executor": "mp", "vllm_version": "0.12.0"},
        VENV,
        {"llm_firewall_enabled": False},
        {"vllm_collective_enabled": False, "vllm_chat_template": "/inventory/chat.jinja"},
    ],
    ids=["ray", "without ray", "venv", "no firewall", "files"],
)
@pytest.mark.parametrize("verified", [False, True])
def test_a_decision_fits_its_types(more: dict[str, Any], verified: bool) -> None:
    variables = connected(hosts(**more)) if verified else hosts(**more)
    bundle = Bundle()
    readers = Readers(bundle.records, bundle.config, text=lambda path: "{{ messages }}")
    decided = decide(DecisionInput(PAIR, variables, list(variables)), readers)
    assert decided["problems"] == []
    assert sorted(decided["hosts"]) == ["gpu1", "gpu2"]
    assert {name: problems(section) for name, section in decided["hosts"].items()} == {"gpu1": [], "gpu2": []}


def test_a_field_that_no_type_has_does_not_fit() -> None:
    variables = hosts()
    bundle = Bundle()
    decided = decide(DecisionInput(PAIR, variables, list(variables)), Readers(bundle.records, bundle.config))
    section = decided["hosts"]["gpu1"]
    assert problems({**section, "novel": 1})
    assert problems({**section, "vllm": {**section["vllm"], "url": None}})


def test_roles_read_fields_that_the_types_have() -> None:
    files = [path for kind in ("*.yml", "*.j2") for path in sorted(ROLES.rglob(kind))]
    read = {
        (match[1], path.relative_to(ROLES).as_posix()) for path in files for match in READ.finditer(path.read_text())
    }
    assert len({name for name, _path in read}) > 90
    unknown = []
    for name, path in sorted(read):
        keys = [part for part in re.split(r"[.\[\]]+", name) if part]
        keys = keys[:-1] if keys[-1] in METHODS else keys
        try:
            field(HostSection, keys)
        except KeyError as error:
            unknown.append(f"{path}: _llm.{name} ({error})")
    assert unknown == []
    with pytest.raises(KeyError):
        field(HostSection, ["vllm", "container", "novel"])
