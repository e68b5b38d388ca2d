"""Every variable of every role has its form: a number its bounds, a path what a host can have, a text one line and what its reader understands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.forms import (
    BOUNDS,
    FORMS,
    HOST_PATHS,
    SEVERAL_LINES,
    bounds_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.value_types import value_faults

# Files of the controller, which only Ansible and Python open: any name that a file can have.
CONTROLLER_PATHS = {
    *("bundle_ray_wheels_dir", "bundle_signing_key", "gateway_tls_certificate", "gateway_tls_key", "llm_bundle_dir"),
    *("llm_inventory_dir", "llm_log", "llm_report_dir", "llm_secrets_dir", "llm_sources_dir"),
    *("vllm_chat_template", "vllm_generation_config", "vllm_model_config", "vllm_tool_parser_plugin"),
}


def parts(name: str, spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A variable, and each value that can stand in it, by its path."""
    yield name, spec
    below = f"{name}[]" if spec.get("type") == "list" else name
    if spec.get("type") == "list":
        yield below, {"type": spec.get("elements", "str"), "choices": spec.get("choices")}
    for key, inner in (spec.get("options") or {}).items():
        yield from parts(f"{below}.{key}", inner)


KNOWN = known_variables()
VALUES = {path: spec for name, option in KNOWN.items() for path, spec in parts(name, option)}


def codes(name: str, value: Any, spec: Mapping[str, Any]) -> set[str]:
    inventory = Inventory({}, {}, KNOWN, {}, "en")
    return {fault.code for fault in value_faults(inventory, name.replace("[]", "[0]"), value, spec)}


def test_every_number_has_bounds_within_which_its_default_is() -> None:
    numbers = {name: spec for name, spec in VALUES.items() if spec.get("type") in ("int", "float")}
    assert len(numbers) > 70
    assert [name for name in numbers if not bounds_of(name)] == []
    for name, spec in numbers.items():
        bounds = bounds_of(name)
        assert bounds
        assert bounds.low < bounds.high
        inside = [bounds.high, *([] if bounds.low_is_excluded else [bounds.low]), spec.get("default")]
        for value in filter(lambda each: each is not None, inside):
            assert codes(name, value, spec) == set(), (name, value)
        outside = [bounds.low - 1, bounds.high + 1, *([bounds.low] if bounds.low_is_excluded else [])]
        outside += [float("nan"), float("inf"), float("-inf")] if spec["type"] == "float" else []
        for value in outside:
            assert codes(name, value, spec) & {"out_of_range", "wrong_type"}, (name, value)
    unused = [each.ending for each in BOUNDS if not any(bounds_of(name) is each for name in numbers)]
    assert unused == [], "no number has these bounds"


ENDS = ["a\nb", "a\rb", "a\x00b", "a\x1b[0m", "a\u2028b", "a\x85b", "\n", "/a\n", "/a\n[Service]\nExecStartPre=/bin/sh"]


def test_every_text_and_path_is_on_one_line() -> None:
    texts = {name: spec for name, spec in VALUES.items() if spec.get("type", "str") in ("str", "path")}
    assert len(texts) > 120
    open_to = {
        name
        for name, spec in texts.items()
        if not spec.get("choices") and any(not codes(name, one, spec) for one in ENDS)
    }
    assert open_to == SEVERAL_LINES - {"vllm_options"}
    mappings = {name: spec for name, spec in VALUES.items() if spec.get("type") == "dict" and not spec.get("options")}
    del mappings["vllm_options"]
    for name, spec in mappings.items():
        for one in ENDS:
            assert codes(name, {one: "x"}, spec), (name, one)
            assert codes(name, {"x": one}, spec), (name, one)


def test_every_path_is_the_host_s_or_the_controller_s() -> None:
    paths = {name for name, spec in VALUES.items() if spec.get("type") == "path"}
    lists = {name for name in paths if name.endswith("[]")}
    assert paths - lists == HOST_PATHS | CONTROLLER_PATHS
    for name in HOST_PATHS:
        spec = VALUES[name]
        for value in ("/srv/llm", "/data/模型", "/opt/llm-1.0/", spec.get("default")):
            assert not value or codes(name, value, spec) == set(), (name, value)
        for value in (
            "/",
            "//",
            "srv",
            "~",
            "/a b",
            "/a:/b",
            "/a%n",
            "/$HOME",
            '/"a"',
            "/a/../etc",
            "/..",
            "/a;b",
            "/a/./b",
            "/{a}",
        ):
            assert codes(name, value, spec) == {"host_path_malformed"}, (name, value)


HOSTILE = ['a"b', "a b", "a;b", "a'b", "a\\b", "{{a}", "a$b", "a#b", "%[src]", "a,b"]


def test_every_form_has_its_example_and_takes_nothing_else() -> None:
    assert set(FORMS) <= set(VALUES)
    for name, (_pattern, example) in FORMS.items():
        spec = VALUES[name]
        assert codes(name, example, spec) == set(), name
        default = spec.get("default")
        assert not default or codes(name, default, spec) == set(), name
        for value in HOSTILE:
            assert codes(name, value, spec) == {"text_malformed"}, (name, value)


@pytest.mark.parametrize("path", ["/", "//", "tokenize", "/a?b", "/a b", "/%2e"])
def test_no_path_opens_the_whole_api(path: str) -> None:
    """vLLM has what stops or changes the model below the same root."""
    for name in ("vllm_api_paths[]", "gateway_paths[]"):
        assert codes(name, path, VALUES[name]) == {"text_malformed"}
