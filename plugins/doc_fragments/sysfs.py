# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Where modules look for hardware."""

    DOCUMENTATION = r"""
options:
  sysfs_root:
    description: Where the host's sysfs is mounted.
    type: path
    default: /sys
"""
