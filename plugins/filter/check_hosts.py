# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight import check as preflight

DOCUMENTATION = r"""
name: check_hosts
short_description: What is wrong with the hosts of the deployments, before they are changed
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - Compares what hosts have with what the inventory says and with what their deployments need - system, clock and memory, the
    GPUs and their health, the network between them, ports, free disk space - and tells all problems of all hosts at once.
  - The role P(baremetal.llm.preflight#role) gathers what this filter needs.
positional: _input, facts
options:
  _input:
    description: The deployments, as M(baremetal.llm.inventory_check) returns them.
    type: dict
    required: true
  facts:
    description: Per host its C(ansible_facts). A host without facts is not judged.
    type: dict
    required: true
  settings:
    description:
      - Per host what its inventory says - C(gpus) (declared), C(interface), C(network), C(tensor_parallel_size),
        C(pipeline_parallel_size), C(cpu_offload_gib), C(swap_space_gib), C(object_store_gib), C(model_bytes), C(driver_method),
        C(executor), C(ports) (by variable), C(driver_version) - what the bundle holds for it - C(image) (the manifest's record) and
        C(drivers) (their versions) - and what was found - C(disks), C(gpu) and C(host), as M(baremetal.llm.disk_facts),
        M(baremetal.llm.gpu_facts) and M(baremetal.llm.host_facts) return them. What is missing is not judged.
    type: dict
    default: {}
  limits:
    description:
      - The variables of the role without C(preflight_) - C(supported_systems), C(supported_architectures), C(disk_reserve_gib),
        C(memory_reserve_gib), C(kernel_minimum), C(clock_limit_seconds), C(ecc_uncorrected_limit) and C(severities).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Hosts | Refuse what cannot work
  ansible.builtin.assert:
    that: checked.problems | length == 0
    fail_msg: "{{ checked.message }}"
  vars:
    hosts: "{{ llm_inventory.hosts }}"
    checked: >-
      {{ llm_inventory.deployments
         | baremetal.llm.check_hosts(dict(hosts | zip(hosts | map('extract', hostvars, 'ansible_facts'))),
                                     limits={'supported_systems': {'Debian': ['12']}, 'supported_architectures': ['x86_64']}) }}
"""

RETURN = r"""
_value:
  description:
    - A mapping with C(problems), a list of mappings with C(code), C(severity), C(hosts), C(what), C(value), C(limit), C(where) and
      C(allowed), and C(warnings), a list of the same; C(message) and C(warning), each of them as one text; C(hosts), per host its
      C(deployment) and its C(interface) (C(interface), C(address), C(network); V(null) where there is none); and C(report), the
      same for machines.
  type: dict
"""


def check_hosts(
    deployments: Any,
    facts: Any,
    settings: Any = None,
    limits: Any = None,
    language: str = "en",
) -> dict[str, Any]:
    """The filter; see the documentation above."""
    given = {"deployments": deployments, "facts": facts, "settings": settings or {}, "limits": limits or {}}
    for name, value in given.items():
        if not isinstance(value, Mapping):
            raise AnsibleFilterError(f"check_hosts wants a mapping of {name}, not {type(value).__name__}")
    return preflight.check_hosts(**{name: plain(value) for name, value in given.items()}, lang=known_language(language))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"check_hosts": check_hosts}
