"""Models that lie on a host, and such that a program of the host copies; the modules run as Ansible runs them."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._model_files import has_pulled, pull_command, take_pulled

from tests.support.models import write_model
from tests.support.modules import answer_of

pytestmark = pytest.mark.slow


def adopt(folder: Path, tmp_path: Path, check_mode: bool = False, **more: Any) -> dict[str, Any]:
    return answer_of("model_adopt", {"path": str(folder), "notes": str(tmp_path / "adopted.json"), **more}, check_mode)


def test_a_model_is_read_once(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    before = sorted(path.name for path in folder.iterdir())
    first = adopt(folder, tmp_path)
    assert (first["changed"], first["files"]) == (True, 5)
    assert adopt(folder, tmp_path) == {**adopt(folder, tmp_path), "changed": False, "digest": first["digest"]}
    assert sorted(path.name for path in folder.iterdir()) == before
    other = write_model(tmp_path / "same")
    assert adopt(other, tmp_path)["digest"] == first["digest"]
    (other / "config.json").write_text("{}")
    assert adopt(other, tmp_path)["digest"] != first["digest"]


def test_a_check_reads_no_weights(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    assert adopt(folder, tmp_path, check_mode=True)["digest"] == ""
    assert not (tmp_path / "adopted.json").exists()


def test_links_of_a_hub_s_cache_are_followed(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "blobs")
    (tmp_path / "snapshot").mkdir()
    for path in folder.iterdir():
        (tmp_path / "snapshot" / path.name).symlink_to(path)
    assert adopt(tmp_path / "snapshot", tmp_path)["digest"] == adopt(folder, tmp_path)["digest"]


def test_a_model_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    (folder / "model-00002-of-00002.safetensors").unlink()
    answer = adopt(folder, tmp_path)
    assert (answer["failed"], answer["code"]) == (True, "model_not_whole")
    assert [one["code"] for one in answer["values"]["problems"]] == ["model_lacks"]
    folder = write_model(tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    assert adopt(folder, tmp_path, tokenizer=True)["values"]["problems"][0]["code"] == "model_no_tokenizer"


def test_a_file_that_is_shorter_than_its_header_says_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    weights = folder / "model-00001-of-00002.safetensors"
    os.truncate(weights, weights.stat().st_size - 1)
    [wrong] = adopt(folder, tmp_path)["values"]["problems"]
    assert (wrong["code"], wrong["values"]["found"] + 1) == ("model_cut_off", wrong["values"]["wanted"])


def test_a_tokenizer_needs_no_weights(tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer/tokenizer.json").write_text("{}")
    assert adopt(tmp_path / "tokenizer", tmp_path, weights=False)["files"] == 1
    assert adopt(tmp_path / "tokenizer", tmp_path)["code"] == "model_not_whole"
    assert adopt(tmp_path / "none", tmp_path)["code"] == "model_no_folder"


def test_content_that_changed_without_a_write_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    adopt(folder, tmp_path)
    weights = folder / "model-00001-of-00002.safetensors"
    status, content = weights.stat(), bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert adopt(folder, tmp_path)["changed"] is False
    answer = adopt(folder, tmp_path, content=True)
    assert (answer["code"], answer["values"]["files"]) == ("model_rotten", weights.name)


def test_programs_are_given_what_is_wanted() -> None:
    assert pull_command("rsync://store/models/a", "/m", [])[-2:] == ["rsync://store/models/a/", "/m/"]
    command = pull_command("s3:bucket/a", "/m", ["*Q4*.gguf"])
    rules = [word for mark, word in itertools.pairwise(command) if mark == "--filter"]
    assert rules[:4] == ["- .*", "- .*/**", "+ *Q4*.gguf", "- *.safetensors"]
    assert command[-3:] == ["--", "s3:bucket/a", "/m"]


def test_what_a_program_copied_is_noted_and_then_there(tmp_path: Path) -> None:
    arrived = write_model(tmp_path / ".incoming/pull-1")
    names = take_pulled(str(tmp_path), "lab--tiny", str(arrived), "s3:bucket/a")
    assert "config.json" in names
    assert has_pulled(str(tmp_path), "lab--tiny", "s3:bucket/a")
    assert not has_pulled(str(tmp_path), "lab--tiny", "s3:bucket/b")
    assert not has_pulled(str(tmp_path), "lab", "s3:bucket/a")
    (tmp_path / "lab--tiny/config.json").write_text(json.dumps({"another": 1}))
    assert not has_pulled(str(tmp_path), "lab--tiny", "s3:bucket/a")
