"""The guard: an image that cannot serve the GPUs is refused, and the release that works is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._cuda_binaries import Code
from ansible_collections.baremetal.llm.plugins.module_utils._image_archive import complete, describe
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.compatibility import (
    check_images,
    image_problems,
    planned_driver,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES

from tests.support.each import check_each

TABLE = Path(__file__).parents[4] / "data" / "vllm" / "releases.tsv"
# What torch itself is built for, next to 7.0: read from its wheels, docs/reference/images.md
TORCH = {12: ["sm_75", "sm_80", "sm_86", "sm_90"], 13: ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]}


class Row(NamedTuple):
    version: str
    cuda: str
    vllm: str
    torch_has_70: str
    v100: str
    least: str
    driver: str


ROWS = [Row(*line.split("\t")) for line in TABLE.read_text().splitlines() if not line.startswith("#")]


def image(row: Row) -> dict[str, Any]:
    """The official image of a release as the reader would describe it."""
    vllm = []
    for item in row.vllm.split():
        number = item.removesuffix("+PTX").replace(".", "")
        vllm += ["sm_" + number] + (["compute_" + number] if item.endswith("+PTX") else [])
    torch = (["sm_70"] if row.torch_has_70 == "true" else []) + TORCH[int(row.cuda.split(".")[0])]
    files = {
        "x/dist-packages/vllm/_C.abi3.so": {"vllm": Code(100, dict.fromkeys(vllm, 60))},
        "x/dist-packages/torch/lib/libtorch_cuda.so": {"torch": Code(300, dict.fromkeys(torch, 300))},
        "x/dist-packages/torch/version.py": {"torch_cuda": ".".join(row.cuda.split(".")[:2])},
    }
    reference = "vllm/vllm-openai:v" + row.version
    (record,) = complete(
        [{"reference": reference, "id": "sha256:1"}], [{"references": [reference], **describe(files, {})}]
    )
    return record


def codes(row: Row, *gpus: str, driver: str | None = None) -> list[str]:
    return [entry["code"] for entry in image_problems("chat", image(row), gpus, driver)]


def test_the_table_is_whole() -> None:
    assert len(ROWS) == 74
    assert {row.version for row in ROWS} == set(RELEASES)


def test_the_guard_agrees_with_what_is_known_of_the_release() -> None:
    check_each({row.version: row for row in ROWS}, check)


def check(row: Row) -> None:
    assert codes(row, "7.0") == (["image_without_code"] if row.v100 == "fails" else [])
    assert bool(codes(row, "7.0")) == (float(row.least) > 7.0)
    for gpu in ("7.5", "8.0", "8.6", "8.9", "9.0"):
        assert codes(row, gpu) == []
    assert codes(row, "6.1") == ["image_without_code"]
    assert image(row)["driver_minimum"] == row.driver
    assert codes(row, "8.0", driver=row.driver) == []
    assert codes(row, "8.0", driver="470.57.02") == ["image_needs_driver"]
    assert codes(row, "8.0", driver="570.195.03") == (["image_needs_driver"] if row.cuda.startswith("13") else [])


NEW, LAST_FOR_VOLTA = ROWS[-1], next(row for row in ROWS if row.version == "0.19.1")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_works_is_named(lang: str) -> None:
    (entry,) = image_problems("chat", image(NEW), ["7.0"], "570.195.03", "group_vars/chat.yml", lang)
    assert "7.0" in entry["what"]
    assert "sm_75" in entry["what"]
    assert entry["value"] == '"vllm/vllm-openai:v0.33.0"'
    assert entry["where"] == "group_vars/chat.yml"
    assert "0.8.5.post1" in entry["allowed"], "serves a V100 best"
    assert "0.19.1" in entry["allowed"], "the newest whose image has code for it"


def test_the_release_named_works_on_all_gpus_and_with_the_driver() -> None:
    def advice(*gpus: str, driver: str | None) -> str:
        return image_problems("chat", image(NEW), gpus, driver)[0]["allowed"]

    assert "up to 0.19.1" in advice("7.0", "9.0", driver=None)
    assert "nvidia_driver_version 580.65.06 or newer" in advice("9.0", driver="570.195.03")
    assert "vllm_version 0.19.1, the newest" in advice("9.0", driver="570.195.03")
    assert "no official image runs" in advice("9.0", driver="470.57.02")
    assert "no official one is" in advice("6.1", driver=None)


def test_a_gpu_that_depends_on_ptx_needs_the_driver_of_the_compiler() -> None:
    built = {"containers": 4, "architectures": {}, "built_for": ["sm_80", "compute_80"]}
    made = {"reference": "mine:1", "cuda_version": "12.4", "contents": {"libraries": {"vllm": built, "torch": built}}}
    assert image_problems("chat", made, ["8.6"], "530.30.02") == []
    assert [entry["code"] for entry in image_problems("chat", made, ["9.0"], "530.30.02")] == ["image_needs_driver"]
    assert image_problems("chat", made, ["9.0"], "550.54.15") == []


# GPUs, driver, lowest driver of which the message speaks; an image of CUDA 12.4
CARDS = (
    ("8.9", "535.171.04", "550.54.14"),
    ({"name": "NVIDIA GeForce RTX 4090", "compute_capability": "8.9"}, "535.171.04", "550.54.14"),
    ({"name": "NVIDIA RTX A6000", "compute_capability": "8.6"}, "535.171.04", "550.54.14"),
    ({"name": "NVIDIA TITAN V", "compute_capability": "7.0"}, "535.171.04", "550.54.14"),
    ({"name": "Quadro RTX 8000", "compute_capability": "7.5"}, "535.171.04", "550.54.14"),
    ({"name": "NVIDIA GeForce RTX 4090", "compute_capability": "8.9"}, "550.54.15", None),
    ({"name": "NVIDIA L40S", "compute_capability": "8.9"}, "535.171.04", None),
    ({"name": "Tesla T4", "compute_capability": "7.5"}, "535.171.04", None),
    ({"name": "NVIDIA A40", "compute_capability": "8.6"}, "535.171.04", None),
    ({"name": "NVIDIA A100-SXM4-80GB", "compute_capability": "8.0"}, "535.171.04", None),
    ("7.0", "535.171.04", None),
    ("9.0", "535.171.04", None),
    ("9.0", "520.61.05", "525.60.13"),
)


def test_only_cards_of_data_centres_run_libraries_for_an_older_driver() -> None:
    official = {"reference": "vllm/vllm-openai:v0.4.3", "cuda_version": "12.4.1"}
    built = ["7.0", "7.5", "8.0", "8.6", "8.9", "9.0"]
    for gpu, driver, lowest in CARDS:
        found = image_problems("chat", {**official, "compute_capabilities": built}, [gpu], driver)
        assert [entry["code"] for entry in found] == ["image_needs_driver"] * (lowest is not None), gpu
        assert not found or lowest in found[0]["what"], gpu
        assert not found or driver.startswith("520") or "0.19.1, the newest" in found[0]["allowed"], gpu


def test_an_image_made_from_another_base_brings_no_such_libraries() -> None:
    built = {"containers": 4, "architectures": {}, "built_for": ["sm_89"]}
    contents = {"libraries": {"vllm": built, "torch": built}}
    made = {"reference": "mine:1", "cuda_version": "12.4", "contents": contents}
    assert image_problems("chat", made, ["8.9"], "535.171.04") == []
    later = {**made, "vllm_version": "0.17.0", "contents": {**contents, "driver_requirement": "cuda>=12.9"}}
    assert image_problems("chat", later, ["8.9"], "535.171.04") == []
    of_torch = {**made, "cuda_version": "12.1", "contents": {**contents, "driver_requirement": "cuda>=12.4"}}
    assert "CUDA 12.4 needs 550.54.14" in image_problems("chat", of_torch, ["8.9"], "535.171.04")[0]["what"]
    based = {**made, "contents": {**contents, "driver_requirement": "cuda>=12.4 brand=tesla"}}
    assert [entry["code"] for entry in image_problems("chat", based, ["8.9"], "535.171.04")] == ["image_needs_driver"]


def test_an_image_without_cuda_code_is_refused_unless_the_inventory_answers_for_it() -> None:
    made = {"reference": "mine:cpu", "contents": {"reader": 1, "libraries": {}}}
    assert [entry["code"] for entry in image_problems("chat", made, ["7.0"])] == ["image_without_cuda"]
    assert image_problems("chat", {**made, "compute_capabilities": ["7.0"]}, ["7.0"]) == []
    answered = image_problems("chat", {**made, "compute_capabilities": ["8.0"]}, ["7.0"])
    assert [entry["code"] for entry in answered] == ["image_without_code"]


def test_what_the_image_holds_counts_more_than_what_the_inventory_says() -> None:
    assert image_problems("chat", {**image(NEW), "compute_capabilities": ["7.0"]}, ["7.0"]) != []


def test_an_image_that_was_not_looked_into_and_unknown_gpus_are_not_refused() -> None:
    assert image_problems("chat", {"reference": "mine:1"}, ["7.0"], "470") == []
    assert image_problems("chat", image(NEW), [None, ""]) == []


def test_all_deployments_of_an_inventory() -> None:
    deployments = {name: {"hosts": [name], "head": name} for name in ("old", "new", "unknown")}
    hosts: dict[str, Any] = {
        "old": {"vllm_version": "0.33.0", "llm_gpus": [{"compute_capability": "7.0"}]},
        "new": {
            "vllm_image": "vllm/vllm-openai:v0.33.0",
            "vllm_version": "0.33.0",
            "llm_gpus": [{"compute_capability": "9.0"}],
        },
        "unknown": {"vllm_version": "0.1.0"},
    }
    found = check_images(deployments, hosts, [image(NEW)], ["580.95.05"])
    assert [(entry["code"], entry["where"]) for entry in found] == [("image_without_code", "group_vars/old.yml")]
    found = check_images(deployments, hosts, [image(NEW)], ["570.195.03"])
    assert [entry["code"] for entry in found] == ["image_without_code", "image_needs_driver"]


def test_which_driver_a_host_will_have() -> None:
    assert planned_driver({}, ["570.195.03", "570.195.03"]) == "570.195.03"
    assert planned_driver({}, ["570.195.03", "580.95.05"]) is None
    assert planned_driver({"nvidia_driver_version": "580.95.05"}, ["570.195.03", "580.95.05"]) == "580.95.05"
    assert planned_driver({"nvidia_driver_method": "present"}, ["570.195.03"]) is None


def test_an_image_for_another_platform_is_refused() -> None:
    """Saved on an Arm machine: it would not start on any host."""
    image = {"reference": "vllm/vllm-openai:v0.11.0", "contents": {"platform": "linux/arm64"}}
    assert [entry["code"] for entry in image_problems("chat", image, ["7.0"])] == ["image_platform"]
    assert image_problems("chat", {**image, "contents": {}}, ["7.0"]) == []
