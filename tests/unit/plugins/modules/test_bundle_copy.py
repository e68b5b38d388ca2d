"""The host's part of bundle_copy, run as Ansible runs it."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING, PACKED, incoming_name

from tests.support.modules import answer_of


def file(path: str, content: bytes, size: int | None = None) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"path": path, "size": len(content) if size is None else size, "sha256": digest}


def ask(
    dest: Path, phase: str, *files: dict[str, Any], check_mode: bool = False, packed: bool = False
) -> dict[str, Any]:
    arguments = {"bundle": "/nowhere", "kind": "model", "dest": str(dest), "files": list(files), "phase": phase}
    return answer_of("bundle_copy", {**arguments, "packed": packed}, check_mode)


def pack(dest: Path, members: list[tuple[str, bytes, bytes]]) -> Path:
    """An archive as it arrives: names, types and contents of its members."""
    path = dest / INCOMING / PACKED
    with tarfile.open(path, "w") as archive:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(content), "/etc/hostname"
            archive.addfile(member, io.BytesIO(content))
    return path


def test_what_others_have_left_stays_until_room_is_short(tmp_path: Path) -> None:
    incoming = tmp_path / ".incoming"
    incoming.mkdir()
    other = incoming / incoming_name(file("of/another", b"x"))
    other.write_bytes(b"half of an archive")
    answer = ask(tmp_path, "check", file("a", b"aaa"))
    assert answer["missing"] == ["a"]
    assert other.exists()
    answer = ask(tmp_path, "check", file("a", b"aaa", size=1 << 60), check_mode=True)
    assert other.exists()
    answer = ask(tmp_path, "check", file("a", b"aaa", size=1 << 60))
    assert (answer["failed"], answer["code"]) == (True, "no_room")
    assert answer["values"]["needed"] == "1048576.0 TiB"
    assert not other.exists()


def test_a_folder_where_files_arrive_is_in_nobody_s_way(tmp_path: Path) -> None:
    """As a transfer by hand leaves one, or a disk of its own its lost+found."""
    there = file("a", b"aaa")
    for name in ("lost+found", incoming_name(there)):
        (tmp_path / ".incoming" / name / "below").mkdir(parents=True)
    assert ask(tmp_path, "check", there)["missing"] == ["a"]
    assert [path.name for path in (tmp_path / ".incoming").iterdir()] == ["lost+found"]
    (tmp_path / ".incoming" / incoming_name(there)).mkdir()
    assert [one["values"]["path"] for one in ask(tmp_path, "commit", there)["wrong"]] == ["a"]
    assert ask(tmp_path, "check", file("a", b"aaa", size=1 << 60))["code"] == "no_room"
    assert list((tmp_path / ".incoming").iterdir()) == []


def test_others_may_read_what_arrived_whatever_the_host_lets_files_be_by_default(tmp_path: Path) -> None:
    dest, there = tmp_path / "models", file("lab--tiny/config.json", b"{}")
    before = os.umask(0o077)
    try:
        arriving = ask(dest, "check", there)["arriving"]
        Path(arriving[there["path"]]).write_bytes(b"{}")
        ask(dest, "commit", there)
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (dest, dest / "lab--tiny", dest / there["path"])]
    assert modes == [0o755, 0o755, 0o644]
    assert (dest / ".incoming").stat().st_mode & 0o777 == 0o700


def test_one_wrong_file_does_not_hold_up_the_others(tmp_path: Path) -> None:
    good, bad, lost = file("a/good", b"good"), file("a/bad", b"bad"), file("a/lost", b"lost")
    arriving = ask(tmp_path, "check", good, bad, lost)["arriving"]
    Path(arriving["a/good"]).write_bytes(b"good")
    Path(arriving["a/bad"]).write_bytes(b"BAD")
    answer = ask(tmp_path, "commit", good, bad, lost)
    assert [one["values"]["path"] for one in answer["wrong"]] == ["a/bad", "a/lost"]
    assert (tmp_path / "a/good").read_bytes() == b"good"
    assert [path.name for path in tmp_path.glob("a/*")] == ["good"]
    assert list((tmp_path / ".incoming").iterdir()) == []
    assert ask(tmp_path, "check", good, bad)["missing"] == ["a/bad"]


def test_small_files_arrive_together(tmp_path: Path) -> None:
    files = [file("a/one", b"one"), file("a/two", b"two"), file("a/alone", b"alone")]
    arriving = ask(tmp_path, "check", *files)
    Path(arriving["arriving"]["a/alone"]).write_bytes(b"alone")
    packed = [
        (incoming_name(each), tarfile.REGTYPE, content)
        for each, content in zip(files[:2], (b"one", b"two"), strict=True)
    ]
    assert str(pack(tmp_path, packed)) == arriving["arriving_packed"]
    assert ask(tmp_path, "commit", *files, packed=True)["wrong"] == []
    assert {path.name: path.read_bytes() for path in tmp_path.glob("a/*")} == {
        name: name.encode() for name in ("one", "two", "alone")
    }
    assert list((tmp_path / INCOMING).iterdir()) == []


def test_an_archive_puts_nothing_where_it_does_not_belong(tmp_path: Path) -> None:
    there = file("a", b"aaa")
    ask(tmp_path, "check", there)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"kept")
    (tmp_path / INCOMING / incoming_name(there)).symlink_to(elsewhere)
    members = [("../outside", tarfile.REGTYPE, b"x"), ("other", tarfile.REGTYPE, b"x")]
    pack(
        tmp_path,
        [*members, (incoming_name(there), tarfile.SYMTYPE, b""), (incoming_name(there), tarfile.REGTYPE, b"aaa")],
    )
    assert ask(tmp_path, "commit", there, packed=True)["wrong"] == []
    assert (elsewhere.read_bytes(), (tmp_path / "a").read_bytes()) == (b"kept", b"aaa")
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["a", "elsewhere"]


@pytest.mark.parametrize("share", [0, 0.05, 0.6], ids=["empty", "without a member", "a part"])
def test_what_a_damaged_archive_lacks_is_named(tmp_path: Path, share: float) -> None:
    files = [file("one", b"1" * 2000), file("two", b"2" * 20000)]
    ask(tmp_path, "check", *files)
    contents = (b"1" * 2000, b"2" * 20000)
    path = pack(
        tmp_path,
        [(incoming_name(each), tarfile.REGTYPE, content) for each, content in zip(files, contents, strict=True)],
    )
    os.truncate(path, int(path.stat().st_size * share))
    wrong = [each["values"]["path"] for each in ask(tmp_path, "commit", *files, packed=True)["wrong"]]
    assert wrong == (["one", "two"] if share < 0.5 else ["two"])
    assert not path.exists()
