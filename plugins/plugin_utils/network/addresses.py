# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and addresses, as the controller resolves and writes them."""

from __future__ import annotations

import ipaddress
import socket

LOOPBACK = "127.0.0.1"


def resolved(name: str) -> list[str]:
    """What a name stands for on the controller; nothing where it stands for nothing."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


def in_url(address: str) -> str:
    """An address or a name as a URL has it: IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


def is_address(text: str) -> bool:
    """Whether it is an IPv4 or IPv6 address, and no name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
