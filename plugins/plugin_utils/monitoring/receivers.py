# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the receivers of alerts listen, so that they can be tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443, "smtp": 25}


def endpoints(receivers: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """``name``, ``host`` and ``port`` of each; nothing else of an address, which may be a secret."""
    found = []
    for receiver in receivers:
        mail = receiver["kind"] == "email"
        at = urlsplit(f"smtp://{receiver['smarthost']}" if mail else str(receiver["url"]))
        found.append(
            {"name": str(receiver["name"]), "host": at.hostname or "", "port": at.port or PORTS.get(at.scheme, 443)}
        )
    return found
