# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_plan
short_description: What has to be done to bring an NVIDIA driver to a host
version_added: 0.1.0
description:
  - Compares what is on a host with the driver that is wanted there, and says what to remove, to install and to build, or why it
    cannot be done. Touches nothing.
positional: gpus, wish, language
options:
  _input:
    description: What M(baremetal.llm.driver_facts) found.
    type: dict
    required: true
  gpus:
    description: What M(baremetal.llm.gpu_facts) found, its C(gpu_facts).
    type: dict
    required: true
  wish:
    description:
      - C(method), C(version) and the other settings of the role P(baremetal.llm.nvidia_driver#role), without their prefix; also
        C(capabilities) of the GPUs, C(distribution) and C(os_family) of the host, and C(bundled_files), the names of package files
        that the bundle holds.
    type: dict
    required: true
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Driver | Show what would be done
  ansible.builtin.debug:
    msg: "{{ __driver.driver_facts | baremetal.llm.driver_plan(__gpu.gpu_facts, {'method': 'runfile', 'version': '570.195.03'}) }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems), texts that say why it cannot be done; C(install), whether the driver has to be installed; C(packages) and
      C(build_packages), what it is made of and what building its modules needs; C(purge), C(uninstall_runfile) and C(repair), what comes
      before; C(build), whether only the module of the running kernel is missing; C(kernel_module), its kind; C(manager) of the
      packages; C(fabric_manager), its package, and C(install_fabric_manager).
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.install.driver import plan_driver


def driver_plan(
    host: dict[str, Any], gpus: dict[str, Any], wish: dict[str, Any], language: str = "en"
) -> dict[str, Any]:
    """What has to be done."""
    return plan_driver(host, gpus, wish, language)


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"driver_plan": driver_plan}
