# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a finding means: what refuses and what only warns is said in one table, and an inventory may say otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

ERROR, WARNING, IGNORE = "error", "warning", "ignore"

# What a rule yields: a problem of the catalogue with its severity, the variable that moves its limit, and its hosts.
Finding = dict[str, Any]
Findings = Iterator[Finding]

# A variable that begins so is a setting of the host's engine.
OF_ENGINE = "ENGINE_"


class Check(NamedTuple):
    """What a finding means, and the variable that moves its limit, where there is one."""

    severity: str
    limit: str = ""


CHECKS: dict[str, Check] = {
    # Whether anything can be said of a host
    "facts_garbage": Check(ERROR),
    # System
    "hosts_same_machine_id": Check(WARNING),
    "hosts_same_name": Check(WARNING),
    "host_in_wsl": Check(ERROR),
    "host_in_container": Check(ERROR, "nvidia_driver_method"),
    "cpu_features_missing": Check(WARNING),
    "kernel_locked": Check(ERROR),
    "kernel_realtime": Check(ERROR, "nvidia_driver_method"),
    "clocksource_slow": Check(WARNING),
    "cpu_held_slow": Check(WARNING),
    "numa_balancing_on": Check(WARNING),
    "hugepages_reserved": Check(WARNING),
    "clock_unsynchronized": Check(WARNING),
    "resolver_missing": Check(WARNING),
    "packet_filters_mixed": Check(WARNING),
    "packet_filter_refuses": Check(WARNING),
    "proxy_hides_host": Check(WARNING),
    "package_sources_conflict": Check(ERROR, "docker_method"),
    "package_source_unusable": Check(ERROR),
    "packages_unfinished": Check(ERROR),
    "packages_excluded": Check(ERROR),
    "python_without_apt": Check(WARNING),
    "reboot_by_upgrades": Check(WARNING),
    "gpus_given_by_others": Check(WARNING),
    "system_not_supported": Check(ERROR, "preflight_supported_systems"),
    "system_family_differs": Check(ERROR),
    "python_without_dnf": Check(WARNING),
    "architecture_not_supported": Check(ERROR, "preflight_supported_architectures"),
    "kernel_too_old": Check(ERROR, "preflight_kernel_minimum"),
    "selinux_labels": Check(WARNING),
    "clock_of_controller": Check(ERROR),
    "clock_differs": Check(ERROR, "preflight_clock_limit_seconds"),
    "mount_noexec": Check(ERROR, "llm_host_dir"),
    "mount_read_only": Check(ERROR, "llm_host_dir"),
    "mount_missing": Check(ERROR, "llm_host_dir"),
    "disk_temporary": Check(WARNING, "llm_host_dir"),
    "selinux_host_dir": Check(WARNING, "llm_host_dir"),
    "host_dir_shared": Check(ERROR, "llm_host_dir"),
    "host_dir_in_memory": Check(WARNING, "llm_host_dir"),
    "kernel_modules_gone": Check(ERROR),
    "kernel_without_driver": Check(WARNING),
    "boot_too_full": Check(ERROR),
    "apparmor_parser_missing": Check(ERROR),
    "fapolicyd_active": Check(ERROR),
    "host_may_sleep": Check(WARNING),
    # The engine that is there, and what stands in the way of one
    "engine_by_snap": Check(ERROR, "docker_method"),
    "engine_rootless": Check(ERROR, "docker_method"),
    "engine_is_podman": Check(ERROR),
    "engine_failed": Check(ERROR, "docker_method"),
    "unit_masked": Check(ERROR),
    "toolkit_too_old": Check(ERROR, "nvidia_container_toolkit_method"),
    "toolkit_settings": Check(ERROR),
    "engine_flags_collide": Check(ERROR),
    "engine_packages_conflict": Check(ERROR, "docker_method"),
    "engine_swarm": Check(WARNING),
    "engine_userns_remap": Check(WARNING),
    "engine_pools_overlap": Check(ERROR, "docker_address_pools"),
    "engine_images_elsewhere": Check(WARNING, "docker_data_root"),
    "engine_storage_driver": Check(WARNING),
    "filesystem_without_ftype": Check(ERROR, "docker_data_root"),
    "engine_filesystem": Check(ERROR, "docker_data_root"),
    "engine_runtime_missing": Check(ERROR),
    "engine_zone_conflict": Check(ERROR),
    "engine_proxy_hides": Check(WARNING, "docker_registry_mirrors"),
    "engine_too_old": Check(ERROR, "docker_method"),
    # Room
    "disk_too_small": Check(ERROR, "preflight_disk_reserve_gib"),
    "inodes_too_few": Check(ERROR),
    "memory_too_small": Check(ERROR, "preflight_memory_reserve_gib"),
    "memory_below_weights": Check(WARNING),
    "shm_too_small": Check(WARNING, "ray_object_store_memory_gib"),
    # GPUs and driver
    "no_gpu_found": Check(ERROR),
    "image_platform": Check(ERROR),
    "image_without_cuda": Check(ERROR),
    "image_without_code": Check(ERROR),
    "image_needs_driver": Check(ERROR),
    "gpu_count_differs": Check(ERROR, "llm_gpus"),
    "gpu_differs": Check(ERROR, "llm_gpus"),
    "too_few_gpus_found": Check(ERROR, OF_ENGINE + "tensor_parallel_size"),
    "gpus_fewer_than_twins": Check(WARNING, "llm_gpus"),
    "gpu_lost": Check(ERROR),
    "gpu_inforom": Check(WARNING),
    "gpu_removed_by_rule": Check(ERROR),
    "gpu_driver_said": Check(ERROR),
    "gpu_problem": Check(ERROR),
    "unknown_pci_device": Check(WARNING, "llm_gpus"),
    "nvidia_smi_failed": Check(WARNING, "nvidia_driver_method"),
    "nvidia_smi_hangs": Check(ERROR),
    "nvidia_smi_unreadable": Check(WARNING, "nvidia_driver_method"),
    "driver_mismatch": Check(WARNING, "nvidia_driver_method"),
    "driver_differs": Check(ERROR, "nvidia_driver_method"),
    "gpu_ecc_errors": Check(ERROR, "preflight_ecc_uncorrected_limit"),
    "gpu_memory_worn": Check(ERROR),
    "gpu_reset_pending": Check(WARNING),
    "gpu_throttled": Check(WARNING),
    "gpu_link_narrow": Check(WARNING),
    "module_key_rejected": Check(ERROR, "nvidia_driver_signed_modules_enabled"),
    "driver_blocked": Check(ERROR),
    "driver_options": Check(WARNING),
    "driver_library_foreign": Check(WARNING),
    "driver_unfit": Check(ERROR, "nvidia_driver_method"),
    "driver_not_held": Check(WARNING, "nvidia_driver_method"),
    "gpu_bound_elsewhere": Check(ERROR),
    "gpu_without_window": Check(ERROR),
    "iommu_translates": Check(WARNING),
    "pci_redirects": Check(WARNING),
    "fabric_manager_missing": Check(ERROR, "nvidia_driver_fabric_manager"),
    "fabric_manager_differs": Check(ERROR, "nvidia_driver_fabric_manager"),
    "fabric_not_ready": Check(ERROR),
    "gpu_mig_enabled": Check(ERROR),
    "gpu_persistence_off": Check(WARNING),
    "gpu_compute_mode": Check(WARNING),
    "gpu_recovery_needed": Check(ERROR),
    "gpu_unlicensed": Check(WARNING),
    "gpu_power_limited": Check(WARNING, "nvidia_driver_power_limit_watts"),
    "gpu_ecc_mode": Check(WARNING),
    "gpu_host_of_vgpus": Check(ERROR, "nvidia_driver_method"),
    "gpu_memory_held": Check(WARNING),
    "gpu_xid_logged": Check(WARNING),
    "nvlink_fewer": Check(WARNING),
    # Network
    "interface_missing": Check(ERROR, "llm_cluster_interface"),
    "interface_unusable": Check(ERROR, "llm_cluster_interface"),
    "interface_outside_network": Check(ERROR, "llm_cluster_interface"),
    "network_malformed": Check(ERROR, "llm_cluster_network"),
    "no_shared_network": Check(ERROR, "llm_cluster_network"),
    "no_shared_network_wanted": Check(ERROR, "llm_cluster_interface"),
    "not_in_network": Check(ERROR, "llm_cluster_network"),
    "network_ipv6": Check(ERROR, "llm_cluster_network"),
    "same_address": Check(ERROR),
    "address_on_loopback": Check(ERROR, "llm_cluster_interface"),
    "cards_share_subnet": Check(WARNING, "llm_cluster_interface"),
    "rdma_unused": Check(WARNING),
    "rdma_port_waiting": Check(WARNING),
    "rdma_far_from_gpus": Check(WARNING),
    "gpudirect_missing": Check(WARNING),
    "link_speed_differs": Check(WARNING),
    "bond_member_down": Check(WARNING),
    "storage_shares_fabric": Check(WARNING, "llm_cluster_network"),
    "mtu_differs": Check(WARNING),
    "host_name_unknown": Check(WARNING),
    "host_name_elsewhere": Check(WARNING),
    # The Python environment of the engine
    "venv_unusable": Check(ERROR, OF_ENGINE + "python"),
    "venv_other_release": Check(ERROR, OF_ENGINE + "version"),
    # The Python on which an environment is made
    "venv_no_base_python": Check(ERROR, OF_ENGINE + "base_python"),
    "venv_other_python": Check(ERROR, OF_ENGINE + "base_python"),
    # Others on the host
    "port_taken": Check(ERROR),
    "service_foreign": Check(ERROR),
    "gpu_busy": Check(ERROR),
    "server_crashing": Check(WARNING),
    # The inventory's own word about this table
    "check_unknown": Check(ERROR, "preflight_severities"),
}
