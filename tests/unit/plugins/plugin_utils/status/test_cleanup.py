"""What a cleanup frees, by what hosts say and the inventory asks for, and how people are told."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._cleanup_rules import CLASSES, NAMED, OURS
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import TEXTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.status import cleanup
from hypothesis import given
from hypothesis import strategies as st

from tests.support.deployments import defaults

ASKED = cleanup.Asked(frozenset({"site/vllm:2"}), frozenset({"/llm/models/org--a"}))
GIB = 1 << 30


def item(kind: str, name: str, verdict: str = "safe", why: str = "unneeded", **more: Any) -> dict[str, Any]:
    said = {
        "class": kind,
        "name": name,
        "verdict": verdict,
        "why": why,
        "by": "",
        "bytes": GIB,
        "mount": "/",
        "stamp": [1],
    }
    return {**said, "tags": [], "digests": [], **more}


def found(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    disk = {"mount": "/", "total_bytes": 100 * GIB, "available_bytes": GIB, "files": 100, "files_free": 50}
    return {"items": list(items), "other": [], "damage": [], "engine_answers": True, "file_systems": [disk], **more}


def document(*items: dict[str, Any], what: tuple[str, ...] = OURS, **more: Any) -> dict[str, Any]:
    return cleanup.host_document("gpu01", found(*items, **more), ASKED, what)


def going(said: dict[str, Any]) -> list[str]:
    return [each["name"] for each in cleanup.to_remove(said)]


def test_what_the_inventory_asks_for_stays() -> None:
    said = document(
        item("images", "sha256:a", tags=["site/vllm:2"]),
        item("images", "sha256:b", tags=["site/vllm:1"]),
        item("models", "/llm/models/org--a"),
        item("models", "/llm/models/org--b"),
    )
    assert going(said) == ["sha256:b", "/llm/models/org--b"]
    assert {each["why"] for each in said["items"] if not each["goes"]} == {"asked"}


def test_what_people_may_want_to_read_goes_only_when_it_is_named() -> None:
    every = [item(kind, f"/{kind}") for kind in CLASSES]
    assert going(document(*every)) == [f"/{kind}" for kind in OURS]
    assert going(document(*every, what=("cores",))) == ["/cores"]
    lines = cleanup.plan_lines([document(*every)], OURS, "en")
    assert [
        line
        for line in lines
        if "could go with -e llm_cleanup_what=journals: 1 (journals and logs), 1.0 GiB on /" in line
    ]


asked = st.builds(
    cleanup.Asked,
    st.frozensets(st.sampled_from("ab"), max_size=2),
    st.frozensets(st.sampled_from(["/m/a", "/m"]), max_size=1),
)


@given(
    st.lists(
        st.builds(
            item,
            st.sampled_from(CLASSES),
            st.sampled_from(["a", "b", "/m/a", "/m/a/c", "/m/b"]),
            st.sampled_from(["safe", "kept", "unknown", "foreign"]),
            tags=st.lists(st.sampled_from("abc"), max_size=2),
        ),
        max_size=8,
    ),
    asked,
    st.sets(st.sampled_from(CLASSES)),
)
def test_only_what_is_safe_and_asked_for_by_nobody_is_ever_removed(
    items: list[dict[str, Any]], wanted: cleanup.Asked, what: set[str]
) -> None:
    said = cleanup.host_document("h", found(*items), wanted, what)
    for each in cleanup.to_remove(said):
        same = next(
            one
            for one in items
            if (one["class"], one["name"]) == (each["class"], each["name"]) and one["verdict"] == "safe"
        )
        assert same["class"] in what
        if same["class"] in ("images", "layers"):
            assert not wanted.images.intersection([same["name"], *each["tags"]])
        if same["class"] == "models":
            assert not any(same["name"] == folder or same["name"].startswith(folder + "/") for folder in wanted.folders)
    for lang in ("en", "zh"):
        assert cleanup.plan_lines([said], sorted(what), lang)


def test_the_lines_name_disks_what_goes_what_stays_and_what_others_have() -> None:
    said = document(
        item("images", "sha256:b", tags=["site/vllm:1"]),
        item("images", "sha256:c", "kept", "used", by="web", tags=["shop/web:7"]),
        *(item("models", f"/llm/models/{name}", "kept", "pinned") for name in "abcde"),
        item("models", "/llm/models/x", "foreign", "foreign"),
        item("caches", "/llm/cache/x", "unknown", "never_served"),
        other=[{"name": "docker volumes", "bytes": GIB, "mount": ""}],
    )
    assert cleanup.plan_lines([said], OURS, "en") == [
        "gpu01: / is nearly full: 1.0 GiB of 100.0 GiB are free (1 %), and 50 % of its inodes",
        "gpu01: goes: site/vllm:1 (1.0 GiB on /): no deployment, no record and no version to go back to names it",
        "gpu01: stays: 1 (images), 1.0 GiB on /, a container uses it: web: shop/web:7",
        (
            "gpu01: stays: 5 (models), 5.0 GiB on /, a deployment serves with it, or may go back to it: "
            "/llm/models/a, /llm/models/b, /llm/models/c, and 2 more"
        ),
        (
            "gpu01: stays, since not enough is known: 1 (compile caches), 1.0 GiB on /, nothing has served here, so nobody knows "
            "which is needed: /llm/cache/x"
        ),
        "gpu01: not ours: 1 (models), 1.0 GiB on /, no record and no label says that it is ours",
        "gpu01: takes space besides: docker volumes 1.0 GiB",
    ]


def test_a_host_that_does_not_answer_is_named_and_loses_nothing() -> None:
    said = cleanup.host_document("gpu02", None, ASKED, OURS)
    assert cleanup.to_remove(said) == []
    assert cleanup.plan_lines([said], OURS, "en") == [
        "gpu02: no answer, so nothing is known of its disks and nothing goes."
    ]
    assert cleanup.with_result(said, None)["freed_bytes"] == 0


def test_what_was_removed_and_what_is_free_now() -> None:
    planned = document(item("models", "/llm/models/x"))
    disk = {**planned["file_systems"][0], "available_bytes": 3 * GIB}
    done = {"removed": [item("models", "/llm/models/x")], "stayed": [], "file_systems": [disk], "damage": []}
    said = cleanup.with_result(planned, done)
    assert said["freed_bytes"] == 2 * GIB
    assert cleanup.result_lines(said, "en")[0] == "gpu01: removed 1; 2.0 GiB more are free."
    assert cleanup.result_lines(said, "en", dry=True)[0] == "gpu01: 1 would be removed, of about 1.0 GiB."
    stayed = [
        {**item("images", "sha256:b", tags=["a:1"]), "why": "used", "said": ""},
        {**item("runs", "/x"), "why": "", "said": "EIO"},
    ]
    lines = cleanup.result_lines(cleanup.with_result(planned, {**done, "removed": [], "stayed": stayed}), "en")
    assert lines[:2] == ["gpu01: a:1 stayed: a container uses it: ", "gpu01: /x stayed: EIO"]


HURT = [
    ({"kind": "unit", "name": "llm-probe.service", "role": "", "said": "failed"}, "site"),
    ({"kind": "unit", "name": "llm-gateway.service", "role": "", "said": ""}, "gateway"),
    ({"kind": "container", "name": "llm-grafana", "role": "", "said": "exited 1"}, "monitoring"),
    ({"kind": "short", "name": "/llm/models/a/x", "role": "models", "said": ""}, "models"),
    ({"kind": "record", "name": "/llm/records/vllm.json", "role": "vllm", "said": ""}, "site"),
    ({"kind": "begun", "name": "site/vllm:3", "role": "", "said": "2026"}, "upgrade"),
]


def commands(*hurt: dict[str, Any]) -> list[str]:
    lines = cleanup.damage_lines(document(damage=list(hurt)), "en")
    return [line.rpartition(": ")[2] for line in lines if "mends the damage" in line]


@pytest.mark.parametrize(("hurt", "playbook"), HURT)
def test_damage_has_the_command_that_mends_it(hurt: dict[str, Any], playbook: str) -> None:
    options = " -e llm_target=gpu01" if playbook == "upgrade" else ""
    assert commands(hurt) == [f"ansible-playbook playbooks/{playbook}.yml{options}"]
    assert hurt["name"] in "\n".join(cleanup.damage_lines(document(damage=[hurt]), "zh"))


def test_what_a_whole_run_mends_needs_no_other_command() -> None:
    assert commands(*(hurt for hurt, _playbook in HURT)) == [
        "ansible-playbook playbooks/site.yml",
        "ansible-playbook playbooks/upgrade.yml -e llm_target=gpu01",
    ]


def test_what_a_machine_is_asked_for() -> None:
    variables = {
        **defaults(),
        "models_dir": "/llm/models",
        "vllm_version": "0.8.5",
        "vllm_model": "org/a",
        "vllm_image": "site/vllm:2",
    }
    records = [
        {
            "kind": "image",
            "images": [{"reference": "site/ray:2", "id": "sha256:r", "base": {"reference": "site/vllm:2"}}],
        }
    ]
    asked = cleanup.asked_of([variables, {**variables, "vllm_model": "/srv/b", "web_ui_image": "page:1"}], records)
    assert asked.images == {"site/vllm:2", "site/ray:2", "sha256:r", "page:1"}
    assert asked.folders == {"/llm/models/org--a", "/srv/b"}


def test_a_class_that_nobody_knows() -> None:
    assert cleanup.unknown_classes(["models", "everything"]) == ["everything"]
    assert set(OURS) | set(NAMED) == set(CLASSES)


def test_every_reason_and_kind_has_words() -> None:
    for texts in (TEXTS["en"], TEXTS["zh"]):
        assert all(f"cleanup_kind_{kind}" in texts for kind in CLASSES)
