#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
short_description: The NVIDIA GPUs and the driver of a host
version_added: 0.1.0
description:
  - Tells which GPUs a host has, how they are connected, and which driver is loaded and which installed.
  - Where C(nvidia-smi) cannot tell, because no driver is loaded yet, the cards are read from the PCI bus, and
    RV(gpu_facts.source) says so. UUIDs are missing then, and for some cards the memory.
  - Changes nothing.
options:
  sysfs_root:
    description: Where the host's sysfs is mounted.
    type: path
    default: /sys
  proc_root:
    description: Where the host's procfs is mounted.
    type: path
    default: /proc
  timeout_seconds:
    description: How long C(nvidia-smi) may take for one answer. With many cards and without the persistence daemon it is slow.
    type: int
    default: 60
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Can run in check mode and does the same there.
    support: full
  diff_mode:
    description: Shows what changed. Nothing does.
    support: none
  facts:
    description: Returns facts about the host.
    support: full
  platform:
    description: Where it runs.
    platforms: linux
    support: full
seealso:
  - plugin: baremetal.llm.predict_start
    plugin_type: filter
"""

EXAMPLES = r"""
- name: GPU | Read the cards
  baremetal.llm.gpu_facts:
  register: __gpu

- name: GPU | Show what is there
  ansible.builtin.debug:
    msg: "{{ __gpu.gpu_facts.gpus | map(attribute='name') | list }}, as {{ __gpu.gpu_facts.source }} says"

- name: GPU | Use the cards in a later play
  ansible.builtin.debug:
    msg: "{{ inventory_hostname }} has {{ ansible_facts['llm_gpus_found'] | length }} GPUs"
"""

RETURN = r"""
gpu_facts:
  description: What was found.
  returned: always
  type: dict
  contains:
    source:
      description: Where the cards were read, V(nvidia-smi) or V(pci). With V(none) there are none.
      type: str
      sample: nvidia-smi
    gpus:
      description:
        - The cards in the driver's order, each with C(index), C(uuid), C(name), C(memory_mib) (the total),
          C(compute_capability) and C(bus_id). What is not known is V(null).
      type: list
      elements: dict
      sample:
        - index: 0
          uuid: GPU-5f1d8a52-8b2c-4c44-9a5c-0f0cfb2b2b5e
          name: Tesla V100-PCIE-16GB
          memory_mib: 16384
          compute_capability: "7.0"
          bus_id: "00000000:3B:00.0"
    driver:
      description:
        - The version of the driver that is C(loaded) and of the one that is C(installed), the C(branch) (of the loaded one, if
          there is one), and as C(kernel_module) V(open) or V(proprietary). What is not there is V(null).
      type: dict
      sample: {"loaded": "570.195.03", "installed": "570.195.03", "branch": "570", "kernel_module": "proprietary"}
    topology:
      description: Per card how it reaches the other cards and the network cards, in the words of C(nvidia-smi topo -m).
      type: dict
      sample: {"GPU0": {"GPU1": "NV2"}, "GPU1": {"GPU0": "NV2"}}
    problems:
      description:
        - What is wrong, each with C(code) and C(detail). The codes are V(nvidia_smi_failed), V(driver_mismatch) (loaded and
          installed driver differ), V(gpu_lost) (on the bus but not seen by the driver) and V(unknown_pci_device).
      type: list
      elements: dict
      sample: []
ansible_facts:
  description: Facts for later plays.
  returned: always
  type: dict
  contains:
    llm_gpus_found:
      description: The list RV(gpu_facts.gpus).
      type: list
      elements: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils.gpu import (
    LATE_FIELD,
    QUERY_FIELDS,
    driver_facts,
    gpu_facts,
    pci_gpus,
)


def _run(module: AnsibleModule, command: list[str]) -> tuple[int, str, str]:
    """A command's exit status, output and complaint. One that hangs (a dead card can do that) is ended."""
    # timeout(1) is part of coreutils; run_command has no limit of its own.
    limit = module.get_bin_path("timeout")
    prefix = [limit, "-k", "5", str(module.params["timeout_seconds"])] if limit else []
    status, out, err = module.run_command([*prefix, *command], environ_update={"LC_ALL": "C", "LANG": "C"})
    if prefix and status in (124, 137):
        err = "no answer within {0} seconds".format(module.params["timeout_seconds"])
    return status, out, err


def _ask(module: AnsibleModule, smi: str) -> tuple[str | None, str]:
    """What nvidia-smi says about the cards, or why it says nothing."""
    fields = [theirs for theirs, _ours in QUERY_FIELDS]
    status, out, err = _run(module, [smi, "--query-gpu=" + ",".join(fields), "--format=csv"])
    if status != 0 and 'Field "{0}"'.format(LATE_FIELD) in out + err:
        fields.remove(LATE_FIELD)
        status, out, err = _run(module, [smi, "--query-gpu=" + ",".join(fields), "--format=csv"])
    if status != 0:
        return None, err.strip() or out.strip() or "exit status {0}".format(status)
    return out, ""


def main() -> None:
    """Read, and return what was read."""
    module = AnsibleModule(
        argument_spec={
            "sysfs_root": {"type": "path", "default": "/sys"},
            "proc_root": {"type": "path", "default": "/proc"},
            "timeout_seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    query: str | None = None
    topology: str | None = None
    failure = ""
    smi = module.get_bin_path("nvidia-smi")
    if smi:
        query, failure = _ask(module, smi)
        if query is not None:
            status, out, _err = _run(module, [smi, "topo", "-m"])
            topology = out if status == 0 else None
    facts: dict[str, Any] = gpu_facts(
        query,
        topology,
        pci_gpus(module.params["sysfs_root"]),
        driver_facts(module.params["proc_root"]),
        failure,
    )
    module.exit_json(changed=False, gpu_facts=facts, ansible_facts={"llm_gpus_found": facts["gpus"]})


if __name__ == "__main__":
    main()
