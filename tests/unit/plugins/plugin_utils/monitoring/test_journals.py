"""Who sends its journal where, and with which certificate."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import JOURNAL
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.controller_secrets import ControllerSecrets
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.journals import central, senders
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

NOW = datetime.datetime(2026, 11, 24, tzinfo=datetime.UTC)
ON = {"monitoring_journal_central_enabled": "yes", "monitoring_journal_central_port": 19532}
HOSTS: dict[str, dict[str, Any]] = {
    "gpu1": {**ON, "ansible_host": "192.0.2.1"},
    "gpu2": {**ON, "monitoring_journal_central_enabled": False},
    "watch": {**ON, "ansible_host": "192.0.2.9"},
}


def store(folder: Path, now: datetime.datetime = NOW, *, renew: bool = False) -> ControllerSecrets:
    def write(path: str, content: str) -> None:
        Path(path).write_text(content, encoding="utf-8")

    return ControllerSecrets(folder, HOSTS, str, write, now, renew=renew)


def made(folder: Path, hosts: Any = None, now: datetime.datetime = NOW) -> dict[str, Any]:
    variables = hosts or HOSTS
    mine = store(folder, now)
    return central(
        senders(list(variables), variables), variables, ["watch"], lambda host, names: mine.signed(JOURNAL, host, names)
    )


def test_hosts_that_do_not_send_have_no_certificate(tmp_path: Path) -> None:
    found = made(tmp_path)
    assert (found["server"], found["url"], found["listen"]) == ("watch", "https://192.0.2.9:19532", "192.0.2.9:19532")
    assert list(found["hosts"]) == ["gpu1", "watch"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"journal_{name}" for name in ("ca.crt", "ca.key", "gpu1.crt", "gpu1.key", "watch.crt", "watch.key")
    )


def test_both_sides_can_verify_each_other(tmp_path: Path) -> None:
    found = made(tmp_path)
    root = x509.load_pem_x509_certificate(Path(found["hosts"]["watch"]["root"]).read_bytes())
    for host in ("gpu1", "watch"):
        mine = x509.load_pem_x509_certificate(Path(found["hosts"][host]["certificate"]).read_bytes())
        mine.verify_directly_issued_by(root)
        uses = mine.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert set(uses) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
        names = mine.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
        assert (names.get_values_for_type(x509.DNSName), addresses) == (
            [host],
            ["192.0.2.9"] if host == "watch" else [],
        )


def test_certificates_are_made_once_and_again_before_they_end(tmp_path: Path) -> None:
    first = made(tmp_path)["hosts"]["gpu1"]["sha256"]
    assert made(tmp_path)["hosts"]["gpu1"]["sha256"] == first
    assert made(tmp_path, now=NOW + datetime.timedelta(days=3600))["hosts"]["gpu1"]["sha256"] == first


def test_an_authority_at_its_end_is_refused_until_another_is_asked_for(tmp_path: Path) -> None:
    made(tmp_path)
    late = NOW + datetime.timedelta(days=3640)
    assert [entry["code"] for entry in store(tmp_path, late).authority_problems(JOURNAL)] == ["authority_unusable"]
    root = (tmp_path / "journal_ca.crt").read_bytes()
    renewing = store(tmp_path, late, renew=True)
    assert renewing.authority_problems(JOURNAL) == []
    renewing.signed(JOURNAL, "gpu1", ["gpu1"])
    assert (tmp_path / "journal_ca.crt").read_bytes() != root


def test_gateways_have_another_authority(tmp_path: Path) -> None:
    made(tmp_path)
    gateway = store(tmp_path).certificate("gpu1", ["llm.example"])
    assert Path(gateway["root"]).name == "gateway_ca.crt"
    uses = x509.load_pem_x509_certificate(Path(gateway["certificate"]).read_bytes()).extensions
    found = uses.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(found) == [ExtendedKeyUsageOID.SERVER_AUTH], "a gateway may not send journals"


@pytest.mark.parametrize(
    ("address", "listen", "url"),
    [
        ("watch.example", "19532", "https://watch.example:19532"),
        ("2001:db8::9", "[2001:db8::9]:19532", "https://[2001:db8::9]:19532"),
    ],
)
def test_a_name_is_no_address_to_listen_on(tmp_path: Path, address: str, listen: str, url: str) -> None:
    found = made(tmp_path, {**HOSTS, "watch": {**ON, "ansible_host": address}})
    assert (found["listen"], found["url"]) == (listen, url)
