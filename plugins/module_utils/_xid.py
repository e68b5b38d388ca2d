# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do about an Xid, the number under which NVIDIA's driver logs an error of a GPU.

It imports nothing of the collection, so that programs of the hosts can have a copy beside them.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple

# What an Xid asks for, from the least to the most.
WATCH, RESTART, RESET, REBOOT, REPLACE = "watch", "restart", "reset", "reboot", "replace"
# After one of these nothing more should be computed on the card.
BAD = (RESET, REBOOT, REPLACE)
# By the immediate action of NVIDIA's catalogue (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html: IGNORE, RESTART_APP,
# RESET_GPU and its workflows, RESTART_BM) and, for 48, 63, 64 and 74 of older cards, https://docs.nvidia.com/deploy/dynamic-page-retirement/
# and https://docs.nvidia.com/deploy/gpu-debug-guidelines/. What is not here is only watched.
ACTIONS = {
    RESTART: (8, 13, 31, 32, 68, 69, 94),
    RESET: (46, 48, 62, 74, 95, 109, 110, 119, 120, 140),
    REBOOT: (79,),
    REPLACE: (64,),
}
_ACTION_OF = {xid: action for action, xids in ACTIONS.items() for xid in xids}
# As the driver logs it: NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.
LINE = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)[^)]*\): (\d+)")
# What journalctl is asked for these lines since the boot, each with its time in front.
JOURNAL = ("-k", "-b", "-q", "-o", "short-unix", "--no-pager")
LOGGED = "NVRM: Xid"
_TIME = re.compile(r"\d+\.\d+")
# 154 says itself what is to be done.
_SAID = re.compile(
    r"recovery action changed from .* to .*\((None|GPU Reset Required|Node Reboot Required|Drain P2P|Drain and Reset)\)",
    re.I,
)
_SAID_ACTIONS = {"gpu reset required": RESET, "drain and reset": RESET, "node reboot required": REBOOT}


class Xid(NamedTuple):
    """One error: where the card is on the bus, as the driver writes it in small letters, the number, and what it asks for."""

    bus_id: str
    number: int
    action: str


def action_of(number: int, line: str = "") -> str:
    """What an Xid asks for; of one that says so itself the ``line``."""
    said = _SAID.search(line)
    if said:
        return _SAID_ACTIONS.get(said.group(1).lower(), WATCH)
    return _ACTION_OF.get(number, WATCH)


def read(line: str) -> Xid | None:
    """The Xid of a line of the kernel's log; None where there is none."""
    found = LINE.search(line)
    if not found:
        return None
    number = int(found.group(2)) if len(found.group(2)) < 6 else 0
    return Xid(found.group(1).lower(), number, action_of(number, line))


def logged(text: str) -> Iterator[tuple[float | None, Xid]]:
    """Each Xid of what journalctl prints, with its time in seconds since 1970; None where the line has none."""
    for line in text.splitlines():
        found, at = read(line), _TIME.match(line)
        if found:
            yield float(at.group()) if at else None, found
