# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: bundle_select
short_description: Records of a bundle's manifest, of one kind and with certain fields
version_added: 0.1.0
description:
  - Picks records as M(baremetal.llm.bundle_copy) does, without copying anything.
positional: kind, match
options:
  _input:
    description: The list C(files) of a manifest.
    type: list
    elements: dict
    required: true
  kind:
    description: Kind of the files.
    type: str
    required: true
  match:
    description: Fields that must have these values, compared as text.
    type: dict
    default: {}
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Driver | Show which drivers the bundle holds
  ansible.builtin.debug:
    msg: "{{ manifest.files | baremetal.llm.bundle_select('driver', {'method': 'runfile'}) | map(attribute='version') }}"
"""

RETURN = r"""
_value:
  description: The records.
  type: list
  elements: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import select


def bundle_select(
    records: list[dict[str, Any]], kind: str, match: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Records of one kind."""
    return select(records, kind, match)


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"bundle_select": bundle_select}
