#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
short_description: The NVIDIA GPUs and the driver of a host
version_added: 0.1.0
description:
  - Tells which GPUs a host has, how they are and how they are connected, and which driver is loaded and which installed.
  - Where C(nvidia-smi) cannot tell, because no driver is loaded yet, the cards are read from the PCI bus, and
    RV(gpu_facts.source) says so. UUIDs and health are missing then, and for some cards the memory.
  - An answer that cannot be read is an entry of RV(gpu_facts.problems), never a failure.
  - Changes nothing.
options:
  proc_root:
    description: Where the host's procfs is mounted.
    type: path
    default: /proc
  timeout_seconds:
    description: How long C(nvidia-smi) may take for one answer. With many cards and without the persistence daemon it is slow.
    type: int
    default: 60
extends_documentation_fragment:
  - baremetal.llm.sysfs
  - baremetal.llm.attributes.linux
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.facts
author:
  - The baremetal.llm authors (@baremetal-llm)
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
        - C(link) holds the PCIe C(generation) and C(width) now and their C(generation_max) and C(width_max). An idle card lowers
          its generation to save power; a width below the maximum is a bad slot, riser or contact.
        - C(ecc) says whether error correction is C(enabled) now and after the next reboot (C(pending)), and counts errors
          that were C(corrected) and C(uncorrected) since the driver was loaded (C(volatile)) and in the card's life (C(aggregate)).
        - C(remapped_rows) (Ampere and newer) and C(retired_pages) (older cards) count what memory was taken out of use; with
          C(pending) the next reset of the card does it, with C(failed) it could not be done and the card has to be replaced.
        - C(minor) is the number in the name of its device file, and C(fabric_state) how far it got into a fabric of NVSwitches.
        - C(virtualization) says whether a virtual machine has it (V(Pass-Through), V(VGPU)), or gives parts of it to others (V(Host VGPU)).
        - C(compute_mode) says who may compute on it, C(recovery_action) what the driver asks for before it goes on, and C(license_status) whether the
          software of a virtual GPU is licensed.
        - C(mig_enabled), C(persistence_enabled) and C(temperature_celsius) are of this moment, and so is C(throttle_reasons),
          the list of what slows the card down (V(hw_slowdown), V(hw_thermal_slowdown), V(hw_power_brake_slowdown),
          V(sw_thermal_slowdown), V(sw_power_cap)); idleness and settings of somebody are none. So is C(memory_used_mib).
        - C(power_limit_watts) is what the card may take C(now) and by C(default), and the C(minimum) and C(maximum) that it can be set to.
        - C(memory_used_mib) is of this moment. C(clocks) holds the C(graphics_mhz) and C(memory_mhz) that the card is set to, else its highest ones, and
          C(firmware) is the version of its VBIOS.
        - C(clocks) holds C(graphics_mhz) and C(memory_mhz) that the card is set to, else its highest ones, and C(firmware) is the version of its VBIOS.
      type: list
      elements: dict
      sample:
        - index: 0
          uuid: GPU-5f1d8a52-8b2c-4c44-9a5c-0f0cfb2b2b5e
          name: Tesla V100-PCIE-16GB
          memory_mib: 16384
          compute_capability: "7.0"
          bus_id: "00000000:3B:00.0"
          link: {"generation": 3, "generation_max": 3, "width": 16, "width_max": 16}
          ecc:
            enabled: true
            pending: true
            volatile: {"corrected": 0, "uncorrected": 0}
            aggregate: {"corrected": 0, "uncorrected": 0}
          remapped_rows: {"corrected": null, "uncorrected": null, "pending": null, "failed": null}
          retired_pages: {"corrected": 0, "uncorrected": 0, "pending": false}
          mig_enabled: null
          persistence_enabled: true
          compute_mode: Default
          recovery_action: None
          license_status: null
          temperature_celsius: 35
          throttle_reasons: []
          memory_used_mib: 14210
          power_limit_watts: {"now": 250, "default": 250, "minimum": 100, "maximum": 250}
          clocks: {"graphics_mhz": 1380, "memory_mhz": 877}
          firmware: 88.00.48.00.02
    driver:
      description:
        - The version of the driver that is C(loaded) and of the one that is C(installed), the C(branch) (of the loaded one, if
          there is one), and as C(kernel_module) V(open) or V(proprietary). What is not there is V(null).
        - C(mismatch) is true where another version is loaded than is installed, which takes a reboot to mend.
      type: dict
      sample:
        loaded: 570.195.03
        installed: 570.195.03
        branch: "570"
        kernel_module: proprietary
        mismatch: false
    topology:
      description: Per card how it reaches the other cards and the network cards, in the words of C(nvidia-smi topo -m).
      type: dict
      sample: {"GPU0": {"GPU1": "NV2"}, "GPU1": {"GPU0": "NV2"}}
    p2p:
      description:
        - Per card whether it can read the memory of each other card directly, V(true) or V(false); V(null) where nothing says so.
      type: dict
      sample: {"GPU0": {"GPU1": true}, "GPU1": {"GPU0": true}}
    fabric:
      description:
        - What the card with the worst connection can exchange with the others of its host in each direction, C(mbps), and C(via)
          what; V(null) for a single card and where nothing says so. NVLinks of a card add up; PCIe counts with its width now.
      type: dict
      sample: {"via": "NVLink x2", "mbps": 400000}
    nvswitches:
      description:
        - How many NVSwitches are on the PCI bus. Those of HGX B200 and later are not there.
      type: int
      sample: 0
    device_nodes:
      description: The device files of the driver.
      type: list
      elements: str
      sample: [/dev/nvidia-uvm, /dev/nvidia0, /dev/nvidiactl]
    problems:
      description:
        - What is wrong, each with C(code) and C(detail). The codes are V(nvidia_smi_failed), V(nvidia_smi_unreadable) (it printed
          something else than it should), V(driver_mismatch) (loaded and installed driver differ), V(gpu_lost) (on the bus but
          not seen by the driver) and V(unknown_pci_device).
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
    llm_gpu_p2p:
      description: The dictionary RV(gpu_facts.p2p).
      type: dict
    llm_gpu_fabric:
      description: The dictionary RV(gpu_facts.fabric).
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import facts_for_roles, read_gpus
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs


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
    programs = Programs(module, module.params["timeout_seconds"])
    facts = read_gpus(programs, module.params["sysfs_root"], module.params["proc_root"])
    module.exit_json(changed=False, gpu_facts=facts, ansible_facts=facts_for_roles(facts))


if __name__ == "__main__":
    main()
