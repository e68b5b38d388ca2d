# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that only their owner may read, such as secrets and records."""

from __future__ import annotations

import os
import tempfile


def write_private(path: str, text: str) -> None:
    """Write a file in one step, for its owner only, in a folder that is made for its owner only where there is none. OSError if it fails."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    # Under a name that nobody knows beforehand, and that was not there: whoever may write there could else have a link or a file of
    # their own in its place.
    descriptor, incoming = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(incoming, path)
    except BaseException:
        os.unlink(incoming)
        raise
