"""Who takes part, what the controller hands over, and who hands it over to whom; no bytes move here."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._pieces import piece_bytes, piece_count
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import fanout
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.fanout import Looked, Segment
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

MIB = 1 << 20


def file(path: str, mib: int) -> dict[str, Any]:
    return {"path": path, "size": mib * MIB}


def test_who_exchanges_files() -> None:
    wanted = {name: ["a", "b"] for name in ("gpu01", "gpu02", "gpu03", "gpu04")}
    lacking, having = Looked(["a"], "10.0.0.1"), Looked([], "10.0.0.2")
    old, lost = Looked(["a", "b"], "10.0.0.3", "fanout_no_python"), Looked(["a"], "")

    def of(*looked: Looked) -> list[str]:
        return fanout.participants({f"gpu{at:02}": one for at, one in enumerate(looked, start=1)}, wanted)

    assert of(lacking, lacking, old, lost) == ["gpu01", "gpu02"]
    # Who has what another one lacks hands it on.
    assert of(lacking, having) == ["gpu01", "gpu02"]
    assert of(having, having, old) == of(lacking, old) == of(lacking) == []


def standing(missing: str = "", present: str = "", exchanges: bool = True) -> fanout.Standing:
    return {"missing": missing.split(), "present": present.split(), "exchanges": exchanges}


def test_one_host_pulls_an_image_for_others() -> None:
    def ways(host: str, **hosts: fanout.Standing) -> tuple[list[str], list[str], list[str]]:
        found = fanout.image_ways(hosts, host)
        return found["pull"], found["give"], found["take"]

    lacking, having, alone = standing("a"), standing(present="a"), standing("a", exchanges=False)
    assert ways("one", one=lacking, two=lacking) == (["a"], ["a"], [])
    assert ways("two", one=lacking, two=lacking) == ([], [], ["a"])
    # Who has an image gives it.
    assert ways("one", one=lacking, two=having) == ([], [], ["a"])
    assert ways("two", one=lacking, two=having) == ([], ["a"], [])
    # For itself alone nobody makes an archive, and neither does a host whose engine calls images by other ids.
    assert ways("one", one=lacking) == ways("one", one=lacking, two=alone) == (["a"], [], [])
    assert ways("two", one=lacking, two=alone) == (["a"], [], [])
    assert ways("one", one=having, two=having) == ([], [], [])
    assert ways("one", one=having, two=standing("b")) == ([], [], [])
    # By its digest an engine knows only what came from a registry.
    pinned = standing("a@sha256:0")
    assert ways("two", one=pinned, two=pinned) == (["a@sha256:0"], [], [])


def test_a_host_offers_no_more_than_its_folder() -> None:
    offers = ["lab--tiny", "image.tar"]
    right = ("lab--tiny/config.json", "lab--tiny/a/b", "image.tar")
    assert [path for path in right if not fanout.is_below(path, offers)] == []
    wrong = ("lab--tiny/../../etc/passwd", "lab--tiny2/a", "/etc/passwd", "image.tar2", "../image.tar")
    assert [path for path in wrong if fanout.is_below(path, offers)] == []


def test_sessions_have_about_the_same_to_do() -> None:
    files = fanout.in_sessions([file("a", 100), file("b", 60), file("c", 50), file("d", 30), file("e", 10)], most=3)
    load = [sum(one["size"] for one in files if one["session"] == at) // MIB for at in range(3)]
    assert load == [100, 70, 80]
    assert fanout.session_count(files) == 3
    assert fanout.session_count(fanout.in_sessions([file("a", 100)])) == 1


@examples(60)
@given(st.integers(2, 150), st.integers(2, 30))
def test_neighbours_are_mutual_and_few_and_reach_everybody(count: int, most: int) -> None:
    hosts = list(range(count))
    near = {host: fanout.neighbours(hosts, host, most) for host in hosts}
    assert all(len(found) <= max(most, 2) and host not in found for host, found in near.items())
    assert all(host in near[other] for host, found in near.items() for other in found)
    reached, found = {0}, {0}
    while found:
        found = {other for host in found for other in near[host]} - reached
        reached |= found
    assert reached == set(hosts)


@examples(60)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=5), st.integers(1, 20), st.data())
def test_each_piece_that_no_host_has_is_in_one_segment(sizes: list[int], hosts: int, data: Any) -> None:
    files = [file(str(at), mib) for at, mib in enumerate(sizes)]
    have = []
    for one in files:
        last = piece_count(one["size"]) - 1
        first = data.draw(st.integers(0, last))
        have.append({one["path"]: [[first, data.draw(st.integers(first, last))]]})
    segments = fanout.segments(files, have, hosts)
    for one, there in zip(files, have, strict=True):
        piece = piece_bytes(one["size"])
        sent = [
            number
            for segment in segments
            if segment.path == one["path"]
            for number in range(segment.start // piece, -(-(segment.start + segment.size) // piece))
        ]
        (first, last), *_none = there[one["path"]]
        assert sent == [number for number in range(piece_count(one["size"])) if not first <= number <= last]
    assert all(segment.size <= fanout.LARGEST_SEGMENT_BYTES for segment in segments)


def test_a_segment_is_lacked_as_long_as_some_of_it_is() -> None:
    piece = piece_bytes(100 * MIB)
    segment = Segment("a", 4 * piece, 3 * piece)
    assert fanout.lacks(segment, 100 * MIB, [])
    assert fanout.lacks(segment, 100 * MIB, [[0, 5], [7, 90]])
    assert not fanout.lacks(segment, 100 * MIB, [[0, 2], [4, 6]])


def test_each_segment_is_taken_once_and_again_when_it_is_overdue(tmp_path: Path) -> None:
    one, other = fanout.Claims(str(tmp_path), 5), fanout.Claims(str(tmp_path), 5)
    taken: list[int | None] = []
    workers = [threading.Thread(target=lambda each=each: taken.extend(iter(each.next, None))) for each in (one, other)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(number for number in taken if number is not None) == [0, 1, 2, 3, 4]
    assert not one.again(3, after=60)
    os.utime(tmp_path / "3.0", (time.time() - 61, time.time() - 61))
    assert one.again(3, after=60)
    # The other one comes too late: it was taken just now.
    assert not other.again(3, after=60)


class Swarm:
    """Hosts that have at once what one of them was handed, unless that one is dead; and the clock that their workers look at."""

    def __init__(self, folder: Path, size: int, hosts: int) -> None:
        self.files = [file("a", size)]
        self.plan = fanout.segments(self.files, [], hosts)
        self.folder, self.now, self.handed = folder, 0.0, [0] * hosts
        # What no host has; others may have the rest of the plan.
        self.fresh = len(self.plan)
        self.there: set[int] = set()
        self.dead: set[int] = set()

    def put(self, host: int, segment: Segment) -> None:
        if host in self.dead:
            raise OSError("gone")
        self.handed[host] += segment.size
        piece = piece_bytes(self.files[0]["size"])
        self.there.update(range(segment.start // piece, -(-(segment.start + segment.size) // piece)))

    def ask(self, host: int) -> Mapping[str, Any]:
        if host in self.dead:
            raise OSError("gone")
        have = [[number, number] for number in sorted(self.there)]
        joined = have if len(have) < 2 else _joined(have)
        done = len(self.there) == piece_count(self.files[0]["size"])
        return {"files": {"a": {"done": done, "have": joined}}, "received": len(self.there), "slices": 0, "wrong": {}}

    def work(self, host: int, **more: Any) -> dict[str, Any]:
        def sleep(seconds: float) -> None:
            self.now += seconds

        ways = fanout.Ways(
            lambda segment: self.put(host, segment), lambda: self.ask(host), clock=lambda: self.now, sleep=sleep, **more
        )
        sizes = {"a": self.files[0]["size"]}
        return fanout.hand_on(self.plan, fanout.Claims(str(self.folder), self.fresh), sizes, ["a"], ways)


def _joined(ranges: list[list[int]]) -> list[list[int]]:
    found = [list(ranges[0])]
    for first, last in ranges[1:]:
        if first == found[-1][1] + 1:
            found[-1][1] = last
        else:
            found.append([first, last])
    return found


def test_the_controller_sends_one_copy(tmp_path: Path) -> None:
    swarm = Swarm(tmp_path, 100, 3)
    first = swarm.work(0)
    assert first["left"] == []
    assert (first["handed"], swarm.work(1)["handed"]) == (100 * MIB, 0)


def test_what_went_to_a_host_that_died_is_handed_over_again(tmp_path: Path) -> None:
    swarm = Swarm(tmp_path, 100, 3)
    # The dead host's worker had taken two segments.
    claims = fanout.Claims(str(tmp_path), len(swarm.plan))
    lost = [claims.next(), claims.next()]
    assert lost == [0, 1]
    found = swarm.work(1, again_seconds=0.0)
    assert found["left"] == []
    assert found["handed"] == 100 * MIB


def test_what_other_hosts_did_not_pass_on_is_handed_over(tmp_path: Path) -> None:
    swarm = Swarm(tmp_path, 100, 3)
    swarm.fresh = 0
    found = swarm.work(1, again_seconds=12.0)
    assert found["left"] == []
    assert found["handed"] == 100 * MIB
    assert swarm.now >= 12


def test_a_worker_gives_up_when_nothing_moves(tmp_path: Path) -> None:
    swarm = Swarm(tmp_path, 100, 3)
    claims = fanout.Claims(str(tmp_path), len(swarm.plan))
    while claims.next() is not None:
        pass
    found = swarm.work(1, again_seconds=1e9, stalled_seconds=30.0)
    assert found["left"] == ["a"]
    assert 30 <= swarm.now < 60


def test_hosts_that_do_not_reach_each_other_are_named() -> None:
    addresses = {"gpu01": "10.0.0.1", "gpu02": "10.0.0.2", "gpu03": "10.0.0.3"}
    peers = {host: [other for other in addresses if other != host] for host in addresses}
    reached = {"gpu01": ["10.0.0.2"], "gpu02": [], "gpu03": ["10.0.0.2"]}
    # One way is enough.
    assert fanout.apart(reached, addresses, peers) == [["gpu01", "gpu03"]]


def test_the_figures_of_a_run() -> None:
    one = {"received": 0, "slices": 1 << 30, "cpu_seconds": 4.0, "seconds": 10.0, "handed": 1 << 30}
    other = {"received": 1 << 30, "slices": 0, "cpu_seconds": 2.0, "seconds": 11.0}
    found = fanout.figures({"gpu01": one, "gpu02": other}, 1 << 30, 16.0)
    assert found["copies"] == 1.0
    assert found["cpu_seconds_per_gib"] == 3.0
    assert found["mib_per_second"] == 64.0
