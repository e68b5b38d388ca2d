# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writing on the controller's disks: whether there is room, and small files that are never half there."""

from __future__ import annotations

import os
import shutil

from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused


def require_room(folder: str, needed: int, variable: str) -> None:
    """Refuse where the disk on which a folder is, or will be, has less room than needed."""
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    if needed > free:
        raise Refused("no_room", folder=folder, variable=variable, free=human_bytes(free), needed=human_bytes(needed))


def write_text(path: str, text: str, check: bool = False) -> bool:
    """Whether a file's text had to change. It is changed unless this is only a check."""
    content = text.encode()
    try:
        with open(path, "rb") as stream:
            if stream.read() == content:
                return False
    except OSError:
        pass
    if not check:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _own_files.write(path, content)
    return True
