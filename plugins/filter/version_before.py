# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: version_before
short_description: To which version a deployment goes back
version_added: 0.1.0
description:
  - The version before the one that serves. Where the hosts do not all have the same newest one, a run was ended meanwhile, and it is the one that all
    of them know.
options:
  _input:
    description: C(llm_served) of M(baremetal.llm.gather) of each host of the deployment, by host.
    type: dict
    required: true
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Rollback | Show the version
  ansible.builtin.debug:
    msg: "{{ {'gpu01': ansible_facts['llm_served']} | baremetal.llm.version_before }}"
"""

RETURN = r"""
_value:
  description: The version; empty where there is none.
  type: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import served as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain


def version_before(served: Mapping[str, Any]) -> str:
    """The filter; see the documentation above."""
    return core.version_before(plain(served))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"version_before": version_before}
