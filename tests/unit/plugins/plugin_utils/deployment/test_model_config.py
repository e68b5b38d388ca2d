"""Where a model's config.json is looked for, and what is said when there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.model_config import (
    Found,
    config_problem,
    find_config,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text

CONFIG = {"model_type": "qwen2"}


def read(path: str) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def nobody(model: str) -> Found:
    raise AssertionError(f"{model} was looked for")


def test_the_file_that_is_named_counts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    head = {"vllm_model": "Qwen/x"}
    assert find_config(str(tmp_path / "config.json"), head, "", read, nobody) == Found(CONFIG)
    assert find_config("config.json", head, str(tmp_path), read, nobody) == Found(CONFIG)


def test_a_folder_as_a_model_brings_its_own(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    found = find_config(None, {"vllm_model": f"{tmp_path}/"}, "", read, nobody)
    assert found.config == CONFIG
    assert str(tmp_path) in found.origin.say() if found.origin else False


def test_else_it_is_looked_for_by_its_name() -> None:
    wanted = Found(CONFIG, Text("config_from_catalogue"))
    assert find_config(None, {"vllm_model": "Qwen/x"}, "", read, lambda model: wanted) is wanted


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("content", [None, "{", "[1]"])
def test_a_file_of_no_use_names_itself_and_what_to_do(language: str, content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    found = find_config(str(path), {"vllm_model": "Qwen/x"}, "", read, nobody)
    assert found.config is None
    said = config_problem("d", {"vllm_model": "Qwen/x"}, found, language)
    assert str(path) in said["what"]
    for part in ("Errno", "Traceback", "Error:", "None"):
        assert part not in said["what"]
    assert "vllm_model_config" in said["allowed"]
