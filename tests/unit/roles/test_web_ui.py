"""The programs of the web page: what starts it, and what copies what it keeps."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.roles import ROLES

PROGRAM = ROLES / "web_ui/files/llm-web-ui.py"
START = ROLES / "web_ui/files/start-web-ui.sh"
SECRETS = ("gateway_web_ui_key", "web_ui_session_key", "web_ui_admin_password")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True, check=False)


def kept(folder: Path) -> list[str]:
    database = sqlite3.connect(folder / "webui.db")
    said = [str(row[0]) for row in database.execute("SELECT word FROM chat")]
    database.close()
    return said


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "uploads").mkdir(parents=True)
    (folder / "cache").mkdir()
    (folder / "cache/large").write_text("of no use")
    (folder / "uploads/letter.txt").write_text("of use")
    database = sqlite3.connect(folder / "webui.db")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE chat (word TEXT)")
    database.execute("INSERT INTO chat VALUES ('before')")
    database.commit()
    return folder


def backup(data: Path, copies: Path, keep: int = 7) -> Path:
    done = run("backup", "--data", data, "--copies", copies, "--keep", str(keep))
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def restore(data: Path, copy: Path) -> subprocess.CompletedProcess[str]:
    return run("restore", "--data", data, "--owner", str(os.getuid()), copy)


def test_a_copy_is_made_while_others_write_and_brings_back_what_was(data: Path, tmp_path: Path) -> None:
    writer = sqlite3.connect(data / "webui.db")
    writer.execute("INSERT INTO chat VALUES ('half a conversation')")
    copy = backup(data, tmp_path / "copies")
    writer.commit()
    writer.close()
    (data / "uploads/letter.txt").unlink()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert restore(data, copy).returncode == 0
    assert kept(data) == ["before"]
    assert (data / "uploads/letter.txt").read_text() == "of use"
    assert not (data / "cache").exists()
    assert kept(tmp_path / "data.before") == ["before", "half a conversation"]


def test_a_copy_holds_only_what_can_be_put_back(data: Path, tmp_path: Path) -> None:
    """A program of the page may leave links, as caches do."""
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    (data / "uploads/leads-out").symlink_to(secret)
    (data / "dangling").symlink_to("nowhere")
    os.mkfifo(data / "pipe")
    os.link(data / "uploads/letter.txt", data / "uploads/second.txt")
    done = restore(data, backup(data, tmp_path / "copies"))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in data.iterdir()) == ["uploads", "webui.db"]
    assert sorted(path.name for path in (data / "uploads").iterdir()) == ["letter.txt", "second.txt"]
    assert (data / "uploads/second.txt").read_text() == "of use"


def test_what_people_delete_meanwhile_ends_no_copy(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = programs.load("web_ui/files/llm-web-ui.py")
    (data / "uploads/old").mkdir()
    for name in ("old/photo.png", "second.txt"):
        (data / "uploads" / name).write_text("soon gone")
    taken = program.taken

    def deleting(archive: tarfile.TarFile, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.name == "uploads/letter.txt":
            (data / "uploads/second.txt").unlink()
            shutil.rmtree(data / "uploads/old")
        found: tarfile.TarInfo | None = taken(archive, member)
        return found

    monkeypatch.setattr(program, "taken", deleting)
    with tarfile.open(program.backup(str(data), str(tmp_path / "copies"), 7)) as archive:
        assert archive.getnames() == ["webui.db", "uploads", "uploads/letter.txt"]


def test_what_a_run_left_that_was_ended_is_removed(data: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    (copies / ".under-way").mkdir(parents=True)
    (copies / ".under-way/webui.db").write_text("half a database")
    copy = backup(data, copies)
    assert list(copies.iterdir()) == [copy]


def test_only_the_last_copies_are_kept(data: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    for name in ("web-ui-20200101T000000Z.tar.gz", "web-ui-20200102T000000Z.tar.gz", "of-somebody-else"):
        (copies / name).touch()
    copy = backup(data, copies, keep=2)
    assert sorted(path.name for path in copies.iterdir()) == [
        "of-somebody-else",
        "web-ui-20200102T000000Z.tar.gz",
        copy.name,
    ]


@pytest.mark.parametrize("wrong", ["no archive", "no database", "damaged", "outside"])
def test_what_is_no_copy_replaces_nothing(data: Path, tmp_path: Path, wrong: str) -> None:
    copy = tmp_path / "copy.tar.gz"
    if wrong == "no archive":
        copy.write_text("nothing")
    else:
        name = {"no database": "other", "damaged": "webui.db", "outside": "../webui.db"}[wrong]
        with tarfile.open(copy, "w:gz") as archive:
            member = tarfile.TarInfo(name)
            member.size = 8
            archive.addfile(member, io.BytesIO(b"nothing."))
    done = restore(data, copy)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert kept(data) == ["before"]
    assert not (tmp_path / "webui.db").exists()


def test_without_a_database_nothing_is_copied(tmp_path: Path) -> None:
    done = run("backup", "--data", tmp_path, "--copies", tmp_path / "copies", "--keep", "7")
    assert done.returncode == 1
    assert list((tmp_path / "copies").iterdir()) == []


def start(tmp_path: Path, *secrets: str, **more: str) -> subprocess.CompletedProcess[str]:
    """What the script runs, with a program in the place of Python that says what it got."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    for name in secrets:
        (folder / name).write_text(f"value of {name}")
    (folder / "environment").write_text("# of the inventory\n")
    program = tmp_path / "python3"
    program.write_text(
        '#!/bin/sh\necho "$*"\necho "$OPENAI_API_KEY,$WEBUI_SECRET_KEY,$WEBUI_ADMIN_PASSWORD"\necho "$OAUTH_CLIENT_SECRET,$LDAP_APP_PASSWORD"\n'
    )
    program.chmod(0o755)
    script = tmp_path / "start.sh"
    script.write_text(START.read_text().replace("/run/secrets", str(folder)))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOST": "127.0.0.1", "PORT": "8480", **more}
    return subprocess.run(["sh", script], env=environment, capture_output=True, text=True, check=False)


def test_secrets_come_from_files_and_stand_in_no_command(tmp_path: Path) -> None:
    done = start(tmp_path, *SECRETS)
    command, environment, signed_on = done.stdout.splitlines()
    assert signed_on == ","
    assert environment == ",".join(f"value of {name}" for name in SECRETS)
    assert "value" not in command
    assert "--host 127.0.0.1 --port 8480" in command


@pytest.mark.parametrize("absent", SECRETS)
def test_without_one_of_them_it_does_not_start(tmp_path: Path, absent: str) -> None:
    done = start(tmp_path, *(name for name in SECRETS if name != absent))
    assert done.returncode == 1
    assert absent in done.stderr
    assert done.stdout == ""


def test_secrets_of_a_single_sign_on_come_from_files(tmp_path: Path) -> None:
    names = ("web_ui_oidc_client_secret", "web_ui_ldap_password")
    said = {"OAUTH_CLIENT_ID": "llm", "LDAP_APP_DN": "cn=llm"}
    (tmp_path / "both").mkdir()
    done = start(tmp_path / "both", *SECRETS, *names, **said)
    assert done.stdout.splitlines()[2] == ",".join(f"value of {name}" for name in names)
    (tmp_path / "less").mkdir()
    lacking = start(tmp_path / "less", *SECRETS, names[0], **said)
    assert (lacking.returncode, names[1] in lacking.stderr) == (1, True)
