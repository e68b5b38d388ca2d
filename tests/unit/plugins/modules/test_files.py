"""The module that keeps the folders and files of roles, run as Ansible runs it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.modules import files

from tests.support.modules import answer_of


def run(check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
    answer = answer_of("files", arguments, check_mode)
    assert not answer.get("failed"), answer
    return answer


def mode(path: Path) -> str:
    return f"{path.stat().st_mode & 0o7777:04o}"


def wanted(tmp_path: Path) -> dict[str, Any]:
    return {
        "absent": [str(tmp_path / "old"), str(tmp_path / "old.d")],
        "folders": [{"path": str(tmp_path / "new/inner")}, {"path": str(tmp_path / "own"), "mode": "0700"}],
        "files": [
            {"path": str(tmp_path / "new/inner/unit"), "content": "[Unit]\n"},
            {"path": str(tmp_path / "own/key"), "content": "ключ\n", "mode": "0600"},
        ],
    }


def test_all_of_it_is_done_in_one_call_and_then_left_alone(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    (tmp_path / "old.d/inner").mkdir(parents=True)
    first = run(**wanted(tmp_path))
    assert first["changed"]
    names = ("old", "old.d", "new/inner", "own", "new/inner/unit", "own/key")
    assert first["changed_paths"] == [str(tmp_path / name) for name in names]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "own"]
    assert (tmp_path / "own/key").read_text() == "ключ\n"
    assert [mode(tmp_path / name) for name in names[2:]] == ["0755", "0700", "0644", "0600"]
    inode = (tmp_path / "own/key").stat().st_ino
    second = run(**wanted(tmp_path))
    assert (second["changed"], second["changed_paths"], second["diff"]) == (False, [], [])
    assert (tmp_path / "own/key").stat().st_ino == inode


def test_check_mode_says_the_same_and_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    foreseen = run(check_mode=True, **wanted(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert foreseen["changed_paths"] == run(**wanted(tmp_path))["changed_paths"]


def test_what_changed_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "unit"
    path.write_text("[Unit]\nBefore=a\n")
    file = {"path": str(path), "content": "[Unit]\nBefore=b\n"}
    for check_mode in (True, False):
        assert run(check_mode, files=[file])["diff"] == [
            {
                "before": "[Unit]\nBefore=a\n",
                "after": "[Unit]\nBefore=b\n",
                "before_header": str(path),
                "after_header": str(path),
            }
        ]
    shown = run(files=[{**file, "mode": "0600"}])["diff"]
    assert [(diff["before"]["mode"], diff["after"]["mode"]) for diff in shown] == [("0644", "0600")]


def test_a_link_to_a_folder_is_one_and_a_link_that_must_go_goes_alone(tmp_path: Path) -> None:
    (tmp_path / "disk/kept").mkdir(parents=True)
    (tmp_path / "link").symlink_to("disk")
    assert not run(folders=[{"path": str(tmp_path / "link")}])["changed"]
    assert run(absent=[str(tmp_path / "link")])["changed"]
    assert (tmp_path / "disk/kept").is_dir()


@pytest.mark.parametrize("check_mode", [True, False])
def test_permissions_are_those_of_the_folder_behind_a_link(tmp_path: Path, check_mode: bool) -> None:
    (tmp_path / "disk").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to("disk")
    folder = {"path": str(tmp_path / "link"), "mode": "0700"}
    assert run(check_mode, folders=[folder])["changed_paths"] == [str(tmp_path / "link")]
    assert mode(tmp_path / "disk") == ("0755" if check_mode else "0700")
    assert run(check_mode, folders=[folder])["changed"] == check_mode


def test_folders_above_are_for_everybody_whatever_the_login_says(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        run(folders=[{"path": str(tmp_path / "opt/llm/secrets"), "mode": "0750"}])
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("opt", "opt/llm", "opt/llm/secrets")] == ["0755", "0755", "0750"]


def test_a_folder_that_another_run_makes_meanwhile_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts write their figures on the controller at the same time, into a folder that the first of them makes."""
    really, looks = os.path.isdir, iter([False])
    monkeypatch.setattr(os.path, "isdir", lambda path: next(looks, None) is not False and really(path))
    module = SimpleNamespace(
        check_mode=False,
        load_file_common_arguments=lambda wanted, path: {**wanted, "path": path},
        set_fs_attributes_if_different=lambda *_arguments: False,
    )
    (tmp_path / "figures").mkdir()
    files.Files(module).folder({"path": str(tmp_path / "figures"), "mode": "0755"})  # type: ignore[arg-type]
    assert next(looks, None) is None


def test_check_mode_knows_that_an_earlier_task_would_have_made_the_group(tmp_path: Path) -> None:
    folder = {"path": str(tmp_path), "mode": "0700", "group": "nobody-has-made-it"}
    tmp_path.chmod(0o700)
    assert run(check_mode=True, folders=[folder])["changed_paths"] == [str(tmp_path)]
    assert run(check_mode=True, folders=[{**folder, "group": "0", "owner": "root"}])["changed_paths"] == []


def test_a_file_that_cannot_be_given_away_leaves_nothing(tmp_path: Path) -> None:
    file = {"path": str(tmp_path / "key"), "content": "secret", "owner": "nobody-of-this-name"}
    assert answer_of("files", {"files": [file]})["failed"]
    assert list(tmp_path.iterdir()) == []


def test_the_log_of_the_host_gets_paths_and_no_content() -> None:
    logged: list[str] = []
    params = {
        "absent": ["/old"],
        "folders": [{"path": "/opt"}],
        "files": [{"path": "/opt/key", "content": "secret"}],
        "links": {"/link": "/opt"},
    }
    files._Module._log_invocation(SimpleNamespace(params=params, log=logged.append))  # type: ignore[arg-type]
    assert logged == ["Invoked with /old, /opt, /opt/key, /link"]


def test_a_file_takes_the_place_of_a_link_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "unit").symlink_to("other")
    assert run(files=[{"path": str(tmp_path / "unit"), "content": "ours"}])["changed"]
    assert ((tmp_path / "unit").read_text(), (tmp_path / "other").read_text()) == ("ours", "theirs")


def test_a_link_leads_where_it_is_told_and_takes_no_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    for to in ("29.1", "28.5"):
        path = str(tmp_path / "engine/current")
        assert run(True, links={path: to})["changed_paths"] == run(links={path: to})["changed_paths"] == [path]
        assert os.readlink(path) == to
        assert not run(links={path: to})["changed"]
    (tmp_path / "docker").write_text("theirs")
    answer = answer_of("files", {"links": {str(tmp_path / "docker"): "engine/current/docker"}})
    assert answer["failed"]
    assert "File exists" in answer["msg"]
    assert (tmp_path / "docker").read_text() == "theirs"


@pytest.mark.parametrize(
    ("asked", "name", "why"),
    [
        ("files", "folder", "Is a directory: 'folder'"),
        ("files", "missing/inner", "No such file or directory: '{}/missing'"),
        ("folders", "file", "File exists: '{}/file'"),
        ("folders", "file/inner", "Not a directory: '{}/file/inner'"),
    ],
)
def test_what_cannot_be_made_fails_with_its_path_and_leaves_nothing_behind(
    tmp_path: Path, asked: str, name: str, why: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    wanted: dict[str, str] = {"path": str(tmp_path / name)}
    answer = answer_of("files", {asked: [wanted | ({"content": ""} if asked == "files" else {})]})
    assert answer["failed"]
    assert answer["msg"].startswith(f"{tmp_path / name}: [Errno ")
    assert why.format(tmp_path) in answer["msg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_belongs_to_whom_is_said_and_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "token"
    run(files=[{"path": str(path), "content": "one", "owner": "nobody", "mode": "0400"}])
    assert (path.stat().st_uid, mode(path)) == (65534, "0400")
    assert not run(files=[{"path": str(path), "content": "one", "owner": "nobody", "mode": "0400"}])["changed"]
    with path.open() as reader:
        run(files=[{"path": str(path), "content": "two", "owner": "nobody", "mode": "0400"}])
        assert reader.read() == "one"
    assert (path.read_text(), path.stat().st_uid, [file.name for file in tmp_path.iterdir()]) == (
        "two",
        65534,
        ["token"],
    )


@pytest.mark.parametrize("sources", [{}, {"content": "a", "copy": "b"}, {"copy": "a", "template": "b"}])
def test_a_file_has_one_source(tmp_path: Path, sources: dict[str, str]) -> None:
    answer = answer_of("files", {"files": [{"path": str(tmp_path / "file"), **sources}]})
    assert answer["failed"]
    assert "content, copy, template" in answer["msg"].replace("|", ", ")
