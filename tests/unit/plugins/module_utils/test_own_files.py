"""Root in folders where others write: no link of theirs is followed, nothing of theirs is shown, taken over or removed."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _own_files as own
from ansible_collections.baremetal.llm.plugins.modules import files

from tests.support.modules import answer_of

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to others")
ALICE, SERVICE = 4711, 811


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def alices(tmp_path: Path) -> Path:
    """A folder of a person, in one of root."""
    tmp_path.chmod(0o755)
    folder = tmp_path / "alice"
    folder.mkdir(mode=0o750)
    os.chown(folder, ALICE, ALICE)
    return folder


@root
def test_a_link_of_others_on_the_way_is_not_followed(alices: Path, tmp_path: Path) -> None:
    target = tmp_path / "of-root"
    target.mkdir()
    (alices / "llm").symlink_to(target)
    os.lchown(alices / "llm", ALICE, ALICE)
    for asked in (
        {"files": [{"path": str(alices / "llm/file"), "content": "x"}]},
        {"folders": [{"path": str(alices / "llm/inner")}]},
        {"links": {str(alices / "llm/link"): "/x"}},
    ):
        answer = answer_of("files", asked)
        assert answer["code"] == "link_of_others"
        assert answer["values"] == {"path": str(alices / "llm"), "user": str(ALICE)}
    with pytest.raises(own.LinkOfOthers):
        own.write(str(alices / "llm/file"), b"x")
    assert list(target.iterdir()) == []


@root
def test_a_link_of_root_in_a_folder_of_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "llm").symlink_to("disk")
    own.write(str(tmp_path / "llm/file"), b"x")
    assert (tmp_path / "disk/file").read_bytes() == b"x"
    # Where everybody may put a link it counts for nothing, whoever it belongs to.
    tmp_path.chmod(0o777)
    with pytest.raises(own.LinkOfOthers):
        own.write(str(tmp_path / "llm/file"), b"y")


@root
def test_what_a_link_in_the_place_of_a_file_leads_to_is_neither_shown_nor_written(alices: Path, tmp_path: Path) -> None:
    secret = tmp_path / "shadow"
    secret.write_text("s3cret")
    secret.chmod(0o600)
    (alices / "file").symlink_to(secret)
    answer = answer_of("files", {"files": [{"path": str(alices / "file"), "content": "ours", "mode": "0644"}]})
    assert answer["changed"]
    assert "s3cret" not in str(answer)
    assert (secret.read_text(), mode(secret)) == ("s3cret", 0o600)
    assert not (alices / "file").is_symlink()


@root
@pytest.mark.parametrize("name", ["file.new", "file.incoming", "file.PID.incoming", ".file.incoming"])
def test_a_link_that_waits_under_a_name_beside_is_not_written_through(alices: Path, tmp_path: Path, name: str) -> None:
    (alices / name.replace("PID", str(os.getpid()))).symlink_to(tmp_path / "passwd")
    own.write(str(alices / "file"), b"x")
    answer_of("files", {"files": [{"path": str(alices / "file"), "content": "y"}]})
    assert not (tmp_path / "passwd").exists()


@root
def test_a_folder_of_a_person_is_not_taken_over(alices: Path) -> None:
    answer = answer_of("files", {"folders": [{"path": str(alices), "mode": "0755", "owner": "root"}]})
    assert answer["code"] == "folder_of_others"
    assert (alices.stat().st_uid, mode(alices)) == (ALICE, 0o750)
    # As it is it may be used, by name it may be given, and that of a service is the collection's business.
    assert not answer_of("files", {"folders": [{"path": str(alices), "mode": "0750"}]}).get("failed")
    assert answer_of("files", {"folders": [{"path": str(alices), "mode": "0700", "owner": str(ALICE)}]})["changed"]
    os.chown(alices, SERVICE, SERVICE)
    assert answer_of("files", {"folders": [{"path": str(alices), "mode": "0755"}]})["changed"]


@pytest.mark.parametrize("path", ["/", "/etc", "/usr/", "//", "/var/lib"])
def test_folders_of_the_system_are_neither_removed_nor_given_other_permissions(path: str) -> None:
    before = os.stat(path)
    assert answer_of("files", {"absent": [path]}, True)["code"] == "folder_of_system"
    answer = answer_of("files", {"folders": [{"path": path, "mode": "0712"}]}, True)
    assert answer["code"] == "folder_of_system"
    assert os.stat(path).st_mode == before.st_mode


def test_what_is_removed_ends_at_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("x")
    (tmp_path / "old").mkdir()
    (tmp_path / "old/link").symlink_to("../kept")
    answer_of("files", {"absent": [str(tmp_path / "old")]})
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept/file").exists()


@root
@pytest.mark.slow
def test_who_swaps_folders_and_links_all_the_time_wins_nothing(alices: Path, tmp_path: Path) -> None:
    """The race that a check before the use would lose."""
    target = tmp_path / "of-root"
    target.mkdir()
    place, done = alices / "llm", threading.Event()

    def swap() -> None:
        while not done.is_set():
            place.symlink_to(target)
            os.lchown(place, ALICE, ALICE)
            place.unlink()
            place.mkdir()
            for file in place.iterdir():
                file.unlink()
            try:
                place.rmdir()
            except OSError:
                for file in place.iterdir():
                    file.unlink()
                place.rmdir()

    thread = threading.Thread(target=swap)
    thread.start()
    tried = 0
    try:
        for _dummy in range(3000):
            try:
                own.write(str(place / "file"), b"x")
                tried += 1
            except OSError:
                pass
    finally:
        done.set()
        thread.join()
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("/etc/systemd/system/llm-x.service", "[Service]\nType=oneshot\n", "bad unit file setting"),
        ("/etc/systemd/system/llm-x.timer", "[Timer]\nOnCalendar=nonsense\n", "bad unit file setting"),
        ("/etc/systemd/system/llm-x.service", "[Service]\nExecStart=/bin/true\n", ""),
        ("/etc/systemd/system/llm-x.service", "[Service]\nExecStart=/not/installed/yet\n", ""),
        ("/etc/systemd/system/x.service.d/llm.conf", "nonsense", ""),
        ("/opt/llm/llm-x.service", "nonsense", ""),
    ],
)
def test_a_unit_that_systemd_would_not_run_is_refused(path: str, content: str, said: str) -> None:
    found = files.refusal(path, content.encode())
    assert (said in found) if said else found == "", found
    assert "/tmp" not in found


@pytest.mark.skipif(not shutil.which("nft", path="/usr/sbin:/sbin"), reason="there is no nft here to ask")
def test_a_refused_file_leaves_the_one_before(tmp_path: Path) -> None:
    table = {"path": str(tmp_path / "llm.nft"), "content": "table inet llm_test {\n}\n"}
    assert answer_of("files", {"files": [table]})["changed"]
    ports = "table inet llm_test { chain input { tcp dport { 60999-32768 } drop; }; };\nflush ruleset nonsense\n"
    answer: dict[str, Any] = answer_of("files", {"files": [{**table, "content": ports}]})
    assert answer["code"] == "file_refused"
    assert "llm.nft:" in answer["values"]["reason"]
    assert "/tmp" not in answer["values"]["reason"]
    assert (tmp_path / "llm.nft").read_text() == table["content"]
    assert [path.name for path in tmp_path.iterdir()] == ["llm.nft"]
