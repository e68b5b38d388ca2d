# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller keeps for gateways, journals and Grafana, in ``llm_secrets_dir``: keys, local authorities, certificates. Made when first needed."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import (
    GATEWAY,
    JOURNAL,
    OWN_KEY,
    authority_files,
    certificate_files,
    key_file,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.secrets import made
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.tls import (
    AUTHORITY_DAYS,
    CERTIFICATE_DAYS,
    RENEW_DAYS,
    Certificate,
    Signed,
    certificate_problems,
    days_left,
    make_authority,
    make_certificate,
    names_of,
    signed_by,
    validity,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.web_ui import SSO_CA, SSO_CA_FILE
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, problem

# No browser, which would refuse a long life, looks at the certificates of journals: they last as long as their authority.
DAYS = {GATEWAY: CERTIFICATE_DAYS, JOURNAL: AUTHORITY_DAYS}


class ControllerSecrets:
    """The folder of one run. ``write`` is None in check mode: what is made then is forgotten. With ``renew`` authorities are made anew."""

    def __init__(
        self,
        folder: Path,
        variables: Mapping[str, Mapping[str, object]],
        find: Callable[[str], str],
        write: Callable[[str, str], object] | None,
        now: datetime.datetime,
        lang: str = "en",
        renew: bool = False,
    ) -> None:
        self.renew = renew
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
        for key in mappings(self.variables[host].get("gateway_keys")):
            if str(key.get("name")) == name and key.get("key") is not None:
                return str(key["key"]).strip()
        return self.secret(key_file(name))

    def lost(self, host: str) -> list[str]:
        """The files that clients of a gateway would miss if they were made anew, and that this controller lacks. None where it has set one up."""
        if self.kept(OWN_KEY):
            return []
        keys = [
            key_file(str(key.get("name")))
            for key in mappings(self.variables[host].get("gateway_keys"))
            if key.get("key") is None
        ]
        authority = () if self.own(host) is not None else authority_files(GATEWAY)
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
        """What is wrong with the certificate that the inventory names for a host, or with the authority that makes one."""
        own, where = self.own(host), message("where_host", self.lang, host=host)
        found = (
            self.authority_problems(GATEWAY) if own is None else certificate_problems(*own, self.now, where, self.lang)
        )
        for text in self.sso_authority(host).values():
            try:
                validity(text.encode())
            except ValueError as error:
                values = {"value": str(error), "where": where, "variable": SSO_CA}
                found.append(problem("gateway_tls_unreadable", self.lang, **values))
        return found

    def sso_authority(self, host: str) -> dict[str, str]:
        """Who signs for the servers of a single sign-on: the file on the page's host, and what it holds (PEM)."""
        path = self.variables[host].get(SSO_CA)
        return {SSO_CA_FILE: self._read(str(path)).decode(errors="replace")} if path else {}

    def authority_problems(self, kind: str) -> list[dict[str, str]]:
        """Why an authority cannot sign: by the controller's clock, which may be wrong, or because a file is gone. Clients trust its root, so that it
        is made anew on request only."""
        files = authority_files(kind)
        root, signer = map(self.kept, files)
        if self._makes(kind):
            return []
        where = ", ".join(str(self.folder / file) for file in files)
        reason = ""
        try:
            begins, ends = validity(root.encode())
            if not begins <= self.now <= ends - datetime.timedelta(days=RENEW_DAYS):
                said = [f"{time:%Y-%m-%d}" for time in (begins, ends, self.now)]
                reason = message("authority_not_valid", self.lang, begins=said[0], ends=said[1], now=said[2])
            elif not signer:
                reason = message("authority_no_key", self.lang, file=files[1])
        except ValueError:
            reason = message("authority_unreadable", self.lang, file=files[0])
        return [problem("authority_unusable", self.lang, value=reason, where=where, days=RENEW_DAYS)] if reason else []

    def _makes(self, kind: str) -> bool:
        """Whether this run makes an authority: there is none, or a new one is asked for and this run, or one of the same day, has not made it."""
        root, signer = map(self.kept, authority_files(kind))
        if not self.renew or not root or not signer:
            return self.renew or not (root or signer)
        try:
            return abs(self.now - validity(root.encode())[0]) > datetime.timedelta(days=1)
        except ValueError:
            return True

    def certificate(self, host: str, names: Sequence[str]) -> Certificate:
        """The certificate of a host."""
        own = self.own(host)
        if own is not None:
            file, key = (self.find(str(self.variables[host][f"gateway_tls_{part}"])) for part in ("certificate", "key"))
            return {**_described(own[0] or b"", own[1] or b"", self.now, file, key, ""), "own": True}
        return {**self.signed(GATEWAY, host, names), "own": False}

    def signed(self, kind: str, host: str, names: Sequence[str]) -> Signed:
        """A certificate that the local authority of this kind signed."""
        authority, authority_key = authority_files(kind)
        root, signer = self.kept(authority), self.kept(authority_key)
        if self._makes(kind):
            made_root, made_signer = make_authority(self.now, f"baremetal.llm {kind}")
            root, signer = self.keep(authority, made_root.decode()), self.keep(authority_key, made_signer.decode())
        file, secret = certificate_files(kind, host)
        mine, key = self.kept(file).encode(), self.kept(secret).encode()
        if not mine or not key or not _good(mine, root.encode(), names, self.now):
            mine, key = make_certificate(
                root.encode(), signer.encode(), names, self.now, client=kind == JOURNAL, days=DAYS[kind]
            )
            self.keep(secret, key.decode())
            self.keep(file, mine.decode())
        places = (str(self.folder / name) for name in (file, secret, authority))
        return _described(mine, key, self.now, *places)


def _good(certificate: bytes, root: bytes, names: Sequence[str], now: datetime.datetime) -> bool:
    try:
        begins, ends = validity(certificate)
    except ValueError:
        return False
    if not begins <= now <= ends - datetime.timedelta(days=RENEW_DAYS):
        return False
    return signed_by(certificate, root) and names_of(certificate) == sorted(names)


def _described(
    content: bytes, key_content: bytes, now: datetime.datetime, certificate: str, key: str, root: str
) -> Signed:
    """Of a certificate and its key the contents (PEM) and the files."""
    digest, days = hashlib.sha256(content + key_content).hexdigest(), days_left(content, now)
    return Signed(sha256=digest, days=days, names=names_of(content), certificate=certificate, key=key, root=root)
