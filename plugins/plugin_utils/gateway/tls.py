# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates of gateways and of journals: what is wrong with an own one, and a local authority that makes others. All of it on the controller."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
from collections.abc import Sequence
from typing import Any, TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, problem
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.clock import CONTROLLER_SECONDS

# It comes with ansible-core. ansible-test imports each file without it.
with contextlib.suppress(ImportError):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Of the authority, and of what it signs: browsers take no longer than 398 days (https://support.apple.com/en-us/102028).
AUTHORITY_DAYS, CERTIFICATE_DAYS = 3650, 397
# A certificate that ends within so many days is made anew, and an own one is warned about.
RENEW_DAYS = 30


def certificate_problems(
    certificate: bytes | None, key: bytes | None, now: datetime.datetime, where: str, lang: str = "en"
) -> list[dict[str, str]]:
    """What is wrong with a certificate (PEM, the server's own first) and its private key; ``None`` stands for one that is missing."""

    def refused(code: str, value: str, **values: object) -> list[dict[str, str]]:
        return [problem(code, lang, value=value, where=where, **values)]

    if certificate is None or key is None:
        missing = "gateway_tls_certificate" if certificate is None else "gateway_tls_key"
        return refused("gateway_tls_half", f"{missing}: {message('nothing', lang)}")
    try:
        mine = x509.load_pem_x509_certificates(certificate)[0]
    except ValueError as error:
        return refused("gateway_tls_unreadable", str(error), variable="gateway_tls_certificate")
    try:
        secret = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError) as error:
        # What OpenSSL says of a key does not quote it.
        return refused("gateway_tls_unreadable", type(error).__name__, variable="gateway_tls_key")
    if _public(secret.public_key()) != _public(mine.public_key()):
        return refused("gateway_tls_no_pair", mine.subject.rfc4514_string())
    if mine.not_valid_after_utc <= now:
        return refused("gateway_tls_expired", f"{mine.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    if mine.not_valid_before_utc > now:
        return refused("gateway_tls_early", f"{mine.not_valid_before_utc:%Y-%m-%d %H:%M} UTC")
    return []


class Signed(TypedDict):
    """A certificate that the controller can hand to a host."""

    # Of the certificate and its key.
    sha256: str
    # How long it is still valid, in days; negative where it has ended.
    days: int
    # For which names and addresses.
    names: list[str]
    # Files of the controller. The root is empty for a certificate of the user's own.
    certificate: str
    key: str
    root: str


class Certificate(Signed):
    """The same, and whether it is one of the user's own."""

    own: bool


def _public(key: Any) -> bytes:
    found: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return found


def validity(certificate: bytes) -> tuple[datetime.datetime, datetime.datetime]:
    """From when to when a certificate (PEM) is valid.

    Raises ValueError where it cannot be read.
    """
    mine = x509.load_pem_x509_certificates(certificate)[0]
    return mine.not_valid_before_utc, mine.not_valid_after_utc


def days_left(certificate: bytes, now: datetime.datetime) -> int:
    """How many days a certificate (PEM) is still valid; negative where it has ended."""
    return (x509.load_pem_x509_certificates(certificate)[0].not_valid_after_utc - now).days


def names_of(certificate: bytes) -> list[str]:
    """The names and addresses that a certificate (PEM) is for, sorted."""
    mine = x509.load_pem_x509_certificates(certificate)[0]
    try:
        said = mine.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in said.get_values_for_type(x509.IPAddress)]
    return sorted([*said.get_values_for_type(x509.DNSName), *addresses])


def signed_by(certificate: bytes, authority: bytes) -> bool:
    """Whether an authority (PEM) signed a certificate (PEM)."""
    mine, root = (x509.load_pem_x509_certificates(text)[0] for text in (certificate, authority))
    try:
        mine.verify_directly_issued_by(root)
    except Exception:  # cryptography has several for it
        return False
    return True


def make_authority(now: datetime.datetime, name: str = "baremetal.llm gateway") -> tuple[bytes, bytes]:
    """A root certificate and its private key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    mine = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(mine, mine, key.public_key(), now, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    return _pem(builder.sign(key, hashes.SHA256())), _key_pem(key)


def make_certificate(
    authority: bytes,
    authority_key: bytes,
    names: Sequence[str],
    now: datetime.datetime,
    client: bool = False,
    days: int = CERTIFICATE_DAYS,
) -> tuple[bytes, bytes]:
    """A server's certificate for these names and addresses, and its private key, both PEM. The first name is the subject.

    With ``client`` it also says who somebody is that connects."""
    root = x509.load_pem_x509_certificate(authority)
    signer = serialization.load_pem_private_key(authority_key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is none of an elliptic curve")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    builder = _builder(subject, root.subject, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if client else [])]
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(known, critical=False)
    return _pem(builder.sign(signer, hashes.SHA256())), _key_pem(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    # Clocks of clients may be a little late.
    builder = builder.not_valid_before(now - datetime.timedelta(seconds=CONTROLLER_SECONDS))
    builder = builder.not_valid_after(now + datetime.timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
