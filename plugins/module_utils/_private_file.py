# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that only their owner may read, such as secrets and records."""

from __future__ import annotations

import os


def write_private(path: str, text: str) -> None:
    """Write a file in one step, for its owner only, in a folder that is made for its owner only where there is none. OSError if it fails."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    incoming = "{0}.{1}".format(path, os.getpid())
    descriptor = os.open(incoming, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(incoming, path)
    except OSError:
        os.unlink(incoming)
        raise
