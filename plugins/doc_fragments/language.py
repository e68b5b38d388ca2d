# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option of whatever speaks to people."""

    DOCUMENTATION = r"""
options:
  language:
    description: The language of the texts.
    type: str
    choices: [en, zh]
    default: en
"""
