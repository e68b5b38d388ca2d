#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_facts
short_description: Memory, clock, name, ports in use and foreign services of a host
version_added: 0.1.0
description:
  - Reads what can stand in the way of serving a model, from C(/proc) and C(/sys); neither iproute2 nor any other tool is needed.
    Where Docker and C(nvidia-smi) are there, they name the containers and the processes on the GPUs.
  - The controller measures how far the host's clock is off from its own.
options:
  proc_root:
    description: Where the host's procfs is mounted.
    type: path
    default: /proc
  sysfs_root:
    description: Where the host's sysfs is mounted.
    type: path
    default: /sys
  timeout_seconds:
    description: How long C(docker) and C(nvidia-smi) may take for an answer. Without one, it is as if they were not there.
    type: int
    default: 20
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.facts
  - baremetal.llm.attributes.controller
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  action:
    description: Has a part that runs on the controller.
"""

EXAMPLES = r"""
- name: Host | Look what is there
  baremetal.llm.host_facts:
  register: __host

- name: Host | Show who listens on the port of the API
  ansible.builtin.debug:
    msg: "{{ __host.host_facts.listeners | selectattr('port', 'equalto', 8000) }}"
"""

RETURN = r"""
ansible_facts:
  description: What the roles read.
  returned: always
  type: dict
  contains:
    llm_memory_mib:
      description: The host's memory.
      type: int
      sample: 515680
host_facts:
  description: What was found.
  returned: always
  type: dict
  contains:
    kernel:
      description: Release of the kernel.
      type: str
      sample: 6.1.0-18-amd64
    memory:
      description: The C(total_mib), C(available_mib), C(swap_mib) and C(hugepages_mib), which are kept back for programs that ask for them.
      type: dict
      sample: {"total_mib": 515680, "available_mib": 498000, "swap_mib": 0, "hugepages_mib": 0}
    shm_mib:
      description: Size of C(/dev/shm).
      type: int
      sample: 257840
    clock:
      description:
        - How many seconds the host's clock is ahead of the controller's (C(offset_seconds)), and how uncertain that is
          (C(uncertainty_seconds)), which depends on how long the host took for its answer.
      type: dict
      sample: {"offset_seconds": 0.02, "uncertainty_seconds": 0.4}
    name:
      description: The host's own C(name), and the C(addresses) that it stands for.
      type: dict
      sample: {"name": "gpu01", "addresses": ["10.0.0.1"]}
    selinux:
      description: V(enforcing), V(permissive) or V(disabled).
      type: str
      sample: disabled
    docker_data_root:
      description: Where the engine's C(daemon.json) puts images; empty where it says nothing.
      type: str
      sample: ""
    docker_selinux_enabled:
      description: Whether C(daemon.json) asks for labels of SELinux.
      type: bool
      sample: false
    listeners:
      description: Who listens on ports of TCP, with C(port), C(pid), C(process), C(command) and C(container), the container's name.
      type: list
      elements: dict
      sample: []
    services:
      description: Processes that serve models or belong to Ray, with C(service), C(pid), C(process), C(command) and C(container).
      type: list
      elements: dict
      sample: []
    gpu_processes:
      description: Processes on the GPUs, with C(pid), C(process), C(used_mib) and C(container).
      type: list
      elements: dict
      sample: []
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._host import (
    host_facts,
    parse_containers,
    parse_gpu_processes,
)


def _answer(module: AnsibleModule, program: str, *arguments: str) -> str:
    """What a program prints; nothing if it is not there, fails, or takes too long."""
    path = module.get_bin_path(program)
    limit = module.get_bin_path("timeout")
    if not path or not limit:
        return ""
    command = [limit, "-k", "5", str(module.params["timeout_seconds"]), path, *arguments]
    status, out, _err = module.run_command(command, environ_update={"LC_ALL": "C", "LANG": "C"})
    return str(out) if status == 0 else ""


def main() -> None:
    """Read, and return what was read."""
    module = AnsibleModule(
        argument_spec={
            "proc_root": {"type": "path", "default": "/proc"},
            "sysfs_root": {"type": "path", "default": "/sys"},
            "timeout_seconds": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    gpu_processes = _answer(
        module,
        "nvidia-smi",
        "--query-compute-apps=pid,process_name,used_memory",
        "--format=csv,noheader,nounits",
    )
    containers = _answer(module, "docker", "ps", "--no-trunc", "--format", "{{.ID}} {{.Names}}")
    facts: dict[str, Any] = host_facts(
        module.params["proc_root"],
        module.params["sysfs_root"],
        parse_containers(containers),
        parse_gpu_processes(gpu_processes),
    )
    # The time comes last: nothing but the way back lies between it and the controller's.
    module.exit_json(
        changed=False,
        host_facts={**facts, "time": time.time()},
        ansible_facts={"llm_memory_mib": facts["memory"]["total_mib"]},
    )


if __name__ == "__main__":
    main()
