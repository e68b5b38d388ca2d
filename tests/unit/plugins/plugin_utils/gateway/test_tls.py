"""Certificates: what is wrong with one, and those of the local authority, as Python's own TLS sees them."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.controller_secrets import ControllerSecrets
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.tls import (
    CERTIFICATE_DAYS,
    RENEW_DAYS,
    certificate_problems,
    days_left,
    make_authority,
    make_certificate,
    names_of,
    signed_by,
)

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
DAY = datetime.timedelta(days=1)
AUTHORITY = make_authority(NOW)
NAMES = ["llm.example", "192.0.2.7", "localhost"]
MINE = make_certificate(*AUTHORITY, NAMES, NOW)


def codes(certificate: bytes | None, key: bytes | None, now: datetime.datetime = NOW) -> list[str]:
    return [each["code"] for each in certificate_problems(certificate, key, now, "here")]


def test_a_certificate_and_its_key() -> None:
    assert codes(*MINE) == []
    assert codes(MINE[0] + AUTHORITY[0], MINE[1]) == [], "followed by its authority's"
    assert names_of(MINE[0]) == sorted(NAMES)
    assert days_left(MINE[0], NOW) == CERTIFICATE_DAYS
    assert signed_by(MINE[0], AUTHORITY[0])
    assert not signed_by(MINE[0], make_authority(NOW)[0])


def test_what_is_wrong_with_others() -> None:
    assert codes(MINE[0], None) == codes(None, MINE[1]) == ["gateway_tls_half"]
    assert codes(b"no PEM", MINE[1]) == codes(MINE[0], b"no PEM") == ["gateway_tls_unreadable"]
    assert codes(MINE[0], AUTHORITY[1]) == ["gateway_tls_no_pair"]
    assert codes(*MINE, NOW + (CERTIFICATE_DAYS + 1) * DAY) == ["gateway_tls_expired"]
    assert codes(*MINE, NOW - DAY) == ["gateway_tls_early"]


def test_no_refusal_shows_a_private_key() -> None:
    broken = MINE[1].replace(b"PRIVATE KEY", b"SOMETHING")
    said = str(certificate_problems(MINE[0], broken, NOW, "here"))
    assert MINE[1].splitlines()[1].decode() not in said


def handshake(folder: Path, name: str, trusted: bytes) -> str:
    """The TLS version of a connection by this name to a server with the certificate."""
    (folder / "both.pem").write_bytes(b"".join(MINE))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "both.pem")
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        context = ssl.create_default_context(cadata=trusted.decode())
        with context.wrap_socket(ours, server_hostname=name) as connection:
            return str(connection.version())
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("name", NAMES)
def test_clients_that_know_the_root_trust_it(name: str, tmp_path: Path) -> None:
    assert handshake(tmp_path, name, AUTHORITY[0]) == "TLSv1.3"


def test_others_and_other_names_are_not_trusted(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, "elsewhere.example", AUTHORITY[0])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, "llm.example", make_authority(NOW)[0])


# -- what the controller keeps ----------------------------------------------------------------------------------------
def store(
    folder: Path, now: datetime.datetime = NOW, *, check: bool = False, renew: bool = False, **variables: Any
) -> ControllerSecrets:
    def write(path: str, content: str) -> None:
        Path(path).write_text(content, encoding="utf-8")

    return ControllerSecrets(folder, {"gate": variables}, str, None if check else write, now, renew=renew)


def test_the_authority_is_made_once_and_certificates_before_they_end(tmp_path: Path) -> None:
    first = store(tmp_path).certificate("gate", NAMES)
    root = (tmp_path / "gateway_ca.crt").read_bytes()
    assert first["days"] == CERTIFICATE_DAYS
    assert not first["own"]
    assert store(tmp_path).certificate("gate", NAMES) == first
    other = store(tmp_path).certificate("gate", [*NAMES, "new.example"])
    assert other["sha256"] != first["sha256"], "another name"
    late = NOW + (CERTIFICATE_DAYS - RENEW_DAYS + 1) * DAY
    assert store(tmp_path, late).certificate("gate", [*NAMES, "new.example"])["days"] == CERTIFICATE_DAYS
    assert (tmp_path / "gateway_ca.crt").read_bytes() == root


@pytest.mark.parametrize("years", [-30, -1, 10, 60])
def test_a_clock_that_is_years_off_replaces_no_root(tmp_path: Path, years: int) -> None:
    store(tmp_path).certificate("gate", NAMES)
    root = (tmp_path / "gateway_ca.crt").read_bytes()
    wrong = NOW + years * 365 * DAY
    (found,) = store(tmp_path, wrong).certificate_problems("gate")
    assert (found["code"], f"{wrong:%Y-%m-%d}" in found["value"]) == ("authority_unusable", True)
    assert "llm_rotate_secrets=authority" in found["allowed"]
    assert (tmp_path / "gateway_ca.crt").read_bytes() == root
    assert store(tmp_path).certificate_problems("gate") == []


def test_an_authority_is_renewed_on_request_and_once(tmp_path: Path) -> None:
    first = store(tmp_path).certificate("gate", NAMES)
    later = NOW + 100 * DAY
    second = store(tmp_path, later, renew=True).certificate("gate", NAMES)
    assert (second["sha256"] == first["sha256"], second["days"]) == (False, CERTIFICATE_DAYS)
    again = store(tmp_path, later + DAY / 2, renew=True)
    assert again.certificate("gate", NAMES)["sha256"] == second["sha256"], "a run decides several times"
    assert store(tmp_path, later).certificate("gate", NAMES) == second


@pytest.mark.parametrize(
    ("file", "content"), [("ca.key", None), ("ca.crt", None), ("ca.crt", "no PEM"), ("ca.crt", "")]
)
def test_a_damaged_authority_is_refused(tmp_path: Path, file: str, content: str | None) -> None:
    store(tmp_path).certificate("gate", NAMES)
    path = tmp_path / f"gateway_{file}"
    path.unlink() if content is None else path.write_text(content)
    assert [entry["code"] for entry in store(tmp_path).certificate_problems("gate")] == ["authority_unusable"]
    assert store(tmp_path, renew=True, check=True).certificate_problems("gate") == []


def test_a_damaged_certificate_or_one_of_another_time_is_made_anew(tmp_path: Path) -> None:
    first = store(tmp_path).certificate("gate", NAMES)
    ahead = store(tmp_path, NOW + 400 * DAY).certificate("gate", NAMES)
    assert ahead["sha256"] != first["sha256"]
    assert store(tmp_path).certificate("gate", NAMES)["sha256"] != ahead["sha256"], "its time has not come"
    (tmp_path / "gateway_gate.crt").write_text("no PEM")
    assert store(tmp_path).certificate("gate", NAMES)["days"] == CERTIFICATE_DAYS


def test_an_own_certificate_is_judged_and_used(tmp_path: Path) -> None:
    (tmp_path / "mine.crt").write_bytes(MINE[0])
    (tmp_path / "mine.key").write_bytes(MINE[1])
    files = {
        f"gateway_tls_{part}": str(tmp_path / f"mine.{part[:3]}".replace(".cer", ".crt"))
        for part in ("certificate", "key")
    }
    mine = store(tmp_path, **files)
    assert mine.certificate_problems("gate") == []
    found = mine.certificate("gate", ["unused"])
    assert (found["own"], found["root"], found["names"]) == (True, "", sorted(NAMES))
    assert not (tmp_path / "gateway_ca.crt").exists()
    half = store(tmp_path, gateway_tls_certificate=files["gateway_tls_certificate"])
    assert [each["code"] for each in half.certificate_problems("gate")] == ["gateway_tls_half"]
    lost = store(tmp_path, **{**files, "gateway_tls_key": str(tmp_path / "nowhere")})
    assert [each["code"] for each in lost.certificate_problems("gate")] == ["gateway_tls_unreadable"]


def test_keys_are_those_of_the_inventory_or_made_once(tmp_path: Path) -> None:
    mine = store(tmp_path, gateway_keys=[{"name": "a", "key": " given "}, {"name": "b"}])
    assert mine.key("gate", "a") == "given"
    made = mine.key("gate", "b")
    assert len(made) == 40
    assert store(tmp_path).key("gate", "b") == made
    assert not (tmp_path / "gateway_key_a").exists()


def test_check_mode_keeps_nothing(tmp_path: Path) -> None:
    mine = store(tmp_path, check=True)
    assert mine.key("gate", "b") == mine.key("gate", "b")
    mine.certificate("gate", NAMES)
    assert list(tmp_path.iterdir()) == []
