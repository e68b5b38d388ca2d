"""Launches that people ask for, rendered for every release that has what they need."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import unknown_option
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.values import domain
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import (
    release_key,
    releases,
    resolve_release,
)

from benchmarks.recipes import OLDEST, ROOT, read, releases_of, render
from tests.support.each import check_each

_GPUS, RECIPES = read()
BY_NAME = {recipe["name"]: recipe for recipe in RECIPES}
CASES = {f"{recipe['name']}-{version}": (recipe, version) for recipe in RECIPES for version in releases_of(recipe)}
# What the engine's own parsers take, as they said when they were run: option and values, by release.
PARSERS: dict[str, dict[str, list[str] | None]] = json.loads(
    (ROOT / "tests/data/planner/option_parsers.json").read_text(encoding="utf-8")
)
# Options of the server, which those parsers do not know.
OF_THE_SERVER = {"host", "port", "model", "served_model_name", "middleware", "headless"}


def options_of(argv: list[str]) -> dict[str, list[str]]:
    """The options of a command line by name, each with its words."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in argv:
        if word.startswith("--"):
            option, equals, value = word.removeprefix("--").partition("=")
            name = option.removeprefix("no-").replace("-", "_")
            found[name] = [value] if equals else []
        elif name:
            found[name].append(word)
    return found


def outcome(name: str, version: str) -> str:
    """Why a recipe does not start; empty where it does."""
    error = render(BY_NAME[name], version)["predicted"]["error"]
    return str(error["code"]) if error else ""


@pytest.mark.slow
def test_a_recipe_renders_for_every_release() -> None:
    check_each(CASES, check)


def check(case: tuple[dict[str, Any], str]) -> None:
    recipe, version = case
    plan = render(recipe, version)
    settings, release = plan["settings"], resolve_release(version)
    assert [settings[f"{kind}_parallel_size"] for kind in ("tensor", "pipeline")] == recipe["sizes"]
    assert plan["executor"] == recipe.get("executor", plan["executor"])
    assert list(plan["launch"]) == recipe.get("hosts_that_start", ["gpu01"])
    for host, started in plan["launch"].items():
        said = options_of(started["argv"])
        # A plan that is refused has no place for the model on the hosts yet.
        assert said["served_model_name"] == [recipe["variables"]["vllm_model"] if plan["ok"] else "MODEL"]
        assert ("headless" in said) is (host != next(iter(recipe["hosts"])))
        assert said["tensor_parallel_size"] == [str(recipe["sizes"][0])]
        for name, words in said.items():
            assert unknown_option(name, release) is None, name
            allowed = domain(name, release)
            assert allowed is None or set(words) <= set(allowed), (name, words)
        parser = PARSERS.get(version)
        if parser is not None:
            engine = {name: words for name, words in said.items() if name not in OF_THE_SERVER}
            assert engine.keys() <= parser.keys()
            for name, words in engine.items():
                assert parser[name] is None or set(words) <= {*(parser[name] or ()), "False"}, (name, words)


def test_the_recipes_reach_from_the_oldest_release_to_the_newest() -> None:
    asked = [version for version in releases() if release_key(version) >= release_key(OLDEST)]
    whole = [recipe["name"] for recipe in RECIPES if releases_of(recipe) == asked]
    assert {"one_gpu", "two_v100", "two_v100_eager", "two_hosts_ray", "two_hosts_tp4_pp2", "gptq_v100"} <= set(whole)
    assert all(releases_of(recipe)[-1] == asked[-1] for recipe in RECIPES)
    assert len(PARSERS.keys() & set(asked)) > 15


@pytest.mark.parametrize("version", ["0.3.0", "0.4.2", "0.4.3", "0.8.5.post1", "0.10.2"])
def test_a_v100_serves_with_and_without_graphs_and_from_gptq(version: str) -> None:
    for name in ("two_v100", "two_v100_eager", "two_hosts_ray", "gptq_v100"):
        assert outcome(name, version) == ""
        said = options_of(next(iter(render(BY_NAME[name], version)["launch"].values()))["argv"])
        assert said["dtype"] == ["half"]
        if name.startswith("two_v100"):
            assert ("enforce_eager" in said) is (name == "two_v100_eager")


@pytest.mark.slow
def test_awq_on_a_v100_is_refused_with_the_reason() -> None:
    said = {
        version: render(BY_NAME["awq_v100"], version)["predicted"]["error"]
        for version in releases_of(BY_NAME["awq_v100"])
    }
    assert len(said) > 70
    assert {error["code"] for error in said.values()} == {"quantization_not_supported"}
    assert [version for version, error in said.items() if "7.5" not in error["message"]] == []


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [
        ("two_hosts_tp4_pp2", "0.5.0.post1", "pp_not_supported"),
        ("two_v100", "0.9.2", "gpu_not_supported"),
        ("two_v100", "0.20.0", "gpu_not_supported"),
    ],
)
def test_what_a_release_cannot_do_is_refused(name: str, version: str, code: str) -> None:
    errors = render(BY_NAME[name], version)["predicted"]["errors"]
    assert code in [error["code"] for error in errors]


def test_ray_is_said_as_the_release_reads_it() -> None:
    """Before there was an option for it, several ranks had Ray anyway."""
    for version, word in (("0.3.0", None), ("0.4.2", None), ("0.4.3", ["ray"]), ("0.33.0", ["ray"])):
        said = options_of(render(BY_NAME["two_hosts_ray"], version)["launch"]["gpu01"]["argv"])
        assert said.get("distributed_executor_backend") == word


@pytest.mark.slow
def test_hosts_without_ray_have_the_same_command_with_their_numbers() -> None:
    versions = releases_of(BY_NAME["two_hosts_without_ray"])
    assert len(versions) > 1
    for version in versions:
        first, second = (
            options_of(each["argv"]) for each in render(BY_NAME["two_hosts_without_ray"], version)["launch"].values()
        )
        assert (first.pop("node_rank"), second.pop("node_rank")) == (["0"], ["1"])
        assert (first.pop("middleware"), second.pop("headless")) == (["llm_api_paths.ApiPaths"], [])
        assert first == second


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.6.4.post1", "task embedding"),
        ("0.6.5", "task embed"),
        ("0.10.0", "task embed"),
        ("0.10.1.1", "runner pooling"),
    ],
)
def test_embeddings_are_a_task_or_a_runner(version: str, said: str) -> None:
    option, value = said.split()
    assert options_of(render(BY_NAME["embeddings"], version)["launch"]["gpu01"]["argv"])[option] == [value]
