"""Who changed a host: what runs write beside the lock, and what is made of it whatever stands there."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _journal as journal
from ansible_collections.baremetal.llm.plugins.module_utils._lock import FREE, give_back, read_lock, take
from hypothesis import given
from hypothesis import strategies as st

MEI: dict[str, Any] = {
    "run": {"pid": 1},
    "who": "mei@desk",
    "since": 1,
    "playbook": "site.yml",
    "limit": "",
    "tags": "",
}
JON: dict[str, Any] = {
    "run": {"pid": 2},
    "who": "jon@laptop",
    "since": 2,
    "playbook": "serve.yml",
    "collection": "1.0.0",
}


@pytest.fixture
def lock(tmp_path: Path) -> str:
    for folder in ("records", "deployments/chat/records", "models/records"):
        (tmp_path / "llm" / folder).mkdir(parents=True)
    return str(tmp_path / "llm/lock.json")


def record(lock: str, name: str) -> None:
    (Path(lock).parent / name).write_text("{}")


def test_a_run_is_written_down_with_the_roles_that_it_changed(lock: str) -> None:
    path = journal.path_beside(lock)
    record(lock, "records/driver.json")
    os.utime(Path(lock).parent / "records/driver.json", (time.time() - 60,) * 2)
    take(lock, MEI, read_lock(lock), None)
    take(lock, MEI, read_lock(lock), None)  # taken again by the same run
    record(lock, "records/docker.json")
    record(lock, "deployments/chat/records/vllm.json")
    record(lock, "models/records/other.json")
    give_back(lock, MEI)
    take(lock, JON, read_lock(lock), None)
    newest, older = journal.read(path)
    assert (newest["who"], newest["ended"], newest["collection"]) == ("jon@laptop", None, "1.0.0")
    assert (older["who"], older["roles"], "limit" in older) == ("mei@desk", ["docker", "vllm"], False)
    assert older["ended"] >= older["begun"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_who_does_not_get_the_host_is_not_written_down(lock: str) -> None:
    take(lock, MEI, read_lock(lock), None)
    take(lock, JON, read_lock(lock), None)
    give_back(lock, JON)
    assert [each["who"] for each in journal.read(journal.path_beside(lock))] == ["mei@desk"]


def test_the_older_half_goes_when_there_are_too_many(lock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_LINES", 10)
    path = journal.path_beside(lock)
    for number in range(12):
        journal.begun(path, {"run": {"pid": number}, "who": str(number)})
        assert len(Path(path).read_text().splitlines()) <= 10
    assert [each["who"] for each in journal.read(path, 3)] == ["11", "10", "9"]


@given(st.lists(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps), max_size=5))
def test_whatever_stands_there_is_no_failure(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = str(tmp_path_factory.mktemp("journal") / "journal.jsonl")
    good = json.dumps({"run": {"pid": 1}, "begun": 5, "who": "mei", "key": "secret"})
    odd = json.dumps({"run": {"pid": 1}, "ended": 6, "roles": [1, "docker", {}]})
    Path(path).write_text("\n".join([*lines, good, odd, *lines]), encoding="utf-8", errors="replace")
    (found,) = [each for each in journal.read(path) if each["begun"] == 5]
    assert found == {"run": {"pid": 1}, "begun": 5, "who": "mei", "ended": 6, "roles": ["docker"]}


def test_a_journal_that_cannot_be_written_stops_no_run(lock: str) -> None:
    Path(journal.path_beside(lock)).mkdir()
    assert take(lock, MEI, read_lock(lock), None)["taken"]
    assert give_back(lock, MEI)
    assert journal.read(journal.path_beside(lock)) == []


def test_a_host_without_a_journal_has_none(tmp_path: Path) -> None:
    assert journal.read(str(tmp_path / "none")) == []
    assert FREE["holder"] is None


def test_a_link_in_place_of_the_file_is_not_followed(lock: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept\n")
    os.symlink(tmp_path / "other", journal.path_beside(lock))
    with pytest.raises(OSError, match="symbolic"):
        journal.begun(journal.path_beside(lock), MEI)
    assert (tmp_path / "other").read_text() == "kept\n"
