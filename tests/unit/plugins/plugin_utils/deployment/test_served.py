"""To which version a deployment goes back, what its roles are given then, and what people are told."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import served
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import CODE
from hypothesis import given
from hypothesis import strategies as st

from tests.support.junk import JUNK, places, replaced

REFERENCE, ID = "image:1", "sha256:0123456789abcdef"
DEPLOYMENTS = {"chat": {"hosts": ["gpu1", "gpu2"], "head": "gpu1"}}


def notes(*versions: str, begun: str = "", returned: str = "") -> dict[str, Any]:
    """``llm_served`` of a host."""
    states = [
        {
            "version": version,
            "since": "then",
            "vllm_version": "1",
            "image": {"reference": f"image:{version}", "id": ""},
            "models": [],
        }
        for version in versions
    ]
    note = {"version": returned, "image": f"image:{returned}", "at": "now", "reason": ""}
    return {
        "states": states,
        "begun": {"version": begun, "image": f"image:{begun}"} if begun else None,
        "returned": note if returned else None,
    }


def looked(version: str = "a", **more: Any) -> dict[str, Any]:
    """What the module found of a version on a host."""
    section = {
        "deployment": "chat",
        "image": REFERENCE,
        "vllm": {"command": ["run", REFERENCE]},
        "asked": {"vllm": "1", CODE: "old"},
    }
    state = {
        **notes(version)["states"][0],
        "image": {"reference": REFERENCE, "id": ID},
        "models": [{"model": "m", "revision": "0123456789abcdef"}],
        "section": section,
        "plan": {"ok": True},
    }
    return {
        "served": state,
        "present": True,
        "moved": False,
        "lacking": [],
        "left": {"version": "b", "image": "image:b"},
        **more,
    }


@pytest.mark.parametrize(
    ("hosts", "wanted"),
    [
        ([notes("b", "a")], "a"),
        ([notes("b", "a"), notes("b", "a")], "a"),
        ([notes("a")], ""),
        ([notes()], ""),
        # A run was ended before the new version served: what served last.
        ([notes("a", begun="b")], "a"),
        ([notes("a", begun="b"), notes("a")], "a"),
        ([notes("b", "a", begun="b")], "a"),
        # It was ended when some hosts had noted the new version, or some had gone back.
        ([notes("b", "a"), notes("a")], "a"),
        ([notes("a", "z", returned="b"), notes("b", "a")], "a"),
        # Nothing that both know.
        ([notes("b", "a"), notes("b", "z")], ""),
        ([notes("b"), notes("a")], ""),
    ],
)
def test_the_version_before_is_one_that_every_host_knows(hosts: list[dict[str, Any]], wanted: str) -> None:
    assert served.version_before({f"gpu{number}": each for number, each in enumerate(hosts)}) == wanted


def test_a_host_leaves_what_is_begun_or_serves_or_what_it_has_left_already() -> None:
    for facts in (notes("a", begun="b"), notes("b", "a"), notes("a", returned="b")):
        assert served.left_by(facts, "a") == {"version": "b", "image": "image:b"}


def test_an_image_whose_reference_moved_on_goes_by_its_kept_name() -> None:
    for moved, image in ((False, REFERENCE), (True, "llm-kept:0123456789ab")):
        found = served.served_decision({"gpu1": looked(moved=moved)}, "code", {"hosts": {"gpu2": {}}, "plans": {}})
        section = found["hosts"]["gpu1"]
        assert (section["image"], section["vllm"]["command"]) == (image, ["run", image])
        assert section["asked"] == {"vllm": "1", CODE: "code"}
        assert (found["plans"], sorted(found["hosts"])) == ({"chat": {"ok": True}}, ["gpu1", "gpu2"])


def test_what_cannot_go_back_is_named_for_all_hosts_at_once() -> None:
    assert served.rollback_plan(DEPLOYMENTS, {"gpu1": looked(), "gpu2": looked()})["problems"] == []
    cases: list[tuple[list[str], dict[str, Any]]] = [
        (["back_silent"], {"gpu1": {}, "gpu2": looked()}),
        (["back_none"], {"gpu1": looked() | {"served": {}}, "gpu2": looked()}),
        (["back_differs"], {"gpu1": looked(), "gpu2": looked("z")}),
        (["back_no_image", "back_no_model"], {"gpu1": looked(present=False), "gpu2": looked(lacking=["/models/m"])}),
    ]
    for codes, found in cases:
        plan = served.rollback_plan(DEPLOYMENTS, found)
        assert ([each["code"] for each in plan["problems"]], plan["lines"]) == (codes, [])


def test_a_rollback_says_from_what_to_what_and_takes_one_deployment_after_the_other() -> None:
    plan = served.rollback_plan(
        {**DEPLOYMENTS, "other": {"hosts": ["gpu3"], "head": "gpu3"}}, dict.fromkeys(["gpu1", "gpu2", "gpu3"], looked())
    )
    assert (
        plan["lines"][0]
        == "chat on gpu1, gpu2: back to image:1, release 1, m@0123456789ab, since then; it serves now with image:b"
    )
    assert plan["turns"]["sizes"] == [2, 1]
    assert plan["turns"]["hosts"] == "gpu1:gpu2:gpu3"


def upgrade(facts: dict[str, Any], work: dict[str, Any]) -> dict[str, Any]:
    section = {"version": "b", "image": "image:b", "models": [{"model": "m", "revision": ""}]}
    decision = {"work": work, "hosts": {"gpu1": section}, "turns": {"hosts": ""}}
    return served.upgrade_plan(DEPLOYMENTS, facts, decision, {"chat": "2"})


def test_an_upgrade_says_what_becomes_of_a_deployment_and_why() -> None:
    work = {"serve": {"gpu1": [{"role": "vllm", "code": "work_other_settings", "what": ""}], "gpu2": []}}
    plan = upgrade(dict.fromkeys(["gpu1", "gpu2"], notes("a")), work)
    assert plan["lines"] == [
        "chat on gpu1, gpu2: image:a, release 1, (none), since then",
        "  becomes: image:b, vLLM 2, m",
        "  gpu1, serve: vllm (its settings are others than at the last run)",
    ]
    assert upgrade(dict.fromkeys(["gpu1", "gpu2"], notes("a")), {})["lines"] == [
        "Nothing is to be upgraded; what serves is what the inventory asks for."
    ]


def test_hosts_that_could_not_go_back_are_not_upgraded() -> None:
    plan = upgrade({"gpu1": notes("a"), "gpu2": notes()}, {"serve": {"gpu1": [], "gpu2": []}})
    assert [(each["code"], each["value"]) for each in plan["problems"]] == [("upgrade_never_served", "gpu2")]


@pytest.mark.parametrize(
    ("reason", "again", "codes", "says"),
    [("", False, [], True), ("no token", False, ["upgrade_returned"], False), ("no token", True, [], True)],
)
def test_what_did_not_serve_is_refused_and_what_a_person_left_is_named(
    reason: str, again: bool, codes: list[str], says: bool
) -> None:
    back = served.Back("b", "image:b", "now", reason)
    problems, said = served.asks_for_left("chat", "b", back, again)
    assert ([each["code"] for each in problems], bool(said)) == (codes, says)
    assert served.asks_for_left("chat", "c", back, again) == ([], "")
    assert served.asks_for_left("chat", "b", None, again) == ([], "")
    assert served.back_of({"llm_served": notes("a", returned="b")}) == served.Back("b", "image:b", "now", "")
    assert served.back_of({}) is None


def test_the_files_of_a_model_make_its_version() -> None:
    records = [
        {"kind": "model", "model": "m", "path": "models/m/w", "sha256": "1", "revision": "r"},
        {"kind": "model", "model": "other", "path": "models/o/w", "sha256": "1"},
    ]
    variables = {"vllm_model": "m", "models_dir": "/models"}
    (found,) = served.served_models(variables, records)
    assert (found["folder"], found["revision"]) == ("/models/m", "r")
    (other,) = served.served_models(variables, [{**records[0], "sha256": "2"}])
    (unknown,) = served.served_models(variables, [])
    assert other["files"] != found["files"]
    assert served.weights_of([found, unknown]) == [found["files"]]


MODEL = {"model": "m", "folder": "/models/m", "revision": "1", "kept": ""}
SHOWN = {
    "version": "b",
    "since": "then",
    "vllm_version": "1",
    "image": {"reference": "image:b", "id": ID},
    "models": [MODEL],
}


def test_what_a_host_says_of_what_it_served_is_taken() -> None:
    said = {**notes("x", begun="c", returned="a"), "states": [SHOWN, SHOWN]}
    assert served.served_of({"llm_served": said}) == said
    whole = looked()
    whole["served"]["models"] = [MODEL]
    assert served.looked_for(whole) == whole
    assert served.looked_for({**whole, "served": {}})["served"] == {}
    assert (served.served_of({})["states"], served.looked_for({})) == ([], {})


@given(st.data())
def test_a_host_that_lies_about_it_has_nothing_to_go_back_to(data: st.DataObject) -> None:
    facts = {"llm_served": {**notes("x", begun="c", returned="a"), "states": [SHOWN, SHOWN]}}
    wrong = replaced(facts, data.draw(st.sampled_from([each for each in places(facts) if each])), data.draw(JUNK))
    found = served.served_of(wrong)
    served.version_before({"gpu1": found})
    served.left_by(found, "a")
    served.back_of(wrong)
    whole = looked()
    whole["served"]["models"] = [MODEL]
    place = data.draw(st.sampled_from([each for each in places(whole) if each]))
    seen = {"gpu1": served.looked_for(whole), "gpu2": served.looked_for(replaced(whole, place, data.draw(JUNK)))}
    served.rollback_plan(DEPLOYMENTS, seen)
