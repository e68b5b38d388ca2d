# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.install import packages

DOCUMENTATION = r"""
name: missing_packages
short_description: Which packages a host lacks, as its package manager wants them named
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - Compares wanted packages with those that are installed. A version is the publisher's, without epoch and the distribution's part.
positional: installed, family
options:
  _input:
    description: Names of packages, or C(NAME=VERSION).
    type: list
    elements: str
    required: true
  installed:
    description: Lines of name, V(installed) (else it is not) and version, as C(dpkg-query) and C(rpm) print them on demand.
    type: list
    elements: str
    required: true
  family:
    description: Kind of the packages.
    type: str
    choices: [deb, rpm]
    default: deb
"""

EXAMPLES = r"""
- name: Packages | Show what is missing
  ansible.builtin.debug:
    msg: "{{ ['docker.io=20.10.24', 'iptables'] | baremetal.llm.missing_packages(['iptables installed 1.8.9-2']) }}"
"""

RETURN = r"""
_value:
  description: What to ask the package manager for, such as V(docker.io=*20.10.24*).
  type: list
  elements: str
"""


def missing_packages(wanted: object, installed: object, family: str = "deb") -> list[str]:
    """The filter; see the documentation above."""
    return packages.missing_packages(_texts(wanted), _texts(installed), family)


def _texts(value: object) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise AnsibleFilterError(f"missing_packages wants lists, not {type(value).__name__}")
    return [str(item) for item in value]


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"missing_packages": missing_packages}
