# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keyed digests of the secrets that a host holds: a controller that has the same secret recognises it, and nobody learns it."""

from __future__ import annotations

import glob
import hashlib
import hmac
import os

# What the roles write into the folder of secrets, by pattern: each engine has a key of its own name.
FILES = ("ray_token", "*_api_key")


def seal(challenge: str, value: str) -> str:
    """What stands for a secret in an answer: another one for each question, so that nobody learns from a log what it is, or whether it changed."""
    return hmac.new(challenge.encode(), value.encode(), hashlib.sha256).hexdigest()


def sealed_secrets(folder: str, challenge: str) -> dict[str, str]:
    """The seals of the secrets in a folder, by file name. One that is not there, is empty or may not be read by this user is left out.

    Raises OSError where a file is there and the disk does not give it: a secret that cannot be read is not one that is missing.
    """
    found = {}
    paths = [path for pattern in FILES for path in sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))]
    for path in paths:
        name = os.path.basename(path)
        try:
            # Bytes that are no text match no other secret, so the controller refuses them with a message.
            with open(path, encoding="utf-8", errors="replace") as stream:
                value = stream.read().strip()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        if value:
            found[name] = seal(challenge, value)
    return found
