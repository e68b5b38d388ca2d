"""Which hosts take part in their deployments, by what hosts remember and what a run asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import (
    ABSENT,
    Request,
    absent_lines,
    change_lines,
    requested,
    seen_members,
    settle,
    with_memory,
    with_seen,
)

NOW = "2026-11-28T03:12Z"
MEMBERS = ["gpu01", "gpu02", "gpu03"]
ADDRESSES = {host: [f"10.0.0.{host[-1]}"] for host in [*MEMBERS, "gpu04"]}


def inventory(hosts: Sequence[str] = MEMBERS, head: str = "gpu01") -> dict[str, Any]:
    alone = {"hosts": ["chat01"], "head": "chat01"}
    return {
        "deployments": {"code": {"hosts": list(hosts), "head": head}, "chat": alone},
        "hosts": [*hosts, "chat01"],
        "names": {"gpu01": {"sharing": ["gpu01"]}},
    }


def remembered(
    turn: int, *hosts: str, members: Sequence[str] = MEMBERS, former: Mapping[str, Any] | None = None
) -> Any:
    known = {host: {"since": "2026-11-20T01:00Z", "why": "left_out"} for host in hosts}
    return {
        "members": {host: ADDRESSES[host] for host in members if host not in hosts},
        ABSENT: {"deployment": "code", "turn": turn, "hosts": known, "former": dict(former or {})},
    }


def settled(states: Mapping[str, Any], silent: Sequence[str] = (), asked: Request | None = None, **more: Any) -> Any:
    said = inventory(**more)
    known = [host for entry in said["deployments"].values() for host in entry["hosts"]]
    return settle(said, states, dict.fromkeys(silent, "no route"), asked or Request(), known, NOW)


def answers(*hosts: str, state: Any = None) -> dict[str, Any]:
    return {**{host: state or {} for host in hosts}, "chat01": {}}


@pytest.mark.parametrize(
    ("states", "silent", "asked", "hosts", "head", "turn"),
    [
        # All answer, and nobody remembers anything.
        (answers(*MEMBERS), [], Request(), MEMBERS, "gpu01", 0),
        # A worker is lost, then the head.
        (answers("gpu01", "gpu02"), ["gpu03"], Request(left_out=["gpu03"]), ["gpu01", "gpu02"], "gpu01", 1),
        (answers("gpu02", "gpu03"), ["gpu01"], Request(left_out=["gpu01"]), ["gpu02", "gpu03"], "gpu02", 1),
        # It stays out in the next run, whether it answers or not, and whatever it remembers itself.
        (answers("gpu02", "gpu03", state=remembered(1, "gpu01")), ["gpu01"], Request(), ["gpu02", "gpu03"], "gpu02", 1),
        (
            {**answers("gpu02", "gpu03", state=remembered(3, "gpu01")), "gpu01": remembered(2, "gpu03")},
            [],
            Request(),
            ["gpu02", "gpu03"],
            "gpu02",
            3,
        ),
        # A second one goes, the first one comes back, all are back.
        (answers("gpu03", state=remembered(1, "gpu01")), ["gpu01", "gpu02"], Request(["gpu02"]), ["gpu03"], "gpu03", 2),
        (answers(*MEMBERS, state=remembered(1, "gpu01")), [], Request(back=["gpu01"]), MEMBERS, "gpu01", 2),
        (answers(*MEMBERS, state=remembered(2)), [], Request(), MEMBERS, "gpu01", 2),
        # A host that was removed, also for good.
        (answers(*MEMBERS), [], Request(removed=["gpu02"]), ["gpu01", "gpu03"], "gpu01", 1),
        # A host that has served another deployment.
        (
            {**answers(*MEMBERS), "gpu03": {ABSENT: {**remembered(7, "gpu01")[ABSENT], "deployment": "chat"}}},
            [],
            Request(),
            MEMBERS,
            "gpu01",
            0,
        ),
        # Another machine's words in the file.
        (answers(*MEMBERS, state={ABSENT: {"turn": "x"}, "members": {}}), [], Request(), MEMBERS, "gpu01", 0),
        (answers(*MEMBERS, state={ABSENT: {"turn": 1, "hosts": [1], "former": 2}}), [], Request(), MEMBERS, "gpu01", 0),
    ],
)
def test_who_takes_part(
    states: Any, silent: Sequence[str], asked: Request, hosts: Sequence[str], head: str, turn: int
) -> None:
    found = settled(states, silent, asked)
    assert found.problems == []
    code = found.inventory["deployments"]["code"]
    assert (code["hosts"], code["head"]) == (list(hosts), head)
    assert code.get(ABSENT, {}).get("turn", 0) == turn
    assert found.inventory["out"] == [host for host in MEMBERS if host not in hosts]
    assert found.inventory["hosts"] == [*hosts, "chat01"]
    # The other deployment has nothing to remember.
    assert found.inventory["deployments"]["chat"] == {"hosts": ["chat01"], "head": "chat01"}


def test_the_day_on_which_a_host_was_left_out_stays() -> None:
    before = remembered(1, "gpu03")
    found = settled(answers("gpu01", "gpu02", state=before), ["gpu03"], Request(left_out=["gpu03"]))
    assert found.inventory["deployments"]["code"][ABSENT] == before[ABSENT]
    found = settled(answers("gpu01", "gpu02", state=before), ["gpu03"], Request(removed=["gpu03"]))
    assert found.inventory["deployments"]["code"][ABSENT]["hosts"]["gpu03"]["why"] == "removed"


@pytest.mark.parametrize(
    ("states", "silent", "asked", "code"),
    [
        (answers("gpu01", "gpu02"), ["gpu03"], Request(), "members_silent"),
        (answers("gpu01"), ["gpu02", "gpu03"], Request(left_out=["gpu03"]), "members_silent"),
        (answers("gpu01"), ["gpu02", "gpu03"], Request(left_out=MEMBERS), "members_nobody_left"),
    ],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_is_refused(states: Any, silent: Sequence[str], asked: Request, code: str, lang: str) -> None:
    said = inventory()
    known = [*MEMBERS, "chat01"]
    problems = settle(said, states, dict.fromkeys(silent, "no route"), asked, known, NOW, lang).problems
    assert [each["code"] for each in problems] == [code]
    assert "{" not in str([*problems[0].values()])
    assert "code" in problems[0]["what"]


def test_a_whole_deployment_is_removed() -> None:
    found = settled(answers(*MEMBERS), [], Request(removed=MEMBERS))
    assert found.problems == []
    assert list(found.inventory["deployments"]) == ["chat"]
    assert found.inventory["out"] == MEMBERS


def test_a_deployment_outside_of_the_run_stays_as_it_is() -> None:
    found = settled({"chat01": {}}, [], Request(left_out=["gpu03"]))
    assert found.inventory["deployments"] == inventory()["deployments"]


def test_a_host_that_leaves_the_inventory_is_named_until_it_is_removed() -> None:
    everybody = {"members": ADDRESSES}
    first = settled(answers(*MEMBERS, state=everybody))
    absent = first.inventory["deployments"]["code"][ABSENT]
    assert absent == {
        "deployment": "code",
        "turn": 1,
        "hosts": {},
        "former": {"gpu04": {"since": NOW, "address": "10.0.0.4"}},
    }
    # The hosts have other members now, and remember.
    second = settled(answers(*MEMBERS, state={"members": {}, ABSENT: absent}))
    assert second.inventory["deployments"]["code"][ABSENT] == absent
    assert second.inventory["former"]["gpu04"]["deployment"] == "code"
    assert any("gpu04" in line and "10.0.0.4" in line for line in absent_lines(second.inventory, "en"))
    gone = settled(answers(*MEMBERS, state={"members": {}, ABSENT: absent}), [], Request(forgotten=["gpu04"]))
    assert gone.inventory["former"] == {}
    again = settled(answers(*MEMBERS, "gpu04", state={"members": {}, ABSENT: absent}), hosts=[*MEMBERS, "gpu04"])
    assert again.inventory["former"] == {}
    # One that was left out still holds what it held; one that was removed is no news.
    before = remembered(1, "gpu03")
    assert list(settled(answers("gpu01", "gpu02", state=before), hosts=["gpu01", "gpu02"]).inventory["former"]) == [
        "gpu03"
    ]
    before[ABSENT]["hosts"]["gpu03"]["why"] = "removed"
    assert settled(answers("gpu01", "gpu02", state=before), hosts=["gpu01", "gpu02"]).inventory["former"] == {}


def test_the_controller_remembers_a_deployment_that_nobody_else_can() -> None:
    kept = seen_members(None, inventory(), {"gpu01": "192.0.2.1"}, NOW)
    assert kept["gpu01"] == {"deployment": "code", "address": "192.0.2.1", "since": NOW}
    less = {**inventory(), "deployments": {"chat": {"hosts": ["chat01"], "head": "chat01"}}}
    found = with_seen(less, kept, ["chat01"], Request())
    assert list(found["former"]) == MEMBERS
    assert with_seen(less, kept, ["chat01"], Request(forgotten=MEMBERS))["former"] == {}
    assert with_seen(less, "what somebody wrote", ["chat01"], Request())["former"] == {}
    assert list(seen_members(kept, less, {}, "later")) == [*MEMBERS, "chat01"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_run_says_who_is_missing_since_when_and_what_to_do(lang: str) -> None:
    found = settled(answers("gpu01", "gpu02", state=remembered(1, "gpu03")), ["gpu03"]).inventory
    (line,) = absent_lines(found, lang)
    assert all(part in line for part in ("code", "gpu03", "2026-11-20 01:00 UTC", "replace_node.yml -e llm_node=gpu03"))
    assert absent_lines(inventory(), lang) == []


def test_a_look_refuses_nothing_and_makes_nobody_a_former_host() -> None:
    found = with_memory(inventory(), answers("gpu02", "gpu03", state=remembered(1, "gpu01")))
    assert (found["deployments"]["code"]["head"], found["out"]) == ("gpu02", ["gpu01"])
    found = with_memory(inventory(), answers(*MEMBERS, state={"members": ADDRESSES}))
    assert ABSENT not in found["deployments"]["code"]


def test_all_names_of_a_machine_are_meant() -> None:
    names = {"gpu01_a": {"sharing": ["gpu01_a", "gpu01_b"]}, "gpu01_b": {"sharing": ["gpu01_a", "gpu01_b"]}}
    assert requested({"left_out": ["gpu01_b"], "forgotten": ["gone"]}, names) == Request(
        ["gpu01_a", "gpu01_b"], [], [], ["gone"]
    )


@pytest.mark.parametrize(
    ("asked", "states", "leaving", "served_by", "drained"),
    [
        # A worker, and a head: their programs are stopped where they answer.
        (Request(removed=["gpu03"]), answers(*MEMBERS), ["gpu03"], {}, ["gpu03"]),
        (Request(left_out=["gpu01"]), answers(*MEMBERS), ["gpu01"], {"gpu01": "code"}, ["gpu01"]),
        (Request(left_out=["gpu01"]), answers("gpu02", "gpu03"), [], {}, []),
        # In the second run requests end no more, because nothing starts anew.
        (Request(left_out=["gpu01"]), answers(*MEMBERS, state=remembered(1, "gpu01")), ["gpu01"], {}, []),
        # A host of a service.
        (Request(removed=["gate"]), answers(*MEMBERS), ["gate"], {}, []),
    ],
)
def test_hosts_that_leave_are_stopped_where_they_answer(
    asked: Request, states: Any, leaving: Sequence[str], served_by: Any, drained: Sequence[str]
) -> None:
    found = settled(states, [host for host in MEMBERS if host not in states], asked).inventory
    assert (found["leaving"], found["served_by"]) == (list(leaving), served_by)
    assert found["deployments"]["code"].get("leaving", []) == list(drained)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_a_run_is_about_to_do_is_said(lang: str) -> None:
    request = Request(left_out=["gpu03"], back=["gpu02"])
    found = settled(answers("gpu01", "gpu02", state=remembered(1, "gpu02")), ["gpu03"], request).inventory
    plans = {"code": {"settings": {"tensor_parallel_size": 4, "max_model_len": 8192}}, "chat": {"settings": {}}}
    out, back, plan = change_lines(plans, found, request, lang)
    assert "gpu03" in out
    assert "gpu02" in back
    assert all(part in plan for part in ("code", "gpu01, gpu02", "4", "1", "8192"))
