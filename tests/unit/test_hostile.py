"""Hostile names and values: each is refused in words before a host is touched, or taken and right in every program that reads it.

The figures are those of docs/security.md: how many kinds of input were tried, how many ended in a raw exception, how many failed late.
"""

from __future__ import annotations

import collections
import functools
import itertools
import multiprocessing
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import gateway as bench
from tests.support import hostile
from tests.support.debian import amtool, promtool
from tests.support.examples import examples
from tests.support.hostile import PLACES, VALUES, World, made, placed, refused

JUDGES = ("haproxy", "systemd", "nft", "promtool", "amtool")
# With what a judge is content before anything hostile is in it.
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2),
    max_leaves=4,
)


def inputs() -> Iterator[tuple[str, str, World]]:
    """What is hostile, of which kind, and the inventory with it: each name, and a part of the kinds at each place of each variable."""
    for kind, name in hostile.NAMES.items():
        for what, rename in (("host", World.rename_host), ("deployment", World.rename_deployment)):
            world = World()
            rename(world, name)
            yield what, kind, world
    for number, path in enumerate(PLACES):
        for index, (kind, value) in enumerate(VALUES.items()):
            # Every kind meets every fourth place, and each place every fourth kind.
            if (number + index) % 4 == 0:
                world = World()
                world.set(*placed(path, value))
                yield path, kind, world


def test_the_inventory_that_is_made_hostile_is_right() -> None:
    world = World()
    assert world.problems() == []
    texts, is_refused = made(world)
    assert not is_refused
    assert set(texts) == set(JUDGES)
    assert all(all(group.values()) for group in texts.values())


@given(st.sampled_from(sorted(PLACES)), JUNK)
@examples(300)
def test_no_value_of_any_variable_ends_in_a_raw_error(path: str, value: Any) -> None:
    world = World()
    world.set(*placed(path, value))
    if not refused(world):
        made(world, variable_of(path))


@pytest.mark.slow
def test_each_judge_takes_what_is_right_and_names_what_is_wrong(tmp_path: Path) -> None:
    wrong = {
        "haproxy": ["frontend x\n  bogus 1\n"],
        "systemd": ["[Service]\nExecStart=/bin/true\nBogus=1\n", "[Service]\nExecStart=/bin/true\nMemoryMax=much\n"],
        "nft": ["table inet x {\n  bogus\n}\n", "flush ruleset\n"],
        "promtool": ["scrape_configs: 7\n"],
        "amtool": ["route: 7\n"],
    }
    right, _is_refused = made(World())
    for judge, judged in judges(tmp_path).items():
        if not isinstance(judged, str):
            assert judged({f"{name}\n{text}": name for name, text in right[judge].items()}) == []
            assert len(judged({f"x\n{text}": text for text in wrong[judge]})) == len(wrong[judge]), judge


class Tried(NamedTuple):
    """What became of a share of the inputs: how many ended how, raw exceptions, and by judge the texts that were made, each with whose it is."""

    counts: collections.Counter[str]
    raw: list[str]
    texts: dict[str, dict[str, str]]


def tried(share: int, shares: int) -> Tried:
    """Takes every ``shares``-th input through the inventory check, the decisions and the templates."""
    found = Tried(collections.Counter(), [], {judge: {} for judge in JUDGES})
    for what, kind, world in itertools.islice(inputs(), share, None, shares):
        found.counts["inputs"] += 1
        try:
            if refused(world):
                found.counts["refused before anything is decided"] += 1
                continue
            texts, is_refused = made(world, variable_of(what))
        except Exception as error:
            found.raw.append(f"{what}, {kind}: {type(error).__name__}: {error}")
            continue
        found.counts["refused when it is decided" if is_refused else "taken"] += 1
        for judge, mine in texts.items():
            for name, text in mine.items():
                found.texts[judge].setdefault(f"{name}\n{text}", f"{what}, {kind}")
    return found


@pytest.mark.slow
def test_every_kind_of_hostile_input_is_refused_or_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cores = os.cpu_count() or 1
    # Each in a fresh process: a fork of one that has threads may stop for ever.
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        shares = list(pool.map(tried, range(cores), itertools.repeat(cores)))
    counts = sum((share.counts for share in shares), collections.Counter[str]())
    raw = [line for share in shares for line in share.raw]
    texts = {judge: {text: whose for share in shares for text, whose in share.texts[judge].items()} for judge in JUDGES}
    late: list[str] = []
    left_out = []
    for judge, judged in judges(tmp_path).items():
        if isinstance(judged, str):
            left_out.append(judged)
            continue
        counts[f"texts judged by {judge}"] = len(texts[judge])
        late += judged(texts[judge])
    with capsys.disabled():
        print("\nHostile input: " + ", ".join(f"{what} {count}" for what, count in counts.items()))
        print(f"raw exceptions {len(raw)}, failed late {len(late)}{''.join(f', {reason}' for reason in left_out)}")
    assert raw == []
    assert late == []
    assert counts["inputs"] >= 400


def variable_of(what: str) -> str:
    """The variable of a place; empty for names, which are everywhere."""
    return "" if what in ("host", "deployment") else re.split(r"[.\[]", what)[0]


def judges(folder: Path) -> dict[str, str | Callable[[dict[str, str]], list[str]]]:
    """By program what it says of many texts, or why it is left out."""

    def each(judge: Callable[[str, Path], str]) -> Callable[[dict[str, str]], list[str]]:
        def alone(text: str) -> str:
            with tempfile.TemporaryDirectory(dir=folder) as own:
                return judge(text.partition("\n")[2], Path(own))

        def all_of(texts: dict[str, str]) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                said = pool.map(alone, texts)
                return [
                    f"{whose}: {complaint}" for whose, complaint in zip(texts.values(), said, strict=True) if complaint
                ]

        return all_of

    def systemd(texts: dict[str, str]) -> list[str]:
        units = {f"unit{number}": text.partition("\n")[2] for number, text in enumerate(texts)}
        whose = dict(zip(units, texts.values(), strict=True))
        said = hostile.judge_systemd(units, folder)
        return [f"{whose[name]}: {complaint}" for name, complaint in said.items() if complaint]

    def fetched(
        name: str, judge: Callable[[], Callable[[str, Path], str]]
    ) -> str | Callable[[dict[str, str]], list[str]]:
        try:
            return each(judge())
        except (OSError, subprocess.CalledProcessError, ValueError):
            return f"no {name} on this machine, and none to be fetched"

    return {
        "systemd": hostile.lacking("systemd-analyze") or systemd,
        "nft": hostile.lacking("nft") or each(hostile.judge_nft),
        "haproxy": fetched("HAProxy", lambda: functools.partial(hostile.judge_haproxy, program=bench.haproxy(""))),
        "promtool": fetched("promtool", lambda: functools.partial(hostile.judge_promtool, program=promtool())),
        "amtool": fetched("amtool", lambda: functools.partial(hostile.judge_amtool, program=amtool())),
    }
