# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of models: planning from it is planning from the model's whole config.json."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import (
    FOLDER,
    config_of,
    entries,
    entry_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model, read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment

from benchmarks import catalogue as tool

WHOLE = Path(__file__).resolve().parents[5] / "tests" / "data" / "models"
FILES = sorted(WHOLE.glob("*.json"))
# Models whose config.json as it was published is among the tests' data, under the same name.
BOTH = sorted(path.stem for path in FOLDER.glob("*.json") if (WHOLE / path.name).exists())


def whole(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((WHOLE / f"{name}.json").read_text(encoding="utf-8"))
    return found


def facts(model: Model) -> list[Any]:
    """All that the planner knows of a model but the folder of whoever saved its config.json."""
    said = [
        (warning.code, {name: repr(type(value)) for name, value in warning.values.items()})
        for warning in model.warnings
    ]
    return [*model._replace(name="", warnings=()), said]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_planner_reads_no_key_that_is_left_out(path: Path) -> None:
    config = json.loads(path.read_text(encoding="utf-8"))
    assert facts(read_model(tool.reduced(config))) == facts(read_model(config))


@pytest.mark.parametrize("name", BOTH)
def test_an_entry_is_the_published_configuration(name: str) -> None:
    found = config_of(name.replace("__", "/"))
    assert found == tool.reduced(whole(name))


def test_many_entries_have_their_published_configuration_beside_them() -> None:
    assert len(BOTH) > 30


@pytest.mark.parametrize("name", ["Qwen__Qwen2.5-7B-Instruct", "openai__gpt-oss-20b"])
def test_a_plan_from_the_catalogue_is_the_plan_from_the_whole_configuration(name: str) -> None:
    card = {"name": "NVIDIA RTX A6000", "memory_mib": 49140, "compute_capability": "8.6"}
    nodes = [{"host": "gpu01", "gpus": [card, card]}]
    assert plan_deployment(config_of(name.replace("__", "/")), nodes) == plan_deployment(whole(name), nodes)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTH)
def test_every_plan_from_the_catalogue_is_the_plan_from_the_whole_configuration(
    name: str, v100: dict[str, Any], h200: dict[str, Any]
) -> None:
    for nodes in (
        [{"host": f"gpu{number}", "gpus": [v100, v100]} for number in range(3)],
        [{"host": "gpu01", "gpus": [h200] * 8}],
    ):
        assert plan_deployment(config_of(name.replace("__", "/")), nodes) == plan_deployment(whole(name), nodes)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*")), ids=lambda path: path.stem)
def test_an_entry_names_its_source(path: Path) -> None:
    row = json.loads(path.read_text(encoding="utf-8"))
    assert path.name == tool.file_name(row["model"])
    assert set(row) <= {"model", "modelscope", "renamed_from", "source", "date", "config"}
    assert len(row["source"]) > 20
    assert datetime.date(2023, 1, 1) < datetime.date.fromisoformat(row["date"])
    assert row["config"] == tool.reduced(row["config"])
    model = read_model(row["config"])
    assert model.known
    assert [warning.code for warning in model.warnings if warning.code != "start_vision"] == []


def test_the_catalogue_has_the_models_that_people_ask_for() -> None:
    assert len(entries()) >= 60
    names = [name for entry in entries() for name in entry.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "name",
    [
        "meta-llama/Llama-3.1-8B-Instruct",
        "meta-llama/Meta-Llama-3.1-8B-Instruct",
        "LLM-Research/Meta-Llama-3.1-8B-Instruct",
        "llm-research/meta-llama-3.1-8b-instruct",
        " meta-llama/Llama-3.1-8B-Instruct/ ",
    ],
)
def test_a_model_has_the_names_of_both_hubs(name: str) -> None:
    entry = entry_of(name)
    assert entry is not None
    assert (entry.model, entry.modelscope) == (
        "meta-llama/Llama-3.1-8B-Instruct",
        "LLM-Research/Meta-Llama-3.1-8B-Instruct",
    )


@pytest.mark.parametrize(
    "name", ["", "/", "Qwen/Qwen2.5-7B-Instruct-2", "/srv/models/Qwen2.5-7B-Instruct", "../models"]
)
def test_what_the_catalogue_lacks_is_none(name: str) -> None:
    assert config_of(name) is None


def test_an_entry_is_written_from_a_config_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    path = tool.write_entry("acme/Qwen", whole("Qwen__Qwen3-8B"), {"source": "here", "date": "2026-01-01"})
    assert path.name == "acme__Qwen.json"
    row = json.loads(path.read_text(encoding="utf-8"))
    assert list(row) == ["model", "source", "date", "config"]
    assert row["config"] == config_of("Qwen/Qwen3-8B")


def test_a_caller_cannot_change_the_catalogue() -> None:
    found = config_of("Qwen/Qwen3-8B")
    assert found is not None
    found["hidden_size"] = 1
    again = config_of("Qwen/Qwen3-8B")
    assert again is not None
    assert again["hidden_size"] == 4096
