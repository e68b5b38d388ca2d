"""The models of a deployment: which come to its hosts, and where they lie there."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.filter import needed_models as needed_models_filter
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import Wishes, wanted
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import (
    Source,
    folder_of,
    folders_outside,
    handing,
    model_path,
    needed_models,
    origins,
    source_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.disks import disk_needs

from tests.support.deployments import host, plan

SERVED: dict[str, Any] = {
    "vllm_model": "org/big",
    "vllm_tokenizer": "org/words",
    "vllm_speculative_model": "/data/small",
    "vllm_lora_adapters": [{"name": "a", "model": "org/sql"}, {"name": "b", "model": "org/sql"}],
}
RECORDS: list[dict[str, Any]] = [
    {"kind": "model", "model": name, "path": f"models/{name}/x", "size": 1, "sha256": name}
    for name in ("org/big", "org/words", "org/sql", "org/other")
]


def test_each_model_once_with_the_variable_that_names_it() -> None:
    assert needed_models(SERVED) == {
        "org/big": "vllm_model",
        "org/words": "vllm_tokenizer",
        "/data/small": "vllm_speculative_model",
        "org/sql": "vllm_lora_adapters",
    }
    assert needed_models({"vllm_model": "org/big", "vllm_tokenizer": None, "vllm_lora_adapters": None}) == {
        "org/big": "vllm_model"
    }


def test_the_filter_asks_for_the_same() -> None:
    asked = needed_models_filter.FilterModule().filters()["needed_models"]
    assert asked("org/big", "org/words", "/data/small", SERVED["vllm_lora_adapters"]) == list(needed_models(SERVED))
    assert asked("org/big") == ["org/big"]


def test_all_of_them_come_with_the_bundle_and_need_room() -> None:
    variables = {**SERVED, "llm_gpus": [], "vllm_version": "0.8.5"}
    found = wanted({"d": {"hosts": ["a"], "head": "a"}}, {"a": variables}, Wishes())
    models = [item for item in found["items"] if item["kind"] == "model"]
    assert [(item["fields"]["model"], item["source"]) for item in models] == [
        (name, f"huggingface:{name}") for name in ("org/big", "org/words", "org/sql")
    ]
    assert [need["name"] for need in disk_needs(RECORDS, list(needed_models(SERVED)))] == ["x"] * 3


def test_another_adapter_is_another_thing_to_copy() -> None:
    options: dict[str, Any] = {role: [] for role in changes.BY_VARIABLES}
    asked = [
        changes.asked_by_variables({**SERVED, "vllm_lora_adapters": adapters}, options, RECORDS, "image")
        for adapters in (SERVED["vllm_lora_adapters"], [{"name": "a", "model": "org/other"}])
    ]
    assert {role for role in changes.BY_VARIABLES if asked[0][role] != asked[1][role]} == {"models"}


def test_containers_see_the_models_and_volumes_and_cannot_write_them() -> None:
    more = {**SERVED, "vllm_extra_volumes": ["/srv/a:/a", "/srv/b:/b:ro"]}
    variables = {"gpu1": host(1, **more), "gpu2": host(2, **more)}
    made = Deployment("d", "gpu1", ["gpu1", "gpu2"], plan("ray", 1, 1), "image:1", variables)
    for name in variables:
        sections = host_sections(made.of(name))
        containers = [sections[role]["container"] for role in ("ray", "vllm") if sections[role]["container"]]
        for container in containers:
            mounted = [volume for volume in container["volumes"] if volume.endswith(":ro")]
            assert {"/opt/llm/models:/opt/llm/models:ro", "/data/small:/data/small:ro"} < set(mounted)
            assert {"/srv/a:/a:ro", "/srv/b:/b:ro"} < set(mounted)


@pytest.mark.parametrize(
    ("model", "outside"),
    [
        ("org/big", []),
        ("/opt/llm/models/big", []),
        ("/opt/llm/models/../other/big", ["/opt/llm/models/../other/big"]),
        ("/data/big", ["/data/big"]),
    ],
)
def test_a_folder_elsewhere_is_a_mount_of_its_own(model: str, outside: list[str]) -> None:
    assert folders_outside({"models_dir": "/opt/llm/models", "vllm_model": model}) == outside


@pytest.mark.parametrize(
    ("model", "path"), [("lab/tiny", "/opt/llm/models/lab--tiny"), ("/data/tiny", "/data/tiny"), ("tiny", "/opt/llm/models/tiny")]
)  # fmt: skip
def test_where_the_model_lies(model: str, path: str) -> None:
    assert model_path(host(1, vllm_model=model)) == path


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ("", Source("", "")),
        ("host:/data/big", Source("host", "/data/big")),
        ("controller:/data/big", Source("controller", "/data/big")),
        ("rsync://store/models/big", Source("rsync", "rsync://store/models/big")),
        ("rclone:s3:models/big", Source("rclone", "s3:models/big")),
        ({"org/big": "host:/data/big"}, Source("host", "/data/big")),
        ({"org/words": "host:/data/words"}, Source("", "")),
        ("/data/big", Source("", "")),
    ],
)
def test_where_a_model_comes_from(said: Any, source: Source) -> None:
    assert source_of({**SERVED, "models_source": said}, "org/big") == source


def test_a_text_is_about_the_served_model_only() -> None:
    variables = {**SERVED, "models_source": "host:/data/big/", "models_dir": "/m"}
    assert source_of(variables, "org/words") == Source("", "")
    assert folder_of(variables, "org/big") == model_path(variables) == "/data/big"
    assert folder_of(variables, "org/words") == "/m/org--words"


def test_how_each_model_comes_to_a_host() -> None:
    variables = {
        **SERVED,
        "models_dir": "/m",
        "models_source": {"org/lora": "rclone:s3:lora", "org/nfs": "host:/nfs/a"},
    }
    records = [
        {"kind": "model", "model": "org/big", "urls": ["https://hub/big"]},
        {"kind": "model", "model": "org/words"},
    ]
    found = origins(["org/big", "org/words", "/data/small", "org/lora", "org/nfs"], variables, records)
    assert [(one["how"], one["folder"], one["weights"]) for one in found] == [
        ("hub", "/m/org--big", True),
        ("bundle", "/m/org--words", False),
        ("there", "/data/small", True),
        ("program", "/m/org--lora", True),
        ("there", "/nfs/a", True),
    ]


def test_who_has_a_model_hands_it_on() -> None:
    needs = {**{host: ["org/big"] for host in "abdefgh"}, "c": ["org/other"]}
    assert handing("org/big", ["a", "b", "c"], needs) == ("a", [])
    assert handing("org/big", ["b"], needs, ["c", "d"]) == ("", ["d"])
    assert handing("org/big", ["c"], needs, ["d"]) == ("", ["d"])
    assert handing("org/big", ["c"], needs) == ("", [])
    # A few are enough, and a machine has one program, whatever its names.
    assert handing("org/big", ["a"], needs, "bdefgh") == ("", ["b", "d", "e", "f"])
    names = {"a": ["a", "b"], "b": ["a", "b"], "d": ["d", "e"], "e": ["d", "e"]}
    assert handing("org/big", ["a"], needs, "bdef", names) == ("", ["d", "f"])
