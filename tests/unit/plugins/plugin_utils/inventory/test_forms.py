"""Every variable of every role has its form: a number its bounds, a path what a host can have, a text one line and what its reader understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.forms import (
    BOUNDS,
    FORMS,
    HOST_PATHS,
    SEVERAL_LINES,
    WRITTEN_ON_CONTROLLER,
    bounds_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.value_types import value_faults
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.secrets import is_secret

from tests.support.hostile import parts

# Files of the controller, which only Ansible and Python open: any name that a file can have.
CONTROLLER_PATHS = {
    *("bundle_ray_wheels_dir", "bundle_signing_key", "gateway_tls_certificate", "gateway_tls_key", "llm_bundle_dir"),
    *("llm_backup_file", "llm_inventory_dir", "llm_log", "llm_report_dir", "llm_restore_dir"),
    *("llm_secrets_dir", "llm_sources_dir"),
    *(
        "vllm_chat_template",
        "vllm_generation_config",
        "lmdeploy_model_config",
        "sglang_model_config",
        "triton_model_config",
        "vllm_model_config",
        "vllm_tool_parser_plugin",
        "web_ui_sso_ca_certificate",
    ),
}


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
            "/opt",
            "/etc/",
            "/usr/lib",
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


# Texts that no pattern could hold: each reaches its reader as a value of YAML or JSON, as an element of an argv, as a quoted word, or only Python
# and Ansible read it.
QUOTED = {
    *(
        "bundle_artefacts[].path",
        "bundle_artefacts[].sha256",
        "bundle_artefacts[].source",
        "bundle_export",
        "bundle_kernels[]",
        "bundle_lists",
    ),
    *("bundle_huggingface_endpoint", "bundle_modelscope_endpoint", "bundle_systems[]", "bundle_wheels[]"),
    *(
        "bundle_images[].compute_capabilities[]",
        "bundle_images[].python_version",
        "bundle_images[].ray_version",
        "bundle_images[].vllm_version",
    ),
    *(
        "bundle_ray_extra_packages[]",
        "bundle_ray_version",
        "bundle_venvs[].glibc",
        "bundle_venvs[].index_urls[]",
        "bundle_venvs[].python",
    ),
    *("bundle_venvs[].released_before", "bundle_venvs[].requirements[]", "bundle_venvs[].vllm_version"),
    *(
        "gateway_keys[].models[]",
        "gateway_replica",
        "llm_bundle_allowed_signers",
        "llm_bundle_manifest_sha256",
        "llm_fleet",
    ),
    *(
        "llm_foreign_variables[]",
        "llm_model",
        "llm_nccl_algo",
        "llm_nccl_debug",
        "llm_nccl_net_gdr_level",
        "llm_node",
        "models_files[]",
    ),
    *(
        "monitoring_logs_url",
        "monitoring_logs_username",
        "monitoring_receivers[].from",
        "monitoring_receivers[].smarthost",
    ),
    *(
        "monitoring_receivers[].to",
        "monitoring_receivers[].username",
        "monitoring_runbook_url",
        "nvidia_driver_runfile_options[]",
    ),
    *("preflight_kernel_minimum", "preflight_reach[]", "preflight_supported_architectures[]"),
    *(
        "vllm_compute_capabilities[]",
        "vllm_kv_cache_dtype",
        "vllm_quantization",
        "vllm_reasoning_parser",
        "llama_cpp_report_prompt",
        "llama_cpp_served_model_name",
        "lmdeploy_report_prompt",
        "lmdeploy_served_model_name",
        "ollama_report_prompt",
        "ollama_served_model_name",
        "sglang_report_prompt",
        "sglang_served_model_name",
        "triton_kv_cache_dtype",
        "triton_report_prompt",
        "triton_served_model_name",
        "vllm_report_prompt",
    ),
    *(
        "vllm_served_model_name",
        "vllm_tool_call_parser",
        "web_ui_ldap.app_dn",
        "web_ui_ldap.name",
        "web_ui_ldap.search_base",
    ),
    *(
        "web_ui_ldap.search_filter",
        "web_ui_oidc.admin_roles[]",
        "web_ui_oidc.allowed_roles[]",
        "web_ui_oidc.client_id",
        "web_ui_oidc.name",
    ),
    *("web_ui_oidc.roles_claim", "web_ui_oidc.scopes"),
}
# Texts with a rule and a message of their own.
RULED = {
    *(
        "llm_cluster_network",
        "llm_engine",
        "llm_firewall_api_sources[]",
        "llm_gpu_indices[]",
        "monitoring_receivers[].name",
        "monitoring_receivers[].url",
    ),
    *(
        "ray_head_host",
        "vllm_extra_arguments[]",
        "llama_cpp_extra_volumes[]",
        "lmdeploy_extra_volumes[]",
        "lmdeploy_version",
        "ollama_extra_volumes[]",
        "ollama_version",
        "sglang_extra_volumes[]",
        "sglang_version",
        "triton_extra_volumes[]",
        "triton_version",
        "vllm_extra_volumes[]",
        "vllm_lora_adapters[].name",
        "vllm_version",
        "web_ui_admin_email",
    ),
}


def test_every_text_has_a_pattern_or_a_reader_that_takes_any() -> None:
    texts = {
        name
        for name, spec in VALUES.items()
        if spec.get("type", "str") == "str"
        and not spec.get("choices")
        and not spec.get("no_log")
        and not is_secret(name)
    }
    unruled = texts - set(FORMS)
    assert (sorted(unruled - QUOTED - RULED), sorted((QUOTED | RULED) - unruled)) == ([], [])


@pytest.mark.parametrize(
    ("said", "codes_wanted"),
    [
        (
            {
                "LimitNOFILE": "16384",
                "MemoryMax": "2G",
                "TasksMax": "80%",
                "OOMScoreAdjust": -500,
                "LimitCORE": "infinity",
            },
            set(),
        ),
        ({"ExecStartPre": "/bin/sh"}, {"text_malformed"}),
        ({"LimitNOFILE": "1 /bin/sh"}, {"text_malformed"}),
        ({"LimitNOFILE=1": "2"}, {"text_malformed"}),
        ({"LimitNOFILE": None}, {"text_malformed"}),
    ],
)
def test_limits_of_units_are_limits(said: dict[str, Any], codes_wanted: set[str]) -> None:
    for name in ("docker_unit_limits", "monitoring_unit_limits"):
        assert codes(name, said, VALUES[name]) == codes_wanted


def test_runs_write_into_no_folder_of_the_system_on_the_controller() -> None:
    for name in WRITTEN_ON_CONTROLLER:
        spec = VALUES[name]
        for value in ("/", "//", "/etc/", "/usr/../var", "/home"):
            assert codes(name, value, spec) == {"controller_folder_of_system"}, (name, value)
        for value in ("/srv/llm", "~/llm", "secrets", "/home/me"):
            assert codes(name, value, spec) == set(), (name, value)


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
