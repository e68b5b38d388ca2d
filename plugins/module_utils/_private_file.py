# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that only their owner may read, such as secrets and records."""

from __future__ import annotations

import os

from ansible_collections.baremetal.llm.plugins.module_utils import _own_files


def write_private(path: str, text: str) -> None:
    """Write a file in one step, for its owner only, in a folder that is made for its owner only where there is none. OSError if it fails."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    _own_files.write(path, text.encode("utf-8"), 0o600)
