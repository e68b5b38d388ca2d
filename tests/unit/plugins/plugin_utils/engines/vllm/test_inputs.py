"""What the planner is asked for a deployment."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.filter import deployment_image
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import image_reference, stands_for
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.inputs import plan_inputs, ray_images

V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
MANIFEST = {
    "files": [
        {"path": "models/lab--tiny/config.json", "model": "lab/tiny"},
        {"path": "models/other/config.json", "model": "other"},
        {"path": "images.tar", "images": [{"reference": "mine:1", "compute_capabilities": ["7.0"]}]},
    ]
}


def variables(**changes: Any) -> dict[str, Any]:
    return {"vllm_model": "lab/tiny", "vllm_version": "0.8.5", "llm_gpus": [V100], **changes}


def test_the_head_comes_first_and_found_gpus_win_over_declared_ones() -> None:
    hostvars = {"a": variables(ansible_facts={"llm_gpus_found": [V100, V100]}), "b": variables()}
    asked = plan_inputs({"hosts": ["a", "b"], "head": "b"}, hostvars)
    assert [(node["host"], len(node["gpus"])) for node in asked["nodes"]] == [("b", 1), ("a", 2)]


def test_the_memory_of_a_host_that_was_looked_at_is_told() -> None:
    hostvars = {"a": variables(ansible_facts={"llm_memory_mib": 64000}), "b": variables()}
    asked = plan_inputs({"hosts": ["a", "b"], "head": "a"}, hostvars)
    assert [node.get("memory_mib") for node in asked["nodes"]] == [64000, None]


def test_only_what_the_user_set_is_asked_for() -> None:
    head = variables(
        vllm_max_model_len=4096, vllm_enforce_eager=False, vllm_options={"seed": 1}, vllm_port=8000, vllm_dtype=None
    )
    asked = plan_inputs({"hosts": ["a"], "head": "a"}, {"a": head})
    assert asked["request"] == {
        "seed": 1,
        "vllm_version": "0.8.5",
        "max_model_len": 4096,
        "enforce_eager": False,
        "image_has_ray": True,
    }
    assert asked["config"] is None


def test_the_network_between_hosts_is_the_planners_to_weigh() -> None:
    asked = plan_inputs({"hosts": ["a"], "head": "a"}, {"a": variables(vllm_interconnect="fast")})
    assert asked["request"]["interconnect"] == "fast"


def test_the_planner_sees_the_environment_without_its_secrets() -> None:
    environment = {"VLLM_USE_V1": 0, "VLLM_API_KEY": "x", "HF_TOKEN": "y", "NCCL_DEBUG": "WARN"}
    asked = plan_inputs({"hosts": ["a"], "head": "a"}, {"a": variables(vllm_environment=environment)})
    assert asked["request"]["environment"] == {"VLLM_USE_V1": "0", "NCCL_DEBUG": "WARN"}


def test_the_executor_is_asked_for_unless_it_is_left_to_the_planner() -> None:
    for executor, expected in (("auto", None), ("mp", "mp")):
        asked = plan_inputs({"hosts": ["a"], "head": "a"}, {"a": variables(vllm_executor=executor)})
        assert asked["request"].get("distributed_executor_backend") == expected


def test_the_manifest_names_the_config_and_what_the_image_has_code_for() -> None:
    asked = plan_inputs({"hosts": ["a"], "head": "a"}, {"a": variables(vllm_image="mine:1")}, MANIFEST)
    assert asked["config"] == "models/lab--tiny/config.json"
    assert asked["request"]["compute_capabilities"] == ["7.0"]
    official = plan_inputs({"hosts": ["a"], "head": "a"}, {"a": variables()}, MANIFEST)
    assert "compute_capabilities" not in official["request"]


def test_without_an_image_the_official_one_of_the_release_is_meant() -> None:
    assert image_reference(variables()) == "vllm/vllm-openai:v0.8.5"
    assert image_reference(variables(vllm_image="mine:1")) == "mine:1"


def test_whether_the_image_has_ray_follows_from_its_record_or_the_release() -> None:
    def asked(**changes: Any) -> bool:
        inputs = plan_inputs({"hosts": ["a"], "head": "a"}, {"a": variables(**changes)}, WITH_RAY)
        found: bool = inputs["request"]["image_has_ray"]
        return found

    WITH_RAY = {"files": [{"path": "images.tar", "images": [{"reference": "mine:1", "ray_version": "2.60.0"}]}]}
    assert asked(vllm_version="0.17.1")
    assert not asked(vllm_version="0.18.0")
    assert asked(vllm_version="0.32.0", vllm_image="mine:1")
    assert not asked(vllm_version="0.32.0", vllm_image="other:1")


def test_which_images_need_ray() -> None:
    hostvars = {
        "a": {"vllm_version": "0.19.1"},
        "b": {"vllm_version": "0.20.0"},
        "c": {"vllm_version": "0.21.0", "vllm_executor": "ray"},
        "d": {"vllm_image": "mine:1", "vllm_executor": "mp"},
    }
    deployments = {
        "several": {"hosts": ["a", "b"], "head": "a"},
        "one": {"hosts": ["b"], "head": "b"},
        "asked": {"hosts": ["c"], "head": "c"},
        "multiprocessing": {"hosts": ["d", "a"], "head": "d"},
        "replica": {"hosts": ["a", "b"], "head": "a"},
    }
    assert ray_images(deployments, hostvars) == ["vllm/vllm-openai:v0.19.1", "vllm/vllm-openai:v0.21.0"]


def test_the_image_that_the_bundle_made_of_the_named_one_is_run() -> None:
    images = [{"reference": "other:1"}, {"reference": "mine:1-ray", "id": "sha256:1", "base": {"reference": "mine:1"}}]
    records: list[dict[str, Any]] = [{"path": "driver.run"}, {"path": "images.tar", "images": images}]
    run = deployment_image.FilterModule().filters()["deployment_image"]
    assert run("mine:1", "0.8.5", records) == "mine:1-ray"
    assert run("sha256:1", "0.8.5", records) == "mine:1-ray"
    assert run("other:1", "0.8.5", records) == "other:1"
    assert run("not-there:1", "0.8.5", records) == "not-there:1"
    assert run("", "0.8.5", records) == run("", "0.8.5") == "vllm/vllm-openai:v0.8.5"


@pytest.mark.parametrize(
    ("base", "found"), [({"reference": "mine:1"}, True), ({"reference": "mine:2"}, False), ("mine:1", False)]
)
def test_an_image_made_from_another_stands_for_it(base: object, found: bool) -> None:
    assert stands_for({"reference": "mine:1-ray", "id": "sha256:1", "base": base}, "mine:1") is found
    assert stands_for({"reference": "mine:1-ray", "id": "sha256:1"}, "sha256:1")
