"""A bundle that lacks something, or is none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.bundle import same_release
from hypothesis import given

from tests.support.inventories import JUNK, MANIFEST, V100, Inventory

CONTENTS = {"libraries": {name: {"built_for": ["sm_75", "sm_80"]} for name in ("vllm", "torch")}}


@pytest.fixture
def offline(inventory: Inventory) -> Inventory:
    inventory.groups["llm_deployments"] = {"hosts": ["gpu03"], "children": ["tiny"]}
    inventory.more = {"bundles": {"/srv/bundle": {"manifest": copy.deepcopy(MANIFEST), "error": None}}}
    return inventory.set("gpu03", llm_offline=True, llm_bundle_dir="/srv/bundle")


def held(offline: Inventory, **image: Any) -> Inventory:
    """With this in the image of the bundle, and a driver beside it."""
    manifest = copy.deepcopy(MANIFEST)
    manifest["files"][1]["images"][0].update(image)  # type: ignore[index]
    manifest["files"].append({"path": "driver.run", "kind": "driver", "version": "570.195.03"})  # type: ignore[attr-defined]
    offline.more = {"bundles": {"/srv/bundle": {"manifest": manifest}}}
    return offline


def test_a_bundle_that_holds_all(offline: Inventory) -> None:
    assert offline.problems() == []
    assert offline.set("gpu03", vllm_image="lab/vllm:1").problems() == []
    assert offline.set("gpu03", vllm_image="sha256:aa").problems() == []
    assert offline.set("gpu03", vllm_model="/srv/models/other").problems() == []


@pytest.mark.parametrize(
    ("settings", "code", "allowed"),
    [
        ({"llm_bundle_dir": None}, "bundle_dir_missing", "manifest.yml"),
        ({"llm_bundle_dir": "/nowhere"}, "bundle_missing", "bundle.yml"),
        ({"vllm_model": "lab/other"}, "bundle_without_model", "lab/tiny-qwen2"),
        ({"vllm_tokenizer": "lab/other"}, "bundle_without_model", "lab/tiny-qwen2"),
        ({"vllm_speculative_model": "lab/other"}, "bundle_without_model", "lab/tiny-qwen2"),
        ({"vllm_lora_adapters": [{"name": "a", "model": "lab/o"}]}, "bundle_without_model", "lab/tiny-qwen2"),
        ({"vllm_version": "0.31.0"}, "bundle_without_version", "0.32.0+cpu"),
        ({"vllm_version": "0.32.0+cu128"}, "bundle_without_version", "0.32.0+cpu"),
        ({"vllm_image": "lab/vllm:2"}, "bundle_without_image", "lab/vllm:1"),
        ({"vllm_image": "lab/vllm:1", "vllm_version": "0.31.0"}, "image_of_other_version", "0.32.0+cpu"),
    ],
)
def test_a_bundle_that_lacks_something(offline: Inventory, settings: dict[str, Any], code: str, allowed: str) -> None:
    entry = offline.set("gpu03", **settings).only()
    assert entry["code"] == code
    assert allowed in entry["allowed"]
    bundles, offline.more = offline.more, {}
    assert offline.problems() == []
    offline.more = bundles
    assert offline.set("gpu03", llm_offline="no").problems() == []


def test_the_image_of_the_web_page_is_in_the_bundle(offline: Inventory) -> None:
    offline.groups |= {group: {"hosts": ["gpu03"]} for group in ("llm_gateway", "llm_web_ui")}
    entry = offline.set("gpu03", web_ui_image="lab/page:1").only()
    assert entry["code"] == "web_ui_not_bundled"
    assert "lab/page:1" in entry["value"]
    assert "/srv/bundle" in entry["allowed"]
    assert offline.set("gpu03", web_ui_image="lab/vllm:1").problems() == []
    assert offline.set("gpu03", web_ui_image="{{ of_the_vault }}").problems() == []
    assert offline.set("gpu03", web_ui_image="lab/page:1").codes() == ["web_ui_not_bundled"]
    assert offline.set("gpu03", llm_offline=False).problems() == []
    # It is said once that there is no bundle.
    assert offline.set("gpu03", llm_offline=True, llm_bundle_dir="/nowhere").codes() == ["bundle_missing"]


def test_the_images_of_monitoring_are_in_the_bundle(offline: Inventory) -> None:
    offline.groups["llm_monitoring"] = {"hosts": ["gpu03"]}
    assert offline.problems() == [], "none is asked for"
    entry = offline.set("gpu03", monitoring_grafana_image="grafana/grafana:1").only()
    assert entry["code"] == "grafana_not_bundled"
    assert "grafana/grafana:1" in entry["value"]
    assert offline.set("gpu03", monitoring_mode="rules_only").problems() == []
    assert offline.set("gpu03", monitoring_grafana_image="lab/vllm:1", monitoring_mode="full").problems() == []
    dcgm = {"monitoring_gpu_exporter": "dcgm", "monitoring_dcgm_image": "lab/dcgm:4.2.3-4.1.3-ubuntu22.04"}
    entry = offline.set("gpu03", **dcgm).only()
    assert entry["code"] == "gpu_exporter_refused"
    assert "the bundle does not hold lab/dcgm" in entry["what"]
    assert offline.set("gpu03", monitoring_exporter_enabled=False).problems() == []
    assert offline.set("gpu03", monitoring_exporter_enabled=True, monitoring_gpu_exporter="auto").problems() == []
    assert offline.set("gpu03", **dcgm, llm_offline=False).problems() == []
    del offline.groups["llm_monitoring"]
    assert offline.set("gpu03", llm_offline=True, monitoring_grafana_image="grafana/grafana:1").problems() == []


@pytest.mark.parametrize(
    "bundle",
    [
        {"manifest": None, "error": "line 3: not YAML"},
        {"manifest": {}},
        {"manifest": ["a"]},
        {"manifest": {"schema": 2, "files": []}},
    ],
)
def test_a_manifest_that_is_of_no_use(offline: Inventory, bundle: dict[str, Any]) -> None:
    offline.more = {"bundles": {"/srv/bundle": bundle}}
    assert offline.only()["code"] == "bundle_unreadable"


def test_an_image_without_code_for_the_gpus_is_refused(offline: Inventory) -> None:
    assert held(offline, contents=CONTENTS).codes() == [], "the GPUs are not known yet"
    problem = held(offline.set("gpu03", llm_gpus=[V100]), contents=CONTENTS).only()
    assert problem["code"] == "image_without_code"
    assert problem["where"] == "group_vars/tiny.yml"
    assert "0.19.1" in problem["allowed"]
    offline.set("gpu03", llm_gpus=[{**V100, "compute_capability": "8.0"}])
    assert held(offline, contents=CONTENTS, cuda_version="12.9").codes() == []
    assert held(offline, contents=CONTENTS, cuda_version="13.0").only()["code"] == "image_needs_driver"
    offline.set("gpu03", vllm_image="lab/vllm:1")
    assert held(offline, contents=CONTENTS, cuda_version="13.0").only()["code"] == "image_needs_driver"


@pytest.mark.parametrize("contents", [None, 1, [], {"libraries": 1}, {"libraries": {"vllm": 1}}])
def test_contents_that_are_none_are_survived(offline: Inventory, contents: Any) -> None:
    held(offline.set("gpu03", llm_gpus=[V100]), contents=contents, compute_capabilities=1).check()


def test_a_missing_bundle_is_told_once(inventory: Inventory) -> None:
    inventory.more = {"bundles": {}}
    assert inventory.set(llm_offline=True).codes() == ["bundle_dir_missing"]
    assert inventory.set(llm_bundle_dir="/nowhere").codes() == ["bundle_missing"]


@pytest.mark.parametrize("manifest", [{"schema": 1}, {"schema": 1, "files": None}, {"schema": 1, "files": [1, {}]}])
def test_an_empty_manifest_does_not_break_the_check(offline: Inventory, manifest: dict[str, Any]) -> None:
    offline.more = {"bundles": {"/srv/bundle": {"manifest": manifest}}}
    assert offline.codes() == ["bundle_without_model", "bundle_without_version"]


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("0.32.0", "0.32.0", True),
        ("0.32.0", "0.32.0+cpu", True),
        ("0.32.0+cpu", "0.32.0+cpu", True),
        ("0.32.0+cpu", "0.32.0", False),
        ("0.8.5", "0.8.5.post1", False),
    ],
)
def test_releases(wanted: str, found: str, same: bool) -> None:
    assert same_release(wanted, found) is same


@given(JUNK)
def test_no_manifest_breaks_the_check(content: Any) -> None:
    broken = Inventory().set(llm_offline=True, llm_bundle_dir="/srv/bundle")
    broken.more = {"bundles": {"/srv/bundle": {"manifest": {"schema": 1, "files": content}}}}
    assert broken.problems()


def test_an_environment_is_made_of_wheels_of_the_release(offline: Inventory) -> None:
    offline.set("gpu03", vllm_runtime="venv")
    problem = offline.only()
    assert (problem["code"], problem["value"].strip('"')) == ("bundle_without_environment", "0.32.0")
    manifest = offline.more["bundles"]["/srv/bundle"]["manifest"]
    for version in ("0.3.0", "0.32.0"):
        name = f"vllm-{version}"
        manifest["files"].append(
            {"path": f"{name}/x.whl", "kind": "python", "environment": name, "vllm_version": version}
        )
        if version == "0.3.0":
            assert "0.3.0" in offline.only()["allowed"]
    assert offline.problems() == []
    assert offline.set("gpu03", vllm_version="0.31.0", vllm_python="/opt/vllm/bin/python3").problems() == []
