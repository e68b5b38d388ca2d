"""One run changes a host at a time."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._lock import FREE, give_back, read_lock, take

FIRST: dict[str, Any] = {"run": {"pid": 1}, "who": "a@one", "since": 1}
OTHER: dict[str, Any] = {"run": {"pid": 2}, "who": "b@two", "since": 2}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "llm/lock.json")


def test_a_host_is_taken_and_given_back(path: str) -> None:
    seen = read_lock(path)
    assert seen == FREE
    assert take(path, FIRST, seen, None) == {"taken": True, "holder": None}
    assert take(path, FIRST, seen, None)["taken"], "a run may take it again"
    assert take(path, OTHER, seen, None) == {"taken": False, "holder": FIRST}
    assert not give_back(path, OTHER)
    assert read_lock(path)["holder"] == FIRST
    assert give_back(path, FIRST)
    assert not give_back(path, FIRST)


def test_who_looked_before_another_run_gave_the_host_back_does_not_get_it(path: str) -> None:
    seen = read_lock(path)
    take(path, FIRST, seen, None)
    give_back(path, FIRST)
    assert take(path, OTHER, seen, None) == {"taken": False, "holder": None}
    assert take(path, OTHER, read_lock(path), None)["taken"]


def test_a_run_that_is_over_is_replaced(path: str) -> None:
    take(path, FIRST, FREE, None)
    seen = read_lock(path)
    assert take(path, OTHER, seen, FIRST)["taken"]
    # Whoever came first, with the same reason.
    assert not take(path, {**OTHER, "run": {"pid": 3}}, seen, FIRST)["taken"]


@pytest.mark.parametrize(
    "holder", ['{"who": "x"}', '{"run": 1}', '{"run": {"pid": "x"}, "since": 1}', '{"run": {"pid": 1}, "since": "x"}']
)
def test_a_holder_of_whom_nobody_can_say_who_it_is_holds_nothing(path: str, holder: str) -> None:
    Path(path).parent.mkdir()
    Path(path).write_text(f'{{"format": 1, "given_back": 7, "holder": {holder}}}')
    assert read_lock(path) == {**FREE, "given_back": 7}
    assert not give_back(path, FIRST)
    assert take(path, FIRST, read_lock(path), None)["taken"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "given_back": "x"}', "\udcff"])
def test_a_file_that_cannot_be_understood_is_none(path: str, text: str) -> None:
    Path(path).parent.mkdir()
    Path(path).write_text(text, errors="surrogateescape")
    assert read_lock(path) == FREE
    assert take(path, FIRST, FREE, None)["taken"]


def test_nothing_is_given_back_where_nothing_was_taken(path: str) -> None:
    assert not give_back(path, FIRST)
    assert not Path(path).parent.exists()


def contend(path: str, number: int) -> bool:
    return bool(take(path, {**FIRST, "run": {"pid": number}}, FREE, None)["taken"])


def test_of_many_at_once_one_gets_it(path: str) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        got = pool.starmap(contend, [(path, number) for number in range(40)])
    assert sum(got) == 1
