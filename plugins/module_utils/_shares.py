# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shares whose server does not answer: whoever asks the kernel for one waits for ever, and no signal ends that. So each is asked in a thread of its own.

This runs on the host.
"""

from __future__ import annotations

import errno
import os
from typing import Iterable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._at_once import confirmed

# Types in /proc/mounts, those of FUSE with and without its name before them.
TYPES = ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "beegfs", "gpfs", "9p", "afs")
_FUSE = ("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs", "fuse.juicefs", "fuse.rclone")
# What the kernel says of a share that has lost its server. Root may be refused one that works (EACCES), and one may be hidden by another (ENOENT).
_BROKEN = (
    *(errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH),
    *(errno.ENOTCONN, errno.ECONNREFUSED),
)
SECONDS = 5.0
# More are not asked.
MOST_SHARES = 64
# How many links lead on to others.
_MOST_LINKS = 8


def silent(types: Mapping[str, str], seconds: float = SECONDS) -> list[str]:
    """Which of the shares do not answer, or no longer know what they were asked for, from the types of file systems by where they are mounted."""
    asked = [place for place, kind in types.items() if kind in TYPES or kind in _FUSE][:MOST_SHARES]

    def answers(place: str) -> bool:
        try:
            os.statvfs(place)
        except OSError as error:
            return error.errno not in _BROKEN
        return True

    return sorted(set(asked).difference(confirmed(asked, answers, seconds)))


def is_below(path: str, shares: Sequence[str], links: int = _MOST_LINKS) -> bool:
    """Whether a path is on one of these shares, by its name or by where it leads as a link: to look at it would be to wait."""
    if not shares or links < 0:
        return False
    path = os.path.normpath(path)
    if any(path == share or path.startswith(share.rstrip("/") + "/") for share in shares):
        return True
    try:
        leads_to = os.readlink(path)
    except OSError:
        return False
    return is_below(os.path.join(os.path.dirname(path), leads_to), shares, links - 1)


def apart(paths: Iterable[str], shares: Sequence[str]) -> list[str]:
    """The paths that are on none of these shares."""
    return [path for path in paths if not is_below(path, shares)]
