"""The host's part of bundle_copy, run as Ansible runs it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import incoming_name

from tests.support.modules import answer_of


def file(path: str, content: bytes, size: int | None = None) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"path": path, "size": len(content) if size is None else size, "sha256": digest}


def ask(dest: Path, phase: str, *files: dict[str, Any], check_mode: bool = False) -> dict[str, Any]:
    arguments = {"bundle": "/nowhere", "kind": "model", "dest": str(dest), "files": list(files), "phase": phase}
    return answer_of("bundle_copy", arguments, check_mode)


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
