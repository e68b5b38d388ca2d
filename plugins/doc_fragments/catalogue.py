# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What the filters take that read the catalogue of messages."""

    DOCUMENTATION = r"""
options:
  _input:
    description: Code of the message.
    type: str
    required: true
notes:
  - For the roles of this collection. The text's placeholders are given as keywords of their names.
"""
