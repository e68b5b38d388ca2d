"""Manifests signed and verified by the real ssh-keygen."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle as bundle
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle_check as bundle_check
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import signature, transfer
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "maker@home", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def public(key: Path) -> str:
    return key.with_suffix(".pub").read_text().strip()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_key(tmp_path / "key")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "a.run").write_bytes(b"driver")
    records = [bundle.make_record(str(folder), "a.run", "driver", {})]
    (folder / "manifest.yml").write_text(yaml.safe_dump({"schema": 1, "files": records}))
    return folder


def digest(home: Path) -> str:
    return hashlib.sha256((home / "manifest.yml").read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_signed_manifest_is_known_by_its_key(home: Path, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path / "mine", kind)
    assert signature.sign(str(home), str(key))
    assert not signature.sign(str(home), str(key)), "it is signed already"
    assert signature.require_trusted(str(home), "", public(key)) == (digest(home), "maker@home")
    assert signature.require_trusted(str(home)) == (digest(home), "")
    assert bundle_check.extra_files(str(home), [{"path": "a.run"}]) == []


def test_a_file_of_allowed_signers_may_name_several(home: Path, key: Path, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    allowed = tmp_path / "signers"
    allowed.write_text(f'else@site {public(other)}\nops@site namespaces="{signature.NAMESPACE}" {public(key)}\n')
    signature.sign(str(home), str(key))
    assert signature.require_trusted(str(home), "", str(allowed))[1] == "ops@site"
    allowed.write_text(f'ops@site namespaces="mail" {public(key)}\n')
    with pytest.raises(Refused, match="not that of its manifest"):
        signature.require_trusted(str(home), "", str(allowed))
    with pytest.raises(Refused, match="neither a public key nor a file"):
        signature.require_trusted(str(home), "", str(tmp_path / "nosuch"))


def test_whatever_is_not_signed_by_them_is_refused(home: Path, key: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"not signed: it has no manifest\.yml\.sig"):
        signature.require_trusted(str(home), "", public(key))
    signature.sign(str(home), str(make_key(tmp_path / "other")))
    with pytest.raises(Refused, match="ssh-keygen says"):
        signature.require_trusted(str(home), "", public(key))
    assert signature.sign(str(home), str(key)), "another key signs anew"
    signature.require_trusted(str(home), "", public(key))
    with (home / "manifest.yml").open("a") as stream:
        stream.write("# one more line\n")
    with pytest.raises(Refused, match="Signature verification failed"):
        signature.require_trusted(str(home), "", public(key))
    assert signature.sign(str(home), str(key))
    signature.require_trusted(str(home), "", public(key))


def test_a_signature_for_something_else_does_not_count(home: Path, key: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", "git", str(home / "manifest.yml")], check=True
    )
    with pytest.raises(Refused):
        signature.require_trusted(str(home), "", public(key))
    assert signature.sign(str(home), str(key))


def test_a_key_that_would_ask_is_refused_at_once(home: Path, tmp_path: Path) -> None:
    locked = make_key(tmp_path / "locked", passphrase="secret")
    with pytest.raises(Refused, match="ssh-agent"):
        signature.sign(str(home), str(locked))
    with pytest.raises(Refused, match="nosuch"):
        signature.sign(str(home), str(tmp_path / "nosuch"))
    assert not (home / "manifest.yml.sig").exists()


def test_the_key_of_an_agent(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key(tmp_path / "mine")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.PIPE)
    try:
        assert agent.stdout
        agent.stdout.readline()  # it listens
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        subprocess.run(["ssh-add", "-q", str(key)], check=True)
        key.unlink()
        assert signature.sign(str(home), str(key.with_suffix(".pub")))
        assert signature.require_trusted(str(home), "", public(key))[1] == "maker@home"
    finally:
        agent.terminate()
        agent.wait()


def test_another_manifest_than_the_pinned_one(home: Path) -> None:
    assert signature.require_trusted(str(home), digest(home).upper())[0] == digest(home)
    with pytest.raises(Refused) as refusal:
        signature.require_trusted(str(home), "0" * 64)
    for part in (digest(home), "0" * 64, "llm_bundle_manifest_sha256", "No host has been touched"):
        assert part in str(refusal.value)


def test_the_signature_travels_with_the_manifest(home: Path, key: Path, tmp_path: Path) -> None:
    disk, site = tmp_path / "disk", tmp_path / "site"
    common: dict[str, Any] = {"checks": str(tmp_path / "c"), "language": "en"}
    out = {**common, "bundle": str(home), "export": str(disk), "split_mib": 0}
    into = {**common, "bundle": str(site), "sources": [str(disk)]}
    signature.sign(str(home), str(key))
    transfer.send(out, print, check=False)
    with pytest.raises(Refused, match="not the one that is pinned"):
        transfer.receive({**into, "manifest_sha256": "0" * 64}, print, print, check=False)
    assert not site.exists()
    transfer.receive({**into, "allowed_signers": public(key)}, print, print, check=False)
    assert signature.require_trusted(str(site), "", public(key)) == (digest(home), "maker@home")
    os.unlink(home / "manifest.yml.sig")
    transfer.send(out, print, check=False)
    transfer.receive(into, print, print, check=False)
    assert not (site / "manifest.yml.sig").exists()
