#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_facts
short_description: How the NVIDIA driver of a host got there, and what installing one would need
version_added: 0.1.0
description:
  - Tells which packages of a driver are installed, whether NVIDIA's own installer was used, whether an installation was interrupted,
    and whether modules can be built for the running kernel and would be loaded.
  - Changes nothing.
extends_documentation_fragment:
  - baremetal.llm.sysfs
  - baremetal.llm.attributes.linux
  - baremetal.llm.attributes.looks
author:
  - The baremetal.llm authors (@baremetal-llm)
seealso:
  - module: baremetal.llm.gpu_facts
  - module: baremetal.llm.install_decide
"""

EXAMPLES = r"""
- name: Driver | Look how the driver was installed
  baremetal.llm.driver_facts:
  register: __driver
"""

RETURN = r"""
driver_facts:
  description: What was found.
  returned: always
  type: dict
  contains:
    packages:
      description: Versions of the driver's installed packages, by name.
      type: dict
      sample: {"nvidia-kernel-dkms": "535.261.03-1"}
    held:
      description: Those of them that are held back from upgrades.
      type: list
      elements: str
    broken:
      description: Packages of whatever kind whose installation was interrupted.
      type: list
      elements: str
    runfile:
      description: Whether NVIDIA's own installer has been used.
      type: bool
    unowned:
      description: Whether there are files of a driver that neither a package nor the installer's record knows.
      type: bool
    kernel:
      description: The release of the running kernel.
      type: str
      sample: 6.1.0-40-amd64
    headers:
      description: Whether its headers are there.
      type: bool
    module:
      description: Whether a module of NVIDIA's is there for it.
      type: bool
    programs:
      description: Whether the programs that build modules are there.
      type: dict
      sample: {"dkms": false, "gcc": true, "make": true}
    secure_boot:
      description: Whether the firmware allows signed modules only.
      type: bool
    key:
      description:
        - Where the firmware allows signed modules only, the C(path) of the driver's module, its C(signer), and whether kernel or firmware know the key
          (C(known), V(null) where nobody tells). Empty where there is no such module.
      type: dict
      sample: {"path": "/lib/modules/6.1.0-40-amd64/updates/dkms/nvidia.ko", "signer": "DKMS module signing key", "known": false}
    libc6:
      description: The version of the package libc6; empty where there is none.
      type: str
      sample: 2.31-0ubuntu9.7
    kernel_gcc:
      description: The major release of the gcc that made the kernel; empty where it is not known.
      type: str
      sample: "12"
    gcc:
      description: The major release of the host's own gcc; empty where there is none.
      type: str
      sample: "11"
    kernel_clang:
      description: The major release of the clang that made the kernel; empty where another compiler did, or where it is not known.
      type: str
      sample: ""
    clang:
      description: The major release of the host's own clang; empty where there is none.
      type: str
      sample: ""
"""

import platform

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._driver_host import (
    compilers,
    host_facts,
    list_packages,
    module_key,
)
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs

_PROGRAMS = ("gcc", "make", "dkms")


def main() -> None:
    """Read, and return what was read."""
    module = AnsibleModule(argument_spec={"sysfs_root": {"type": "path", "default": "/sys"}}, supports_check_mode=True)
    programs = {name: bool(module.get_bin_path(name)) for name in _PROGRAMS}
    asked, kernel = Programs(module, 60), platform.release()
    facts = host_facts(list_packages(asked), kernel, programs, sysfs_root=module.params["sysfs_root"])
    key = module_key(asked, kernel) if facts["secure_boot"] else {}
    module.exit_json(changed=False, driver_facts={**facts, **compilers(asked, kernel), "key": key})


if __name__ == "__main__":
    main()
