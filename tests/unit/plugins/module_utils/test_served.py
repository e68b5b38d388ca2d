"""What a deployment has served with, and how the files of an earlier revision stay and come back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _served as served

from tests.support.modules import answer_of

NOTHING: dict[str, Any] = {"states": [], "returned": None, "begun": None}
BACK = {"version": "b", "image": "image:b", "reason": "no token", "at": "2027-01-01T00:00:00Z"}


def state(version: str, since: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    models = [{"model": "m", "folder": "/models/m", "revision": version, "kept": f"/models/.kept/m-{version}"}]
    return {
        "version": version,
        "vllm_version": "0.8.5",
        "since": since,
        "section": {},
        "plan": {},
        "image": {"reference": f"image:{version}", "id": version},
        "models": models,
    }


def content(*versions: str) -> dict[str, Any]:
    found = NOTHING
    for version in versions:
        found = served.with_state(found, state(version), 2, 2)
    return found


def versions(found: dict[str, Any]) -> list[str]:
    return [each["version"] for each in found["states"]]


def test_the_newest_comes_first_and_as_many_stay_as_are_kept() -> None:
    assert versions(content("a", "b", "c")) == ["c", "b", "a"]
    assert versions(content("a", "b", "c", "d")) == ["d", "c", "b"]
    found = served.with_state(content("a", "b"), state("c"), 0, 1)
    assert [
        (each["version"], each["image"]["pinned"], bool(each["models"][0]["kept"])) for each in found["states"]
    ] == [
        ("c", True, True),
        ("b", False, True),
    ]


def test_the_same_version_again_is_no_other_state_and_serves_since_the_first_token() -> None:
    found = served.with_state(content("a", "b"), state("b", "2027-01-01T00:00:00Z"), 1, 1)
    assert versions(found) == ["b", "a"]
    assert found["states"][0]["since"] == "2026-01-01T00:00:00Z"


def test_what_came_after_the_version_that_is_returned_to_is_gone() -> None:
    found = served.gone_back(content("a", "b"), "a", BACK)
    assert versions(found) == ["a"]
    assert (found["states"][0]["since"], found["returned"]) == (BACK["at"], BACK)
    # A run that mends something says nothing else of it; another version ends it.
    assert served.with_state(found, state("a"), 1, 1)["returned"] == found["returned"]
    assert served.with_state(found, state("b"), 1, 1)["returned"] is None
    assert served.with_state(content("a", "b"), state("a"), 1, 1)["states"][0]["version"] == "a"


def test_a_version_that_never_served_is_returned_from_as_well() -> None:
    begun = {**content("a"), "begun": {"version": "b"}}
    found = served.gone_back(begun, "a", BACK)
    assert (versions(found), found["returned"]["version"], found["begun"]) == (["a"], "b", None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "org--model"
    (folder / "sub").mkdir(parents=True)
    (folder / "weights").write_text("old")
    (folder / "sub" / "config.json").write_text("{}")
    (folder / "same").write_text("same")
    return folder


def renew(folder: Path) -> None:
    """As roles do it: another revision has one file of another content, one less, one more, each with a name of its own first."""
    (folder / "incoming").write_text("new")
    os.replace(folder / "incoming", folder / "weights")
    (folder / "sub" / "config.json").unlink()
    (folder / "more").write_text("more")


def test_the_files_of_a_revision_outlive_the_next_one_and_come_back(model: Path) -> None:
    kept = served.keep_model(str(model.parent), str(model))
    assert served.keep_model(str(model.parent), str(model)) == kept
    assert os.stat(model / "same").st_nlink == 2
    renew(model)
    assert served.keep_model(str(model.parent), str(model)) != kept
    assert served.put_back(kept, str(model), dry=True)
    assert (model / "weights").read_text() == "new"
    assert served.put_back(kept, str(model))
    found = {str(path.relative_to(model)): path.read_text() for path in model.rglob("*") if path.is_file()}
    assert found == {"weights": "old", "sub/config.json": "{}", "same": "same"}
    assert not served.put_back(kept, str(model))


def test_a_model_that_lies_elsewhere_is_nobodys_to_keep(model: Path, tmp_path: Path) -> None:
    assert served.keep_model(str(tmp_path / "elsewhere"), str(model)) == ""
    assert served.keep_model(str(model.parent), str(model.parent / "missing")) == ""


def test_only_what_no_deployment_of_the_machine_needs_goes(model: Path, tmp_path: Path, monkeypatch: Any) -> None:
    first = served.keep_model(str(model.parent), str(model))
    renew(model)
    second = served.keep_model(str(model.parent), str(model))
    monkeypatch.setattr(served, "YOUNG_SECONDS", -1)
    for place, kept in (("served.json", first), ("deployments/b/served.json", second)):
        one = state("a")
        one["models"][0]["kept"] = kept
        served.write_served(str(tmp_path / place), served.with_state(NOTHING, one, 1, 1))
    assert served.pins(str(tmp_path)) == {"images": ["a"], "models": sorted([first, second]), "environments": []}
    assert served.remove_unpinned(str(model.parent), [first]) == [second]
    assert os.path.isdir(first)


def test_a_file_of_others_or_of_another_form_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "served.json"
    assert served.read_served(str(path)) == NOTHING
    served.write_served(str(path), content("a"))
    assert versions(served.read_served(str(path))) == ["a"]
    path.chmod(0o666)
    assert served.read_served(str(path)) == NOTHING
    path.chmod(0o600)
    for text in ('{"format": 99, "states": []}', '{"format": 1, "states": [{}]}', "no json"):
        path.write_text(text)
        assert served.read_served(str(path)) == NOTHING


@pytest.mark.slow
def test_the_module_keeps_a_version_and_puts_the_one_before_back(model: Path, tmp_path: Path) -> None:
    path, common = tmp_path / "served.json", {"host_dir": str(tmp_path), "models_dir": str(model.parent)}
    serves = {
        "image": "image:a",
        "vllm_version": "1",
        "section": {"options": {"port": 1, "host": 2}},
        "models": [{"model": "m", "folder": str(model), "revision": "1"}],
        "plan": {},
    }
    for version in ("a", "b"):
        begun = {"state": "begun", "path": str(path), "serves": {"version": version, "image": "image:a"}}
        assert answer_of("served", begun)["changed"] is False
        assert served.read_served(str(path))["begun"]["version"] == version
        arguments = {"state": "kept", "path": str(path), **common, "serves": {**serves, "version": version}}
        # What it says holds no word in which a secret of one letter could be hidden.
        said = answer_of("served", {**arguments, "closed": {"A": "a", "ONE": "1"}})
        assert {name for name in said if name != "invocation"} == {"changed"}
        assert said["changed"] is False
        assert served.read_served(str(path))["begun"] is None
        if version == "a":
            renew(model)
    common["version"] = "a"
    looked = answer_of("served", {"state": "looked", "path": str(path), **common})
    # A file with other lines first would be another file: the server would be started anew once more.
    assert list(looked["served"]["section"]["options"]) == ["port", "host"]
    assert (looked["served"]["version"], looked["present"], looked["moved"], looked["lacking"]) == (
        "a",
        True,
        False,
        [],
    )
    assert answer_of("served", {"state": "put_back", "path": str(path), **common})["changed"] is True
    assert (model / "weights").read_text() == "old"
    assert answer_of("served", {"state": "looked", "path": str(path), **common, "version": "z"})["served"] == {}
