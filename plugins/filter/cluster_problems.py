# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_problems
short_description: Why the hosts of a deployment form no cluster
version_added: 0.1.0
description:
  - Turns what was looked at on the hosts into texts for people, a text for each problem.
positional: language
options:
  _input:
    description:
      - What was looked at, any of these keys.
      - C(lost) lists hosts that this run has lost. C(versions) holds the C(head) and C(ray) and C(python) by host in C(hosts).
      - C(absent) holds the C(planned) GPUs by host, the C(joined) nodes, the C(head) with its port, the C(port) that the head
        connects to, the agreed C(addresses) by host, and the results of tasks that looked at each missing host, C(logs),
        C(states), C(forth) and C(back).
    type: dict
    required: true
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Ray | Refuse a deployment that has lost a host
  ansible.builtin.assert:
    that: "{'lost': []} | baremetal.llm.cluster_problems | length == 0"
"""

RETURN = r"""
_value:
  description: A text for each problem; empty if there is none.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import cluster


def cluster_problems(found: Mapping[str, object], language: str = "en") -> list[str]:
    """Texts for people."""
    return cluster.cluster_problems(found, language)


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"cluster_problems": cluster_problems}
