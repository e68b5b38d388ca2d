"""What takes space on a host, and what of it may go: never what serves, what is pinned, and what is somebody else's."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _cleanup as cleanup
from ansible_collections.baremetal.llm.plugins.module_utils import _cleanup_rules as rules
from ansible_collections.baremetal.llm.plugins.module_utils import _evidence as evidence
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import STATE_NAME, read_state
from ansible_collections.baremetal.llm.plugins.module_utils._served import write_served
from hypothesis import given
from hypothesis import strategies as st

OLD = time.time() - 3 * 86400
NEW, OLDER, PINNED, STRANGE, BARE = (f"sha256:{letter * 64}" for letter in "abcde")


class Machine:
    """A host on which systemd knows one failed service of ours."""

    def answer(self, name: str, *_arguments: str) -> str:
        return "Id=llm-probe.service\nActiveState=failed\nResult=resources\n" if name == "systemctl" else ""


class Docker:
    """The engine of a host, which does what it is told."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, Any]] = {
            NEW: {"RepoTags": ["site/vllm:2"], "Size": 100},
            OLDER: {"RepoTags": ["site/vllm:1", f"llm-kept:{'b' * 12}"], "Size": 90},
            PINNED: {"RepoTags": [f"llm-kept:{'c' * 12}"], "Size": 80},
            STRANGE: {"RepoTags": ["shop/web:7"], "Size": 70},
            BARE: {"RepoTags": None, "Size": 60, "Labels": {"baremetal.llm.base": "x"}},
        }
        self.containers: list[dict[str, Any]] = [
            {"Id": "1", "Names": ["/llm-vllm"], "ImageID": NEW, "Labels": {"baremetal.llm.deployment": "chat"}},
            {"Id": "2", "Names": ["/web"], "ImageID": STRANGE, "Labels": {}, "Mounts": []},
        ]

    def list(self, question: str, *_rest: Any, **_named: Any) -> list[dict[str, Any]] | None:
        if question == "/images/json":
            return [{"Id": image, **said} for image, said in self.images.items()]
        assert question.startswith("/containers/json?all=1")
        return self.containers

    def ask(self, question: str, *_rest: Any, **_named: Any) -> dict[str, Any] | None:
        if question == "/system/df":
            return {"LayersSize": 400, "Images": [{"Id": OLDER, "SharedSize": 30}], "Volumes": None}
        return self.images.get(question.split("/")[2]) if question.startswith("/images/") else None

    def remove(self, name: str) -> str:
        for image, said in list(self.images.items()):
            if name == image or name in (said["RepoTags"] or ()):
                said["RepoTags"] = [tag for tag in said["RepoTags"] or () if tag != name]
                if not said["RepoTags"]:
                    del self.images[image]
        return ""


def old(path: Path, text: str = "x" * 5000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (OLD, OLD))
    return path


def record(host: Path, role: str, **content: Any) -> None:
    found = {"digest": "d", "collection": "c", "subjects": {}, "evidence": {}, **content}
    evidence.write_record(str(host / "records"), role, found)


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    found = Docker()
    monkeypatch.setattr(cleanup, "ask_engine_list", found.list)
    monkeypatch.setattr(cleanup, "ask_engine", found.ask)
    monkeypatch.setattr(cleanup, "remove_image", found.remove)
    monkeypatch.setattr(cleanup, "own_containers", lambda: None)
    monkeypatch.setattr(cleanup, "homes", lambda: ["/root"])
    everybody = cleanup.open_inodes
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/1").symlink_to("/proc/self")
    monkeypatch.setattr(cleanup, "open_inodes", lambda: everybody(str(tmp_path / "proc")))
    return found


@pytest.fixture
def where(tmp_path: Path, docker: Docker) -> cleanup.Where:
    """A host that serves with one version, may go back to another, and has what a full disk and years leave."""
    host, system = tmp_path / "llm", tmp_path / "system"
    models = host / "models"
    for name in ("new/a", "before/a", "gone/a", "gone/b/c", "own/a", "mixed/a", ".kept/before-1/a", ".kept/stale-2/a"):
        old(models / name)
    (models / "mixed/mine").write_text("of a person")
    (models / "link").symlink_to(models / "own")
    noted = {name: {"sha256": "s", "stamp": [1]} for name in ("new/a", "before/a", "gone/a", "gone/b/c", "mixed/a")}
    (models / STATE_NAME).write_text(json.dumps(noted))
    old(models / ".incoming/half")
    (models / ".incoming/begun").write_text("a run writes to it")
    old(host / "bundle/images/images.tar")
    (host / "bundle" / STATE_NAME).write_text(
        json.dumps({name: {"sha256": "s"} for name in ("images/images.tar", "../../out", "debs/a.deb")})
    )
    old(host / "cache/vllm-2-7.0-0/kernel")
    old(host / "cache/vllm-0-7.0-0/kernel")
    for session in ("session_1", "session_2"):
        old(host / "tmp/ray" / session / "log")
        os.utime(host / "tmp/ray" / session, (OLD, OLD))
    (host / "tmp/ray/session_latest").symlink_to("/tmp/ray/session_2")
    old(system / "root/.ansible_async/1", f"{{'path': '{host}/bundle'}}")
    old(system / "root/.ansible_async/2", "{'path': '/srv'}")
    old(system / "var/log/journal/m/system@1.journal")
    old(system / "var/log/journal/m/system.journal")
    old(system / "var/lib/systemd/coredump/core.vllm")
    old(system / "var/cache/apt/archives/a.deb")
    (host / "before.json").write_text(json.dumps({"format": 1, "images": ["shop/web:7"]}))
    record(
        host,
        "images",
        subjects={"images": ["site/vllm:2"]},
        evidence={"images": {"site/vllm:2": NEW}, "paths": {str(host / "bundle/images/images.tar"): None}},
        earlier={OLDER: "site/vllm:1"},
    )
    record(host, "models", subjects={"trees": [str(models / "new")]})
    section = {"cache": str(host / "cache/vllm-2-7.0-0")}
    told = {"since": "2026-01-01T00:00:00Z", "vllm_version": "1", "section": {}, "plan": {}}
    model = {"model": "org/m", "revision": "1", "kept": ""}
    states = [
        {
            **told,
            "version": "2",
            "image": {"id": NEW, "reference": "site/vllm:2", "pinned": True},
            "section": section,
            "models": [{**model, "folder": str(models / "new")}],
        },
        {
            **told,
            "version": "1",
            "image": {"id": PINNED, "reference": "site/vllm:0", "pinned": True},
            "models": [{**model, "folder": str(models / "before"), "kept": str(models / ".kept/before-1")}],
        },
    ]
    write_served(
        str(host / "served.json"),
        {"states": states, "returned": None, "begun": {"version": "3", "image": "site/vllm:3"}},
    )
    # A folder's own time is that of what came into it last.
    for folder in sorted((host / "models/.kept").iterdir()):
        os.utime(folder, (OLD, OLD))
    return cleanup.Where(str(host), str(models), str(tmp_path / "docker"), str(system))


def grades(where: cleanup.Where, grade: str) -> set[str]:
    """The last parts of the names of all items with this verdict."""
    found = cleanup.survey(where, rules.CLASSES, 1)["items"]
    assert {each["class"] for each in found} == set(rules.CLASSES)
    return {os.path.basename(each["name"]) for each in found if each["verdict"] == grade}


def test_what_nothing_needs_may_go_and_only_that(where: cleanup.Where) -> None:
    safe = {OLDER, BARE, "gone", "stale-2", "half", "images.tar", "vllm-0-7.0-0", "session_1", "1", "system@1.journal"}
    assert grades(where, rules.SAFE) == safe | {"core.vllm", "a.deb"}
    kept = {NEW, PINNED, STRANGE, "new", "before", "before-1", "begun", "vllm-2-7.0-0", "session_2", "system.journal"}
    assert grades(where, rules.KEPT) == kept
    assert grades(where, rules.UNKNOWN) == {"mixed"}
    assert grades(where, rules.FOREIGN) == {"own", "2"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((name, text) for name in ("served.json", "records/models.json") for text in ("", "{", '{"format": 99}')),
        ("served.json", '{"format": 1, "states": [{"version": "2"}]}'),
    ],
)
def test_notes_that_nobody_understands_free_nothing_that_they_may_name(
    where: cleanup.Where, name: str, text: str
) -> None:
    path = Path(where.host_dir, name)
    path.write_text(text)
    found = [each for each in cleanup.survey(where, rules.CLASSES, 1)["items"] if each["verdict"] == rules.SAFE]
    assert {each["class"] for each in found} <= {"runs", "journals", "cores", "packages"}


def test_without_a_picture_nobody_knows_whose_an_image_is(where: cleanup.Where) -> None:
    os.unlink(f"{where.host_dir}/before.json")
    assert OLDER in grades(where, rules.UNKNOWN)
    assert BARE in grades(where, rules.SAFE), "a label says so"


def test_an_image_that_others_named_stays(where: cleanup.Where, docker: Docker) -> None:
    docker.images[OLDER]["RepoTags"].append("shop/golden:1")
    assert OLDER in grades(where, rules.UNKNOWN)


def test_a_container_of_others_that_sees_a_model_keeps_it(where: cleanup.Where, docker: Docker) -> None:
    docker.containers[1]["Mounts"] = [{"Source": where.models_dir}]
    assert "gone" in grades(where, rules.KEPT)
    docker.containers[1]["Mounts"] = [{"Source": "/"}]
    assert "gone" in grades(where, rules.SAFE), "who sees the whole host needs nothing of it"


def test_what_a_program_has_open_stays(where: cleanup.Where) -> None:
    with open(f"{where.models_dir}/gone/b/c"):
        assert "gone" in grades(where, rules.KEPT)


def test_a_disk_of_several_hosts_keeps_its_models(where: cleanup.Where, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = cleanup.file_systems(where)[0]["mount"]
    lines = f"24 29 0:22 / {mount} rw - nfs4 server:/models rw\n25 29 0:23 / /a rw - overlay overlay rw\n"
    monkeypatch.setattr(cleanup, "read", lambda path, *more: lines if path == "/proc/self/mountinfo" else "")
    assert cleanup.network_mounts(lines) == {mount}
    found = {each["name"]: each["verdict"] for each in cleanup.survey(where, ["models"], 1)["items"]}
    assert found[f"{where.models_dir}/gone"] in (rules.UNKNOWN, rules.SAFE if mount != "/" else rules.UNKNOWN)


def test_a_link_of_roots_to_a_larger_disk_counts_as_the_folder(where: cleanup.Where, tmp_path: Path) -> None:
    before = grades(where, rules.SAFE)
    os.rename(where.models_dir, tmp_path / "large")
    os.symlink(tmp_path / "large", where.models_dir)
    assert grades(where, rules.SAFE) == before
    # The inventory has its own path by now, and the notes the one of before.
    moved = where._replace(models_dir=str(tmp_path / "large"))
    kept = {os.path.basename(each["name"]): each["verdict"] for each in cleanup.survey(moved, ["models"], 1)["items"]}
    assert (kept["new"], kept["before"], kept["before-1"], kept["gone"]) == ("kept", "kept", "kept", "safe")


def test_a_deployment_that_never_served_keeps_its_caches(where: cleanup.Where) -> None:
    old(Path(where.host_dir, "deployments/chat/cache/vllm-3/kernel"))
    assert "vllm-3" in grades(where, rules.UNKNOWN)


def test_sizes_count_what_the_disk_gets_back(where: cleanup.Where) -> None:
    kept = Path(where.models_dir, ".kept/before-1/a")
    kept.unlink()
    os.link(f"{where.models_dir}/before/a", kept)
    found = cleanup.survey(where, ["images", "models"], 1)
    sizes = {os.path.basename(each["name"]): each["bytes"] for each in found["items"]}
    assert sizes["before"] == sizes["before-1"] == sizes["new"] // 2 > 0
    assert sizes[OLDER] == 60, "without what others have of it"
    assert {"name": "docker layers", "bytes": 400, "mount": ""} in found["other"]


def removed(where: cleanup.Where, *names: str) -> list[str]:
    """What stayed, with its reason, of what was to go."""
    wanted = [
        each for each in cleanup.survey(where, rules.CLASSES, 1)["items"] if os.path.basename(each["name"]) in names
    ]
    assert len(wanted) == len(names)
    said = []
    for each in wanted:
        now, why = cleanup.why_not(each, cleanup.Look(where, 1).items(each["class"]))
        said += [why or cleanup.remove(now, where)]
    return [each for each in said if each]


def test_things_are_removed_one_by_one_and_the_next_run_finds_none(where: cleanup.Where, docker: Docker) -> None:
    assert removed(where, OLDER, BARE, "gone", "stale-2", "half", "images.tar", "session_1", "1") == []
    assert set(docker.images) == {NEW, PINNED, STRANGE}
    assert sorted(os.listdir(where.models_dir))[3:] == ["before", "link", "mixed", "new", "own"]
    assert sorted(read_state(where.models_dir)) == ["before/a", "mixed/a", "new/a"]
    assert grades_of_ours(where) == {"vllm-0-7.0-0"}


def grades_of_ours(where: cleanup.Where) -> set[str]:
    found = cleanup.survey(where, rules.OURS, 1)["items"]
    return {os.path.basename(each["name"]) for each in found if each["verdict"] == rules.SAFE}


def test_what_became_another_thing_or_was_pinned_meanwhile_stays(where: cleanup.Where, docker: Docker) -> None:
    wanted = {os.path.basename(each["name"]): each for each in cleanup.survey(where, rules.CLASSES, 1)["items"]}
    old(Path(where.models_dir, "gone/new"))
    docker.containers.append({"Id": "3", "Names": ["/llm-vllm-2"], "ImageID": OLDER, "Labels": {}})
    os.unlink(f"{where.models_dir}/.incoming/half")
    look = cleanup.Look(where, 1)
    said = {
        name: cleanup.why_not(wanted[name], look.items(wanted[name]["class"]))[1] for name in ("gone", OLDER, "half")
    }
    assert said == {"gone": "changed", OLDER: "used", "half": "gone"}


def test_nothing_goes_through_a_link_of_others(where: cleanup.Where, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    old(target / "half")
    incoming = Path(where.models_dir, ".incoming")
    item = {"class": "transfers", "name": str(incoming / "half")}
    for name in os.listdir(incoming):
        os.unlink(incoming / name)
    incoming.rmdir()
    incoming.symlink_to(target)
    assert not [each for each in cleanup.survey(where, ["transfers"], 1)["items"] if "half" in each["name"]]
    if os.geteuid() == 0:
        os.chown(incoming, 65534, 65534, follow_symlinks=False)
        assert cleanup.remove(item, where) != ""
    assert (target / "half").exists()


def test_what_a_full_disk_has_hurt(where: cleanup.Where) -> None:
    record(
        Path(where.host_dir),
        "vllm",
        evidence={
            "paths": {
                f"{where.host_dir}/scripts/a": {"size": 9},
                f"{where.models_dir}/new/a": {"size": 9000},
                "/x": None,
            }
        },
    )
    Path(where.host_dir, "records/network.json").write_text("")
    Path(where.host_dir, "network.json").write_text('{"half":')
    said = {(each["kind"], os.path.basename(each["name"]), each["role"]) for each in cleanup.damage(where, Machine())}  # type: ignore[arg-type]
    assert said == {
        ("unit", "llm-probe.service", ""),
        ("missing", "a", "vllm"),
        ("short", "a", "vllm"),
        ("record", "network.json", "network"),
        ("note", "network.json", ""),
        ("begun", "site%vllm:3".replace("%", "/").rpartition("/")[2], ""),
    }


ids = st.sampled_from([NEW, OLDER, PINNED, STRANGE, BARE])
names = st.sampled_from(["site/vllm:1", "site/vllm:2", "shop/web:7", f"llm-kept:{'b' * 12}"])
paths = st.sampled_from(["/llm/models/a", "/llm/models/a/b", "/llm/models/b", "/llm/cache/a", "/llm/models", "/srv"])
facts = st.fixed_dictionaries(
    {
        "unreadable": st.lists(paths, max_size=1),
        "references": st.lists(names, max_size=2),
        "recorded_images": st.lists(ids, max_size=2),
        "pinned_images": st.lists(ids, max_size=2),
        "brought": st.dictionaries(ids, st.lists(names, max_size=2), max_size=3),
        "before": st.none() | st.lists(names, max_size=2),
        "folders": st.lists(paths, max_size=2),
        "pinned_models": st.lists(paths, max_size=2),
        "return_folders": st.lists(paths, max_size=1),
        "caches": st.lists(paths, max_size=2),
        "archives": st.lists(paths, max_size=1),
        "mounts": st.lists(
            st.fixed_dictionaries({"source": paths, "container": st.just("c"), "ours": st.booleans()}), max_size=2
        ),
        "keep_days": st.integers(0, 30),
    }
)
items = st.fixed_dictionaries(
    {
        "class": st.sampled_from(rules.CLASSES),
        "name": paths | ids,
        "real": paths,
        "tags": st.lists(names, max_size=2, unique=True),
        "digests": st.lists(names, max_size=1),
        "containers": st.lists(st.just("web"), max_size=1),
        "labelled": st.booleans(),
        "age": st.floats(0, 1e7),
        "noted": st.integers(0, 2),
        "unnoted": st.integers(0, 2),
        **{
            name: st.booleans()
            for name in ("open", "network_disk", "kept_tree", "archive", "ours", "current", "served")
        },
    }
)


@given(items, facts)
def test_nothing_that_is_pinned_serves_or_belongs_to_others_may_ever_go(
    item: dict[str, Any], known: dict[str, Any]
) -> None:
    if rules.judged(item, known).grade != rules.SAFE:
        return
    name = item["name"]
    if item["class"] in ("images", "layers"):
        assert not item["containers"]
        assert name not in known["pinned_images"] + known["recorded_images"]
        assert not set(known["references"]).intersection(item["tags"] + item["digests"])
        assert not set(known["before"] or ()).intersection(item["tags"] + item["digests"])
        assert item["labelled"] or name in known["brought"] or any(tag.startswith("llm-kept:") for tag in item["tags"])
        ours = set(known["brought"].get(name, ()))
        assert all(tag in ours or tag.startswith("llm-kept:") for tag in item["tags"])
        return
    assert not item.get("open") or item["class"] == "journals"
    if item["class"] == "models":
        for folder in known["pinned_models"] + known["folders"] + known["return_folders"]:
            for path in (name, item["real"]):
                assert not rules.is_within(folder, path)
                assert not rules.is_within(path, folder)
        assert item["kept_tree"] or (item["noted"] and not item["unnoted"])
        assert not item["network_disk"]
    if item["class"] == "caches":
        assert not {name, item["real"]}.intersection(known["caches"])
        assert item["served"]
    if item["class"] in ("models", "transfers", "caches", "runs"):
        for path in (name, item["real"]):
            assert all(not rules.is_within(each["source"], path) for each in known["mounts"])
            assert all(each["ours"] or not rules.is_within(path, each["source"]) for each in known["mounts"])
    if item["class"] in ("runs", "journals"):
        assert item["ours"]
        assert not item["current"]


@given(
    st.dictionaries(
        st.text(max_size=9), st.none() | st.text(max_size=5) | st.lists(st.integers(), max_size=2), max_size=6
    )
)
def test_an_item_that_nobody_understands_stays(odd: dict[str, Any]) -> None:
    for kind in (*rules.CLASSES, "", None):
        assert rules.judged({**odd, "class": kind}, {}).grade != rules.SAFE or kind in ("cores", "packages")
