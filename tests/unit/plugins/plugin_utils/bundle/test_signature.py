"""Manifests signed and verified by the real ssh-keygen."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.baremetal.llm.plugins.action.bundle_verify import bundles_in_use
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle as bundle
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle_check as bundle_check
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import BundleError
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import manifest, signature, transfer
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
    assert signature.require_trusted(str(home), "", public(key))[1:] == (digest(home), "maker@home")
    assert signature.require_trusted(str(home))[1:] == (digest(home), "")
    assert bundle_check.extra_files(str(home), [{"path": "a.run"}]) == []


def test_a_file_of_allowed_signers_may_name_several(home: Path, key: Path, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    allowed = tmp_path / "signers"
    allowed.write_text(f'else@site {public(other)}\nops@site namespaces="{signature.NAMESPACE}" {public(key)}\n')
    signature.sign(str(home), str(key))
    assert signature.require_trusted(str(home), "", str(allowed)).signer == "ops@site"
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
        assert signature.require_trusted(str(home), "", public(key)).signer == "maker@home"
    finally:
        agent.terminate()
        agent.wait()


def test_another_manifest_than_the_pinned_one(home: Path) -> None:
    assert signature.require_trusted(str(home), digest(home).upper()).sha256 == digest(home)
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
    assert signature.require_trusted(str(site), "", public(key))[1:] == (digest(home), "maker@home")
    os.unlink(home / "manifest.yml.sig")
    transfer.send(out, print, check=False)
    transfer.receive(into, print, print, check=False)
    assert not (site / "manifest.yml.sig").exists()


# -- what was compared is what is used ----------------------------------------------------------------------------------
def test_a_manifest_that_is_replaced_after_it_was_verified_is_not_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever reads it in this run, in whichever process, and by whichever of its paths."""
    monkeypatch.setattr("ansible.constants.DEFAULT_LOCAL_TMP", str(home.parent / "run"))
    good = manifest.read_manifest(str(home))
    manifest.hold(str(home), signature.require_trusted(str(home)).sha256)
    assert manifest.read_manifest(f"{home}/../home/") == good
    text = (home / "manifest.yml").read_text()
    (home / "manifest.yml").write_text(text.replace("driver", "python"))
    common: dict[str, Any] = {"checks": str(home.parent / "c"), "language": "en"}
    for read in (
        lambda: manifest.read_manifest(str(home)),
        lambda: manifest.load_records(str(home)),
        lambda: manifest.known_records(f"{home}/."),
        lambda: transfer.send(
            {**common, "bundle": str(home), "export": str(home.parent / "d"), "split_mib": 0}, print, check=False
        ),
    ):
        with pytest.raises((BundleError, AnsibleActionFail, Refused)) as refusal:
            read()
        assert "manifest_changed" in str(refusal.value) or "not the one that was verified" in str(refusal.value)
    (home / "manifest.yml").write_text(text)
    assert manifest.read_manifest(str(home)) == good
    # Another run, in a folder of its own, knows nothing of it.
    monkeypatch.setattr("ansible.constants.DEFAULT_LOCAL_TMP", str(home.parent / "other"))
    (home / "manifest.yml").write_text(text.replace("driver", "python"))
    assert manifest.read_manifest(str(home)) != good


def test_nobody_reads_a_manifest_by_another_way() -> None:
    """Each program of the controller that opens one, besides those that make it, and the check of the inventory, which brings nothing to a host."""
    folder = Path(__file__).resolve().parents[5] / "plugins"
    opening = re.compile(r"open\(.*MANIFEST_NAME|MANIFEST_NAME.*\.(?:read|open)")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if opening.search(path.read_text())}
    assert found == {
        "plugin_utils/bundle/manifest.py",
        "plugin_utils/bundle/signature.py",
        "plugin_utils/inventory/bundle.py",
    }


def test_a_manifest_is_compared_and_brought_in_from_one_reading(
    home: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody replaces manifest and file right after the signature was found good."""
    signature.sign(str(home), str(key))
    good = (home / "manifest.yml").read_bytes()
    trusted = signature.require_trusted

    def replaced(*arguments: str) -> signature.Trusted:
        found = trusted(*arguments)
        (home / "a.run").write_bytes(b"stolen")
        records = [bundle.make_record(str(home), "a.run", "driver", {})]
        (home / "manifest.yml").write_text(yaml.safe_dump({"schema": 1, "files": records}))
        return found

    monkeypatch.setattr(transfer, "require_trusted", replaced)
    into: dict[str, Any] = {"checks": str(tmp_path / "c"), "language": "en", "bundle": str(tmp_path / "site")}
    with pytest.raises(Refused, match=r"a\.run"):
        transfer.receive({**into, "sources": [str(home)], "allowed_signers": public(key)}, print, print, check=False)
    assert not (tmp_path / "site/manifest.yml").exists()
    (home / "a.run").write_bytes(b"driver")
    monkeypatch.setattr(transfer, "require_trusted", lambda *arguments: signature.Trusted(good, "", ""))
    transfer.receive({**into, "sources": [str(home)], "allowed_signers": public(key)}, print, print, check=False)
    assert (tmp_path / "site/manifest.yml").read_bytes() == good


@pytest.mark.parametrize(
    "known", [{"manifest_sha256": "0" * 64}, {"allowed_signers": "ssh-ed25519 AAAA"}, {"allowed_signers": "/nosuch"}]
)
def test_with_signers_or_a_pin_nothing_unsigned_comes_in(tmp_path: Path, known: dict[str, str]) -> None:
    """What a script has fetched has a plan and no manifest; it would be signed with the site's own key afterwards."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/plan.json").write_text('{"plan": {}}')
    into: dict[str, Any] = {"checks": str(tmp_path / "c"), "language": "en", "bundle": str(tmp_path / "site")}
    for language in ("en", "zh"):
        with pytest.raises(Refused) as refusal:
            transfer.receive(
                {**into, **known, "language": language, "sources": [str(tmp_path / "disk")]}, print, print, check=False
            )
        assert refusal.value.code == "transfer_unsigned"
    assert not (tmp_path / "site").exists()


def test_every_bundle_that_a_host_of_the_run_names_is_verified() -> None:
    """A worker's, a gateway's and one that only the pin tells apart, each once."""
    folders = {"h1": "/a", "h2": "/b", "h3": "/a", "g": "/g", "m": "/a", "w": "/w", "other": "/x", "none": ""}
    hostvars: dict[str, Any] = {host: {"llm_bundle_dir": folder} for host, folder in folders.items()}
    hostvars["m"]["llm_bundle_manifest_sha256"] = "f" * 64
    hostvars["h3"]["llm_bundle_allowed_signers"] = "/signers"
    deployments = {"qwen": {"head": "h1", "hosts": ["h1", "h2", "h3", "none"]}}
    hostvars["localhost"] = {"llm_inventory": {"deployments": deployments}}
    groups = {"llm_gateway": ["g"], "llm_monitoring": ["m"], "llm_web_ui": ["w"], "all": list(folders)}
    assert set(bundles_in_use(hostvars, groups)) == {
        ("/a", "", ""),
        ("/b", "", ""),
        ("/a", "", "/signers"),
        ("/g", "", ""),
        ("/a", "f" * 64, ""),
        ("/w", "", ""),
    }
