"""Names that nobody knows, and values that a variable cannot have."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import COMMAND_LINE
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import (
    Unresolved,
    is_unresolved,
)

from tests.support.inventories import KNOWN, V100, Inventory


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("vllm_modle", "vllm_model"),
        ("vllm_modell", "vllm_model"),
        ("llm_model", "vllm_model"),
        ("vllm_tensor_paralel_size", "vllm_tensor_parallel_size"),
        ("vllm_tp", "vllm_tensor_parallel_size"),
        ("vllm_gpu_memory_utilisation", "vllm_gpu_memory_utilization"),
        ("llm_ofline", "llm_offline"),
        ("ray_head", "ray_head_host"),
        ("docker_versoin", "docker_version"),
    ],
)
def test_an_unknown_variable_gets_the_nearest_name(inventory: Inventory, name: str, nearest: str) -> None:
    entry = inventory.set("gpu01", "gpu02", **{name: "x"}).only()
    assert entry["code"] == "unknown_variable"
    assert f"{name} on gpu01, gpu02. Did you mean {nearest}?" in entry["what"]
    assert entry["value"] == '"x"'


def test_an_engine_option_is_sent_to_the_options(inventory: Inventory) -> None:
    entry = inventory.set("gpu03", vllm_enable_prefix_caching=True).only()
    assert entry["code"] == "unknown_engine_variable"
    assert "'enable_prefix_caching: true'" in entry["allowed"]


def test_a_name_that_nothing_is_near(inventory: Inventory) -> None:
    assert inventory.set(gateway_zzz=1).only()["code"] == "unknown_variable_no_hint"


@pytest.mark.parametrize(
    "name", ["vllm-model", "VLLM_MODEL", "vlm_model", "vlllm_model", "llm-offline", "docker-version"]
)
def test_a_name_that_only_looks_like_ours(inventory: Inventory, name: str) -> None:
    assert inventory.set("gpu01", **{name: "x"}).only()["code"] == "suspicious_variable"


@pytest.mark.parametrize(
    "name",
    [
        "model_checks",
        "dockerd_version",
        "my_vllm_model",
        "_vllm_model",
        "model",
        "port",
        "http_port",
        "ansible_user",
        "ansible_ray_head_host",
        "array_size",
        "group_names",
        "nvidia_smi_path",
        "dockerhub_user",
    ],
)
def test_other_peoples_names_are_left_alone(inventory: Inventory, name: str) -> None:
    assert inventory.set(**{name: "x"}).problems() == []


@pytest.mark.parametrize("listed", [["docker_users"], ["docker_*"]])
def test_foreign_names_can_be_listed(inventory: Inventory, listed: list[str]) -> None:
    inventory.set("gpu01", docker_users=["me"], docker_edition="ce") if listed == ["docker_*"] else inventory.set(
        "gpu01", docker_users=["me"]
    )
    assert inventory.codes() != []
    inventory.set("gpu03", llm_foreign_variables=listed)
    assert inventory.problems() == []


def test_other_machines_of_the_inventory_are_not_ours(inventory: Inventory) -> None:
    inventory.hosts["web01"] = {"docker_users": ["www"], "vllm_modle": "x"}
    inventory.groups["web"] = {"hosts": ["web01"], "children": []}
    assert inventory.problems() == []
    inventory.groups["llm_gateway"] = {"hosts": ["web01"], "children": []}
    assert inventory.codes() == ["unknown_variable_no_hint", "unknown_variable"]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("vllm_port", "many", "wrong_type"),
        ("vllm_port", True, "wrong_type"),
        ("vllm_port", 80.5, "wrong_type"),
        ("vllm_port", [8000], "wrong_type"),
        ("vllm_port", 0, "out_of_range"),
        ("vllm_port", "70000", "out_of_range"),
        ("vllm_model", ["a"], "wrong_type"),
        ("vllm_model", True, "wrong_type"),
        ("vllm_model", "https://huggingface.co/Qwen/Qwen2.5-14B-Instruct", "model_is_url"),
        ("vllm_version", 0.1, "version_not_quoted"),
        ("vllm_version", 1, "version_not_quoted"),
        ("docker_version", 27.5, "version_not_quoted"),
        ("vllm_version", "v0.8.5", "version_malformed"),
        ("vllm_version", "latest", "version_malformed"),
        ("vllm_gpu_memory_utilization", 0, "out_of_range"),
        ("vllm_gpu_memory_utilization", 90, "out_of_range"),
        ("vllm_gpu_memory_utilization", "a lot", "wrong_type"),
        ("vllm_tensor_parallel_size", 0, "out_of_range"),
        ("vllm_max_model_len", -1, "out_of_range"),
        ("vllm_start_timeout_seconds", -1, "out_of_range"),
        ("llm_container_uid", -1, "out_of_range"),
        ("llm_container_uid", "root", "wrong_type"),
        ("vllm_executor", "dask", "not_a_choice"),
        ("vllm_executor", "Ray", "not_a_choice_near"),
        ("vllm_enforce_eager", "perhaps", "wrong_type"),
        ("vllm_options", "--swap-space 4", "wrong_type"),
        ("vllm_options", {"swap-space": 4}, "option_spelling"),
        ("vllm_options", {"tensor_parallel_size": 4}, "option_has_variable"),
        ("vllm_options", {"port": 9000}, "option_has_variable"),
        *(
            ("vllm_options", {key: "x"}, "option_never_ready")
            for key in ("ssl_certfile", "--ssl-keyfile", "root_path", "uds")
        ),
        *(
            ("vllm_options", {"host": to}, "option_never_ready")
            for to in ("127.0.0.1", "127.1.2.3", "::1", "LOCALHOST")
        ),
        *(
            ("vllm_options", {key: "x"}, "option_is_secret")
            for key in ("hf_token", "--hf-token", "ssl_keyfile_password")
        ),
        ("vllm_options", {"--max-model-len": 4}, "option_has_variable"),
        *(
            ("vllm_options", {key: "x"}, "option_of_the_plan")
            for key in ("config", "--nnodes", "node-rank", "master_addr")
        ),
        ("vllm_options", {"api_key": "x"}, "option_has_variable"),
        ("vllm_options", {"lora_modules": ["a=/b"]}, "option_has_variable"),
        ("vllm_options", {"speculative_model": "/b"}, "option_has_variable"),
        *(
            ("vllm_extra_volumes", [volume], "volume_malformed")
            for volume in ("/a", "a:/b", "/a:b", "/a:/b:rw", "/a:/llm", "/a:/llm/x", "/a:/run/secrets/x", "/a:/tmp")
        ),
        ("vllm_lora_adapters", [{"name": "a=b", "model": "org/a"}], "adapter_name_malformed"),
        ("vllm_lora_adapters", [{"name": "a"}], "missing_key"),
        ("vllm_options", {"hf_token": "x"}, "option_is_secret"),
        ("models_checks", "a,b", "wrong_type"),
        ("models_checks", ["a"], "wrong_type"),
        ("models_checks", [{"name": "a", "cuont": 1}], "unknown_key"),
        ("models_checks", [{"count": 1}], "missing_key"),
        ("models_checks", [{"name": "a", "count": "b"}], "wrong_type"),
        ("llm_cluster_network", "10.0.0.5/24", "network_malformed"),
        ("llm_cluster_network", "10.0.0.0", "network_malformed"),
        ("llm_cluster_network", "eth1", "network_malformed"),
        ("llm_cluster_network", ["10.0.0.0/24"], "network_malformed"),
        ("llm_firewall_api_sources", ["192.0.2.0/24", "office-lan"], "source_malformed"),
        ("llm_firewall_api_sources", "office-lan", "wrong_type"),
        ("vllm_api_paths", ["/"], "text_malformed"),
        ("vllm_api_paths", ["/tokenize", "rerank"], "text_malformed"),
        ("vllm_api_paths", ["/tokenize /rerank"], "text_malformed"),
        ("vllm_api_paths", ["/%2e%2e"], "text_malformed"),
        ("llm_gpus", 2, "gpus_malformed"),
        ("llm_gpus", ["V100"], "gpus_malformed"),
        ("llm_gpus", [{"name": "V100", "memory_mib": 16384}], "gpus_malformed"),
        ("llm_gpus", [{**V100, "memory_mib": 16}], "gpus_malformed"),
        ("llm_gpus", [{**V100, "memory_mib": "16 GiB"}], "gpus_malformed"),
        ("llm_gpus", [{**V100, "compute_capability": "sm_70"}], "gpus_malformed"),
        ("llm_gpus", [{**V100, "count": 2}], "gpus_malformed"),
        ("llm_gpus", [{**V100, "name": 100}], "gpus_malformed"),
    ],
)
def test_bad_values(inventory: Inventory, name: str, value: object, code: str) -> None:
    entry = inventory.set("gpu03", **{name: value}).only()
    assert entry["code"] == code
    assert all(entry.values())


def test_an_empty_choice_is_shown(inventory: Inventory) -> None:
    entry = inventory.set("gpu03", models_verify_interval="yearly").only()
    assert entry["allowed"] == 'one of "", daily, weekly'


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vllm_port", "8001"),
        ("vllm_port", 8001.0),
        ("vllm_port", None),
        ("vllm_model", "/srv/models/tiny"),
        ("vllm_version", "0.8.5.post1"),
        ("vllm_version", "0.32.0+cpu"),
        ("vllm_version", "0.11.0rc2"),
        ("vllm_gpu_memory_utilization", "0.9"),
        ("vllm_gpu_memory_utilization", 1),
        ("vllm_enforce_eager", "yes"),
        ("vllm_enforce_eager", 0),
        ("vllm_options", {"swap_space": 4}),
        *(("vllm_options", {"host": to}) for to in ("0.0.0.0", "::", "10.0.0.1", "gpu01.lan")),
        ("vllm_served_model_name", 7),
        ("models_checks", [{"name": "a", "count": "1"}]),
        ("llm_cluster_network", "10.0.0.0/24"),
        ("llm_cluster_network", "fd00::/64"),
        ("llm_cluster_network", ""),
        ("llm_firewall_api_sources", ["0.0.0.0/0", "::/0", "192.0.2.7", " 2001:db8::1 "]),
        ("llm_firewall_api_sources", []),
        ("vllm_api_paths", ["/v2/rerank", "/score"]),
        ("llm_gpus", []),
        ("llm_gpus", [{**V100, "compute_capability": 7.0}, V100]),
        ("vllm_api_key", {"any": "thing"}),
    ],
)
def test_good_values(inventory: Inventory, name: str, value: object) -> None:
    assert inventory.set("gpu03", **{name: value}).problems() == []


@pytest.mark.parametrize("value", ["{{ later }}", Unresolved(), Unresolved("undefined")])
def test_what_is_not_known_yet_is_not_judged(value: object) -> None:
    names = sorted([*KNOWN, "ansible_host"])
    assert [found for name in names if (found := Inventory().set(**{name: value}).problems())] == []


def test_parts_that_are_not_known_yet_are_not_judged(inventory: Inventory) -> None:
    assert is_unresolved([{"name": Unresolved()}])
    inventory.set(llm_gpus=[{"name": "{{ gpu }}"}], vllm_options={"{{ key }}": 1}, models_checks=[Unresolved()])
    assert inventory.problems() == []


def test_a_secret_is_never_shown(inventory: Inventory) -> None:
    inventory.set("gpu03", vllm_api_kye="hunter2", vllm_hf_token="hunter2", llm_ofline=Unresolved("vault"))
    problems = inventory.problems()
    assert [entry["value"] for entry in problems] == ["***", "<vllm_api_kye>", "<vllm_hf_token>"]
    assert "hunter2" not in str(problems)


@pytest.mark.parametrize(
    "variables",
    [
        {"vllm_options": {"api_key": "hunter2"}},
        {"vllm_options": {"ssl-keyfile-password": "hunter2"}},
        {"vllm_options": {"hf_token": "hunter2"}},
        {"vllm_environment": {"HF_TOKEN": ["hunter2"]}},
        {"vllm_environment": [{"HF_TOKEN": "hunter2"}]},
        {"vllm_huggingface_credentials": "hunter2"},
        {"ray_environment": "HF_TOKEN=hunter2"},
        {"ray_environment": ["PATH=/x", 'HF_TOKEN="hunter2"']},
        {"vllm_options": "--max-num-seqs 8 --api-key hunter2 --seed 1"},
        {"vllm_options": ["--api-key hunter2"]},
        {"vllm_extra_args": "--ssl-keyfile-password=hunter2"},
        {"vllm_api_keys": ["hunter2"]},
        {"vllm_api_key_value": "hunter2"},
        {"vllm_hub_tokn": "hunter2"},
        {"llm_passwords": ["hunter2"]},
        {"vllm_secrets": {"a": "hunter2"}},
        {"vllm_hf_auth": "hunter2"},
        {"llm_proxy": "http://me:hunter2@proxy:3128"},
        {"vllm_model": "https://me:hunter2@hub.example/a/b"},
        {"models_checks": [{"name": "x", "kye": "hunter2"}]},
        {"gateway_keys": "hunter2"},
        {"gateway_keys": {"alice": "hunter2"}},
        {"gateway_keys": [{"name": "alice", "kye": "hunter2"}]},
    ],
)
def test_a_secret_in_the_wrong_place_is_not_shown_either(inventory: Inventory, variables: dict[str, Any]) -> None:
    problems = inventory.set("gpu03", **variables).problems()
    assert problems
    assert "hunter2" not in str(problems)


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({"vllm_tokenizer_mod": "slow"}, '"slow"'),
        ({"vllm_options": "--max-model-len 8192 --seed=1"}, '"--max-model-len 8192 --seed=1"'),
        ({"vllm_environment": ["TOKENIZERS_PARALLELISM=false"]}, '["TOKENIZERS_PARALLELISM=false"]'),
        ({"llm_mirror": "https://mirror.example/a@b"}, '"https://mirror.example/a@b"'),
        ({"vllm_keep_alive_seconds": 5}, "5"),
    ],
)
def test_what_only_looks_like_a_secret_is_shown(inventory: Inventory, variables: dict[str, Any], shown: str) -> None:
    assert inventory.set("gpu03", **variables).only()["value"] == shown


def test_an_origin_is_told(inventory: Inventory) -> None:
    inventory.more = {"origins": {"gpu03": {"vllm_port": "group_vars/tiny.yml:3", "vllm_modle": COMMAND_LINE}}}
    inventory.set("gpu03", vllm_port=0, vllm_modle=1)
    assert [entry["where"] for entry in inventory.problems()] == ["the command line (-e)", "group_vars/tiny.yml:3"]


def test_without_argument_specs_no_name_is_judged(inventory: Inventory) -> None:
    inventory.set(vllm_modle=1)
    assert check_inventory(inventory.hosts, inventory.groups, {})["problems"] == []


@pytest.mark.parametrize(
    ("name", "value", "codes"),
    [
        ("ray_ulimits", ["nofile:1024:2048", "core:0", "memlock:-1:-1", "nproc:5:-1"], []),
        ("ray_ulimits", ["nofile:2048:1024"], ["ulimit_soft_above_hard"]),
        ("ray_ulimits", ["nofile:-1:1024"], ["ulimit_soft_above_hard"]),
        ("ray_ulimits", ["nofiles:1024"], ["text_malformed"]),
        ("ray_ulimits", ["nofile=1024"], ["text_malformed"]),
        ("ray_capabilities", ["SYS_NICE", "CAP_DAC_OVERRIDE", "ALL"], []),
        ("ray_capabilities", ["NO_SUCH"], ["text_malformed"]),
    ],
)
def test_what_only_the_engine_would_refuse_is_refused_before(
    inventory: Inventory, name: str, value: list[str], codes: list[str]
) -> None:
    """It does so when the container that serves is gone already."""
    assert inventory.set("gpu01", **{name: value}).codes() == codes
