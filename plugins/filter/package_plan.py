# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.install import packages

DOCUMENTATION = r"""
name: package_plan
short_description: Which packages bring Docker Engine or NVIDIA's container toolkit to a host
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - From the facts of a host, the packages that a method of the roles P(baremetal.llm.docker#role) and
    P(baremetal.llm.nvidia_container_toolkit#role) installs, and the repository of their publisher.
positional: component, method, version
options:
  _input:
    description: The host's C(ansible_facts).
    type: dict
    required: true
  component:
    description: What to install.
    type: str
    choices: [docker, toolkit]
    required: true
  method:
    description: The role's method.
    type: str
    required: true
  version:
    description: The publisher's version; empty for any.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Docker | Show which packages would come
  ansible.builtin.debug:
    msg: "{{ (ansible_facts | baremetal.llm.package_plan('docker', 'repository', '28.5.1')).packages }}"
"""

RETURN = r"""
_value:
  description:
    - A mapping with C(family) (V(deb), V(rpm) or empty), C(packages) (names, or C(NAME=VERSION)), C(repository) (V(null), or
      C(url), C(key) and, for deb, C(suite) and C(component)) and C(old), packages that are in the way.
  type: dict
"""


def package_plan(facts: Any, component: str, method: str, version: str = "") -> dict[str, Any]:
    """The filter; see the documentation above."""
    if not isinstance(facts, Mapping):
        raise AnsibleFilterError(f"package_plan wants a host's facts, not {type(facts).__name__}")
    return packages.package_plan(facts, str(component), str(method), str(version or ""))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"package_plan": package_plan}
