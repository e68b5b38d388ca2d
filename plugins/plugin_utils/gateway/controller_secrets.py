# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller keeps for gateways, journals and Grafana, in ``llm_secrets_dir``: keys, local authorities, certificates. Made when first needed."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.secrets import made
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.tls import (
    AUTHORITY_DAYS,
    CERTIFICATE_DAYS,
    RENEW_DAYS,
    certificate_problems,
    days_left,
    make_authority,
    make_certificate,
    names_of,
    signed_by,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

KEYS, REPLICA_KEY, OWN_KEY = "gateway_key_", "gateway_replica_key", "gateway_own_key"
GRAFANA_PASSWORD = "grafana_admin_password"
# Each kind of certificate has an authority of its own, named after it, so that nobody sends journals with a certificate of a gateway.
GATEWAY, JOURNAL = "gateway", "journal"
# No browser, which would refuse a long life, looks at the certificates of journals: they last as long as their authority.
DAYS = {GATEWAY: CERTIFICATE_DAYS, JOURNAL: AUTHORITY_DAYS}


def _authority(kind: str) -> tuple[str, str]:
    """The files of an authority: its certificate and its key."""
    return f"{kind}_ca.crt", f"{kind}_ca.key"


class ControllerSecrets:
    """The folder of one run. ``write`` is None in check mode: what is made then is forgotten."""

    def __init__(
        self,
        folder: Path,
        variables: Mapping[str, Mapping[str, Any]],
        find: Callable[[str], str],
        write: Callable[[str, str], Any] | None,
        now: datetime.datetime,
        lang: str = "en",
    ) -> None:
        self.folder, self.variables, self.find, self.write, self.now, self.lang = (
            folder,
            variables,
            find,
            write,
            now,
            lang,
        )
        self._new: dict[str, str] = {}

    def kept(self, name: str) -> str:
        """The content of a file; empty where there is none."""
        path = self.folder / name
        if name in self._new:
            return self._new[name]
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def keep(self, name: str, content: str) -> str:
        """Write a file for this user only. Returns its content."""
        self._new[name] = content
        if self.write:
            self.write(str(self.folder / name), content)
        return content

    def secret(self, name: str) -> str:
        """A secret of the controller, made now if there is none."""
        return (self.kept(name) or self.keep(name, made() + "\n")).strip()

    def key(self, host: str, name: str) -> str:
        """The value of a key: the one that the inventory sets, else the one that is kept or made here."""
        for key in self.variables[host].get("gateway_keys") or []:
            if str(key.get("name")) == name and key.get("key") is not None:
                return str(key["key"]).strip()
        return self.secret(KEYS + name)

    def lost(self, host: str) -> list[str]:
        """The files that clients of a gateway would miss if they were made anew, and that this controller lacks. None where it has set one up."""
        if self.kept(OWN_KEY):
            return []
        keys = [
            f"{KEYS}{key.get('name')}"
            for key in self.variables[host].get("gateway_keys") or []
            if key.get("key") is None
        ]
        authority = () if self.own(host) is not None else _authority(GATEWAY)
        return [name for name in (*keys, *authority) if not self.kept(name)]

    # -- certificates -------------------------------------------------------------------------------------------------
    def own(self, host: str) -> tuple[bytes | None, bytes | None] | None:
        """The certificate and the key that the inventory names; None where it names neither."""
        said = [self.variables[host].get(f"gateway_tls_{part}") for part in ("certificate", "key")]
        if not any(said):
            return None
        read = [self._read(str(path)) if path else None for path in said]
        return read[0], read[1]

    def _read(self, path: str) -> bytes:
        try:
            return Path(self.find(path)).read_bytes()
        except OSError:
            return b""

    def certificate_problems(self, host: str) -> list[dict[str, str]]:
        """What is wrong with the certificate that the inventory names for a host."""
        own = self.own(host)
        if own is None:
            return []
        where = message("where_host", self.lang, host=host)
        return certificate_problems(*own, self.now, where, self.lang)

    def certificate(self, host: str, names: Sequence[str]) -> dict[str, Any]:
        """The certificate of a host: ``own``, ``sha256`` of certificate and key, ``days`` that it is valid, ``names``, and the files on the
        controller, ``certificate``, ``key`` and ``root`` (empty for an own one)."""
        own = self.own(host)
        if own is not None:
            files = {
                part: self.find(str(self.variables[host][f"gateway_tls_{part}"])) for part in ("certificate", "key")
            }
            return {**_described(own[0] or b"", own[1] or b"", self.now), **files, "own": True, "root": ""}
        return {**self.signed(GATEWAY, host, names), "own": False}

    def signed(self, kind: str, host: str, names: Sequence[str]) -> dict[str, Any]:
        """A certificate that the local authority of this kind signed: the same as ``certificate``, without ``own``."""
        authority, authority_key = _authority(kind)
        root, signer = self.kept(authority), self.kept(authority_key)
        if not root or not signer or days_left(root.encode(), self.now) < RENEW_DAYS:
            made_root, made_signer = make_authority(self.now, f"baremetal.llm {kind}")
            root, signer = self.keep(authority, made_root.decode()), self.keep(authority_key, made_signer.decode())
        file, secret = f"{kind}_{host}.crt", f"{kind}_{host}.key"
        mine, key = self.kept(file).encode(), self.kept(secret).encode()
        if not mine or not key or not _good(mine, root.encode(), names, self.now):
            mine, key = make_certificate(
                root.encode(), signer.encode(), names, self.now, client=kind == JOURNAL, days=DAYS[kind]
            )
            self.keep(secret, key.decode())
            self.keep(file, mine.decode())
        files = {"certificate": str(self.folder / file), "key": str(self.folder / secret)}
        return {**_described(mine, key, self.now), **files, "root": str(self.folder / authority)}


def _good(certificate: bytes, root: bytes, names: Sequence[str], now: datetime.datetime) -> bool:
    if days_left(certificate, now) < RENEW_DAYS:
        return False
    return signed_by(certificate, root) and names_of(certificate) == sorted(names)


def _described(certificate: bytes, key: bytes, now: datetime.datetime) -> dict[str, Any]:
    digest = hashlib.sha256(certificate + key).hexdigest()
    return {"sha256": digest, "days": days_left(certificate, now), "names": names_of(certificate)}
