# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.install import packages

DOCUMENTATION = r"""
name: cdi_options
short_description: What daemon.json needs so that the engine knows CDI
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - Docker Engine knows CDI since 25, and without being told since 28.2.
options:
  _input:
    description: Version of the engine.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Docker | Show what CDI needs
  ansible.builtin.debug:
    msg: "{{ '26.1.5' | baremetal.llm.cdi_options }}"
"""

RETURN = r"""
_value:
  description: The options, a mapping; V(null) where the engine does not know CDI.
  type: dict
"""


def cdi_options(version: Any) -> dict[str, Any] | None:
    """The filter; see the documentation above."""
    return packages.engine_options_for_cdi(str(version))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cdi_options": cdi_options}
