"""What a backup of the controller holds, and that it comes back as it was."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory import backup
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import problem

from tests.support.playbooks import playbook

HOSTS = "all: {children: {llm_deployments: {children: {chat: {hosts: {gpu01: {ansible_host: 127.0.0.1}}}}}}}\n"
VARIABLES = "{vllm_model: Qwen/Qwen2.5-7B-Instruct, vllm_version: 0.8.5.post1}\n"


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """An inventory with secrets beside it, and a bundle elsewhere."""
    texts = {
        "fleet/hosts.yml": HOSTS,
        "fleet/group_vars/all.yml": VARIABLES,
        "fleet/.llm/secrets/api_key": "key",
        "fleet/.llm/reports/starts.json": "{}",
        "bundle/manifest.yml": "schema: 1",
        "bundle/models/a/config.json": "{}",
        "bundle/os_packages/debian-12/small.deb": "a package, of which a bundle has hundreds",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for large in ("bundle/models/a/model.safetensors", "fleet/.llm/reports/decision.json"):
        (tmp_path / large).write_bytes(b"\0" * (backup.SMALL_BYTES + 1))
    (tmp_path / "fleet/.llm/secrets/api_key").chmod(0o600)
    return tmp_path


def folders(fleet: Path) -> dict[str, Path]:
    beside = {f"llm_{kind}_dir": fleet / f"fleet/.llm/{kind}s" for kind in ("secret", "report")}
    return {
        "llm_secrets_dir": beside["llm_secret_dir"],
        "llm_report_dir": beside["llm_report_dir"],
        "llm_bundle_dir": fleet / "bundle",
    }


@pytest.mark.parametrize("source", ["fleet", "fleet/hosts.yml"])
def test_all_that_only_the_controller_knows_comes_back(fleet: Path, source: str) -> None:
    found = backup.contents([fleet / source], folders(fleet))
    assert found.elsewhere == {"llm_bundle_dir": str(fleet / "bundle")}
    about = backup.unpack(backup.pack(found, {"who": "mei"}), fleet / "new")
    assert (about["who"], about["elsewhere"]) == ("mei", {"llm_bundle_dir": str(fleet / "bundle")})
    back = {path.relative_to(fleet / "new").as_posix(): path for path in (fleet / "new").rglob("*") if path.is_file()}
    assert sorted(back) == [
        "elsewhere/llm_bundle_dir/manifest.yml",
        "elsewhere/llm_bundle_dir/models/a/config.json",
        "inventory/.llm/reports/starts.json",
        "inventory/.llm/secrets/api_key",
        "inventory/group_vars/all.yml",
        "inventory/hosts.yml",
    ]
    assert back["inventory/hosts.yml"].read_text() == HOSTS
    assert {path.stat().st_mode & 0o077 for path in back.values()} == {0}


def test_two_inventories_stay_two(fleet: Path) -> None:
    found = backup.contents([fleet / "fleet", fleet / "fleet/hosts.yml"], {})
    assert {"inventory-1/hosts.yml", "inventory-2/hosts.yml"} < set(found.files)


def test_links_and_what_is_no_file(fleet: Path) -> None:
    os.symlink(fleet / "bundle/manifest.yml", fleet / "fleet/linked.yml")
    os.symlink("/", fleet / "fleet/everything")
    os.symlink(fleet / "nowhere", fleet / "fleet/broken")
    os.mkfifo(fleet / "fleet/pipe")
    found = backup.contents([fleet / "fleet"], {})
    assert "inventory/linked.yml" in found.files
    assert not {"inventory/broken", "inventory/pipe"} & set(found.files)
    assert not [name for name in found.files if name.startswith("inventory/everything")]


@pytest.mark.parametrize(("limit", "most"), [("FILE_BYTES", 3), ("ALL_BYTES", 30)])
def test_what_is_too_large_is_named(fleet: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(backup, limit, most)
    with pytest.raises(backup.BackupError) as refused:
        backup.contents([fleet / "fleet"], {})
    assert str(most) in problem(refused.value.code, "zh", "", "", **refused.value.values)["what"]


def archive(**files: Any) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as made:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return stream.getvalue()


ABOUT = json.dumps({"format": backup.FORMAT, "elsewhere": {}}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x1f\x8bgarbage",
        archive(other=b"1"),
        archive(**{backup.ABOUT: b"{"}),
        archive(**{backup.ABOUT: b"[]"}),
        archive(**{backup.ABOUT: b'{"format": 9}'}),
        archive(**{backup.ABOUT: ABOUT, "inventory/../../evil": b"x"}),
        archive(**{backup.ABOUT: ABOUT, "/etc/evil": b"x"}),
    ],
    ids=["empty", "garbage", "no-word", "no-json", "no-mapping", "format", "upwards", "absolute"],
)
def test_what_is_no_backup_writes_nothing(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(backup.BackupError) as refused:
        backup.unpack(data, tmp_path / "new")
    assert refused.value.code == "backup_unreadable"
    assert not (tmp_path / "new").exists()


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    for folder in (tmp_path, tmp_path / "kept"):
        with pytest.raises(backup.BackupError) as refused:
            backup.unpack(archive(**{backup.ABOUT: ABOUT, "kept": b"x"}), folder)
        assert refused.value.code == "backup_folder_taken"
    assert (tmp_path / "kept").read_text() == "mine"


@pytest.mark.slow
def test_the_playbooks_keep_and_bring_back(fleet: Path) -> None:
    (fleet / "password").write_text("one\n")
    (fleet / "other").write_text("two\n")
    file = fleet / "fleet.vault"

    def run(name: str, password: str | None, **variables: Any) -> tuple[int, str]:
        given = [part for key, value in variables.items() for part in ("-e", f"{key}={value}")]
        given += ["--vault-password-file", str(fleet / password)] if password else []
        inventory = ["-i", str(fleet / "fleet")] if name == "backup" else []
        done = playbook(f"playbooks/{name}.yml", *inventory, *given, "-e", "llm_language=en")
        return done.returncode, done.stdout + done.stderr

    assert "into which file" in run("backup", "password")[1]
    status, said = run("backup", None, llm_backup_file=file)
    assert (status, "there is no password" in said, file.exists()) == (2, True, False)
    status, said = run("backup", "password", llm_backup_file=file)
    assert (status, "has 4 files" in said) == (0, True), said
    assert file.read_bytes().startswith(b"$ANSIBLE_VAULT")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "is there already" in run("backup", "password", llm_backup_file=file)[1]
    assert "cannot be read or written" in run("backup", "password", llm_backup_file=fleet / "no/folder")[1]
    assert "does not open" in run("restore", "other", llm_backup_file=file, llm_restore_dir=fleet / "new")[1]
    status, said = run("restore", "password", llm_backup_file=file, llm_restore_dir=fleet / "new")
    assert (status, "No host has been touched" in said) == (0, True), said
    assert (fleet / "new/inventory/.llm/secrets/api_key").read_text() == "key"
    assert (
        "there is something in it" in run("restore", "password", llm_backup_file=file, llm_restore_dir=fleet / "new")[1]
    )
