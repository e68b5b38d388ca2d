"""What a host tells of its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._secrets import seal, sealed_secrets


def test_a_secret_is_recognised_by_who_knows_it_and_told_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "ray_token").write_text("tok3n\n")
    (tmp_path / "vllm_api_key").write_text("k3y")
    (tmp_path / "vllm_api_key.previous").write_text("0ld")
    found = sealed_secrets(str(tmp_path), "question")
    assert found == {"ray_token": seal("question", "tok3n"), "vllm_api_key": seal("question", "k3y")}
    assert seal("question", "k3y") not in (seal("question", "k3z"), seal("another", "k3y"))
    assert not [value for value in ("tok3n", "k3y", "0ld") if value in str(found)]


def test_no_secret_is_left_out_and_one_that_the_disk_does_not_give_is_an_error(tmp_path: Path) -> None:
    assert sealed_secrets(str(tmp_path / "none"), "question") == {}
    (tmp_path / "ray_token").write_text("\n")
    assert sealed_secrets(str(tmp_path), "question") == {}
    (tmp_path / "vllm_api_key").mkdir()
    with pytest.raises(OSError, match="vllm_api_key"):
        sealed_secrets(str(tmp_path), "question")


def test_what_is_no_text_is_a_secret_that_nobody_else_has(tmp_path: Path) -> None:
    (tmp_path / "ray_token").write_bytes(b"\xff\xfe")
    (found,) = sealed_secrets(str(tmp_path), "c").values()
    assert found not in (seal("c", ""), seal("c", "t0ken"))
