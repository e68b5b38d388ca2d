# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose manifest it is: signed by ssh-keygen where the bundle is made, compared with known signers and with a pinned SHA-256 where it is used.

The manifest names the SHA-256 of every file, so that its signature covers them all. A signature is an OpenSSH one
(https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig), which OpenSSH makes and verifies since 8.0; principals are found
since 8.2.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import MANIFEST_NAME, SIGNATURE_NAME, sha256_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.files import write_text
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused

# A signature that was made for something else does not count.
NAMESPACE = "baremetal-llm-bundle"
TIMEOUT_SECONDS = 60
_PUBLIC_KEY = re.compile(r"(ssh-|ecdsa-|sk-)\S+ [A-Za-z0-9+/=]+( .*)?")


def manifest_sha256(bundle: str) -> str:
    """The SHA-256 of a bundle's manifest, which stands for the whole bundle. Refused if it cannot be read."""
    try:
        return sha256_of(os.path.join(bundle, MANIFEST_NAME))
    except OSError as error:
        raise Refused("bundle_unusable", bundle=bundle, reason=error) from error


def sign(bundle: str, key: str) -> bool:
    """Sign the manifest with a private key, or with that of the agent whose public key `key` is. Returns whether it was not yet.

    Refused if ssh-keygen is missing, or cannot use the key without asking for a passphrase.
    """
    path = os.path.join(bundle, MANIFEST_NAME)
    signature = os.path.join(bundle, SIGNATURE_NAME)
    with open(path, "rb") as stream:
        manifest = stream.read()
    status, said, wrong = _ssh_keygen(["-l", "-f", key])
    fingerprint = said.split()[1] if not status and len(said.split()) > 1 else ""
    if os.path.isfile(signature) and fingerprint:
        status, said, wrong = _ssh_keygen(["-Y", "check-novalidate", "-n", NAMESPACE, "-s", signature], manifest)
        if not status and fingerprint in said.split():
            return False
    status, said, wrong = _ssh_keygen(["-Y", "sign", "-f", key, "-n", NAMESPACE], manifest)
    if status:
        raise Refused("bundle_cannot_sign", key=key, reason=wrong or said)
    return write_text(signature, said)


class Trusted(NamedTuple):
    """A manifest that was read once: what was compared is what is used."""

    content: bytes
    sha256: str
    # Empty if no signers are known.
    signer: str


def require_trusted(bundle: str, pinned: str = "", signers: str = "") -> Trusted:
    """A bundle's manifest, which may be used.

    `pinned` is the SHA-256 that it has to have; `signers` a public key, or the path of a file of allowed signers (ssh-keygen(1)).
    Refused if the manifest has another checksum, no signature, or that of somebody else.
    """
    try:
        with open(os.path.join(bundle, MANIFEST_NAME), "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise Refused("bundle_unusable", bundle=bundle, reason=error) from error
    found = hashlib.sha256(content).hexdigest()
    if pinned and found != pinned.strip().lower():
        raise Refused("bundle_other_manifest", bundle=bundle, found=found, pinned=pinned)
    return Trusted(content, found, _signer(bundle, content, signers.strip()) if signers.strip() else "")


def _signer(bundle: str, manifest: bytes, signers: str) -> str:
    signature = os.path.join(bundle, SIGNATURE_NAME)
    if not os.path.isfile(signature):
        raise Refused("bundle_not_signed", bundle=bundle, signature=SIGNATURE_NAME)
    if not _PUBLIC_KEY.fullmatch(signers):
        return _verified(bundle, manifest, signature, os.path.expanduser(signers))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".signers") as allowed:
        comment = "".join(signers.split(None, 2)[2:]) or "llm_bundle_allowed_signers"
        allowed.write('{0} namespaces="{1}" {2}\n'.format(re.sub(r'["#\s,!?*]', "_", comment), NAMESPACE, signers))
        allowed.flush()
        return _verified(bundle, manifest, signature, allowed.name)


def _verified(bundle: str, manifest: bytes, signature: str, allowed: str) -> str:
    if not os.path.isfile(allowed):
        raise Refused("bundle_no_signers", path=allowed)
    _status, known, wrong = _ssh_keygen(["-Y", "find-principals", "-f", allowed, "-s", signature])
    for principal in known.split("\n")[0].split(","):
        verify = ["-Y", "verify", "-f", allowed, "-I", principal, "-n", NAMESPACE, "-s", signature]
        status, said, complaint = _ssh_keygen(verify, manifest) if principal else (1, "", wrong)
        if not status:
            return principal
        wrong = complaint or said
    raise Refused("bundle_signed_by_another", bundle=bundle, reason=wrong)


def _ssh_keygen(arguments: Sequence[str], given: bytes = b"") -> tuple[int, str, str]:
    """Status, what it says and what it complains about. It has no terminal: what it would ask for is a failure."""
    program = shutil.which("ssh-keygen")
    if not program:
        raise Refused("bundle_no_ssh_keygen")
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    done = subprocess.run(
        [program, *arguments],
        input=given,
        env={**environment, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"},
        capture_output=True,
        start_new_session=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    said, wrong = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return done.returncode, said if not done.returncode else said.strip(), wrong.strip()
