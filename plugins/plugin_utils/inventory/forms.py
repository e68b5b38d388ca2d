# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What values of variables have to look like before they get into another language: bounds of numbers, forms of paths and of texts.

A variable is found by the end of its name, the first that fits; parts of lists and mappings by their path (``gateway_keys[0].name``).
"""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._own_files import SYSTEM
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import KEY_NAME


class Bounds(NamedTuple):
    """The least and the most of a number."""

    ending: str  # of the name
    low: float
    high: float
    low_is_excluded: bool = False


_MILLION = 1_000_000
# What HAProxy's timeouts in milliseconds hold in 31 bits, and more than anybody waits for.
_MOST_SECONDS = 2_000_000
BOUNDS = (
    Bounds("_gpu_memory_utilization", 0, 1, low_is_excluded=True),
    Bounds("_max_model_len", 1, 1_000 * _MILLION),
    Bounds("_max_num_seqs", 1, _MILLION),
    Bounds("vllm_max_num_batched_tokens", 1, 1_000 * _MILLION),
    Bounds("vllm_num_speculative_tokens", 1, 1000),
    Bounds("vllm_benchmark_requests", 1, _MILLION),
    Bounds("vllm_benchmark_concurrency", 1, 100_000),
    Bounds("vllm_benchmark_input_tokens", 1, 100 * _MILLION),
    Bounds("vllm_benchmark_output_tokens", 1, 100 * _MILLION),
    Bounds("_probe_failures", 1, 1000),
    Bounds("llama_cpp_ctx_size", 1, 1_000 * _MILLION),
    Bounds("llama_cpp_parallel", 1, _MILLION),
    Bounds("lmdeploy_tp", 1, 1024),
    Bounds("lmdeploy_session_len", 1, 1_000 * _MILLION),
    Bounds("lmdeploy_max_batch_size", 1, _MILLION),
    Bounds("lmdeploy_cache_max_entry_count", 0, 1, True),
    Bounds("lmdeploy_quant_policy", 0, 8),
    Bounds("ollama_context_length", 1, 1_000 * _MILLION),
    Bounds("ollama_num_parallel", 1, 1024),
    Bounds("sglang_tp_size", 1, 1024),
    Bounds("sglang_context_length", 1, 1_000 * _MILLION),
    Bounds("sglang_max_running_requests", 1, _MILLION),
    Bounds("sglang_mem_fraction_static", 0, 1, low_is_excluded=True),
    Bounds("llm_gpu_count", 1, 1024),
    Bounds("llm_on_request_queue", 1, 10_000),
    Bounds("llm_on_request_wait_seconds", 1, 86_400),
    # 0 is never, and no time at all.
    Bounds("llm_on_request_idle_seconds", 0, _MILLION),
    Bounds("llm_on_request_stay_seconds", 0, 86_400),
    Bounds("accept_seconds", 1, 86_400),
    Bounds("images_keep_previous", 0, 100),
    Bounds("llm_cleanup_keep_days", 0, 3650),
    Bounds("models_keep_previous", 0, 100),
    Bounds("vllm_canary_slower_percent", 1, 100),
    Bounds("llm_fanout_limit_mbps", 0, _MILLION),
    Bounds("llm_fanout_writers", 1, 1024),
    Bounds("accept_memory_share", 0, 1, low_is_excluded=True),
    Bounds("accept_dcgm_level", 0, 4),
    Bounds("accept_slower_percent", 1, 100),
    # 0 sets nothing. Whether the card takes the figure says its driver.
    Bounds("nvidia_driver_power_limit_watts", 0, 10_000),
    Bounds("_parallel_size", 1, 65536),
    # For NCCL: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html, the product of both is 64 at most.
    Bounds("llm_nccl_socket_threads", 1, 16),
    Bounds("llm_nccl_nsocks_per_thread", 1, 64),
    # 0 is none.
    Bounds("gateway_http_port", 0, 65535),
    Bounds("web_ui_ldap.port", 1, 65535),
    Bounds("_port", 1, 65535),
    # HAProxy takes 0 for no limit, or refuses everything.
    Bounds("gateway_max_connections", 10, _MILLION),
    Bounds("gateway_connections_per_source", 1, _MILLION),
    Bounds("gateway_requests_per_replica", 1, _MILLION),
    Bounds("gateway_queue_requests", 1, _MILLION),
    Bounds("gateway_memory_mib", 256, 1 << 24),
    Bounds("gateway_retry_after_seconds", 0, _MOST_SECONDS),
    Bounds("gateway_slow_start_seconds", 0, _MOST_SECONDS),
    Bounds("gateway_drain_seconds", 0, _MOST_SECONDS),
    *(Bounds(f"gateway_{what}_seconds", 1, _MOST_SECONDS) for what in ("answer", "check", "queue", "request")),
    Bounds("s_per_minute", 0, 2_000 * _MILLION),
    Bounds("bundle_network_gbit_per_second", 0, 10_000, low_is_excluded=True),
    Bounds("docker_address_pools[].size", 1, 128),
    Bounds("docker_log_max_files", 1, 1000),
    Bounds("monitoring_backup_days", 0, 36500),
    Bounds("web_ui_backup_copies", 0, 10_000),
    Bounds("preflight_ecc_uncorrected_limit", 0, 1_000 * _MILLION),
    Bounds("ray_num_cpus", 0, 65536),
    # -1 is no limit; more than pid_max of a 64-bit Linux there never are.
    Bounds("ray_pids_limit", -1, 1 << 22),
    Bounds("_seconds", 0, _MOST_SECONDS),
    Bounds("_gib", 0, 1 << 30),
    Bounds("_mib", 0, 1 << 40),
    # The most that Docker takes.
    Bounds("_uid", 0, 2147483647),
)

# Folders and programs on hosts: they stand in units, in volumes HOST:CONTAINER and in commands, where blanks, colons, quotes, % and $ say
# something else. A folder is no part of another program's.
HOST_PATHS = frozenset(
    (
        *(
            "docker_data_root",
            "llm_host_dir",
            "models_dir",
            "monitoring_data_dir",
            "monitoring_dir",
            "preflight_sysfs_root",
        ),
        *("vllm_base_python", "vllm_python", "web_ui_backup_dir", "web_ui_data_dir"),
    )
)
# Folders of the controller in which runs write.
WRITTEN_ON_CONTROLLER = frozenset(
    ("llm_backup_file", "llm_bundle_dir", "llm_report_dir", "llm_restore_dir", "llm_secrets_dir", "llm_sources_dir")
)
_HOST_PATH = re.compile(r"(?!.*/\.\.?(?:/|$))(?:/[\w.+@-]+)+/?")
# Docker lies where it always did, a disk may be mounted there itself, and of the last one only facts are read.
_NOT_TO_BE_TAKEN = SYSTEM - {"/var/lib/docker", "/mnt", "/media", "/sys"}
# Texts in which lines may end: a prompt, keys, and what vLLM gets as JSON, as YAML or as one quoted word.
SEVERAL_LINES = frozenset(
    (
        "llama_cpp_report_prompt",
        "lmdeploy_report_prompt",
        "ollama_report_prompt",
        "sglang_report_prompt",
        "triton_report_prompt",
        "vllm_report_prompt",
        "llm_bundle_allowed_signers",
        "vllm_options",
    )
)
# What no line of a file for another program, no argument and no name may hold: control characters, and the line ends of Unicode.
_CONTROL = re.compile("[\x00-\x1f\x7f\x80-\x9f\u2028\u2029]")

# An IPv4 address, or a name, whose last part is no number (RFC 1123, 2.1).
_HOST = r"(?:\d{1,3}(?:\.\d{1,3}){3}|(?!(?:.*\.)?\d+$)[A-Za-z0-9][A-Za-z0-9._-]{0,252})"
_ADDRESS = rf"\*|{_HOST}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
# Where a program listens, in numbers.
_LISTENS = r"\*|\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
# As an argument of apt, dnf and docker: no option, and one word.
_PACKAGE = r"[A-Za-z0-9@][A-Za-z0-9.+:_~=*@/-]*"
_VERSION = r"[A-Za-z0-9][A-Za-z0-9.+:_~-]*"
_IMAGE = r"[A-Za-z0-9\[][A-Za-z0-9._:/@\[\]-]*"
# In apt's sources, in dnf's, and as an address of a registry. dnf replaces $basearch.
_URL = r"[a-z][a-z+.-]*:/[A-Za-z0-9._~:/?#@!$&()*+,;=%\[\]-]*"
# Of a hub or of a host. What looks like an address is refused by a rule of its own, and vLLM has names such as [ngram].
_MODEL = r"(?!.*/\.\.?(?:/|$))(?:/[\w.+@-]+)+/?|[A-Za-z0-9][\w.-]*(?:/[\w-][\w.-]*)*|\[\w+\]|[A-Za-z][\w+.-]*://.*"
# Forms that several variables have.
_ALIKE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        _PACKAGE,
        "python3-venv",
        (
            *("bundle_artefacts[].packages[]", "bundle_extra_packages[]", "common_packages[]", "docker_packages[]"),
            *("nvidia_container_toolkit_packages[]", "nvidia_driver_build_packages[]", "nvidia_driver_package_names[]"),
            "nvidia_driver_fabric_manager_package",
        ),
    ),
    (_VERSION, "28.5.1", ("docker_version", "nvidia_container_toolkit_version", "nvidia_driver_version")),
    (
        _IMAGE,
        "vllm/vllm-openai:v0.8.5.post1",
        (
            *("bundle_images[].reference", "images_references[]", "monitoring_dcgm_image", "monitoring_grafana_image"),
            *(
                "nvidia_container_toolkit_verify_image",
                "llama_cpp_image",
                "lmdeploy_image",
                "ollama_image",
                "sglang_image",
                "triton_image",
                "vllm_image",
                "web_ui_image",
            ),
        ),
    ),
    (
        _URL,
        "https://mirror.example.org/debian",
        (
            *("docker_registry_mirrors[]", "docker_repository_key", "docker_repository_url"),
            *("nvidia_container_toolkit_repository_url", "nvidia_driver_repository_url"),
        ),
    ),
    # apt takes the path of a file as well.
    (
        rf"{_URL}|/[\w./+-]+",
        "https://mirror.example.org/gpg",
        ("nvidia_container_toolkit_repository_key", "nvidia_driver_repository_key"),
    ),
    (
        _MODEL,
        "Qwen/Qwen2.5-14B-Instruct",
        (
            *("vllm_lora_adapters[].base_model", "vllm_lora_adapters[].model"),
            *("llama_cpp_draft_model", "llama_cpp_model", "lmdeploy_model", "ollama_model", "sglang_model"),
            *("triton_model", "vllm_model", "vllm_speculative_model", "vllm_tokenizer"),
        ),
    ),
    (_HOST_PATH.pattern, "/srv/llm", ("monitoring_backup_dir", "monitoring_logs_ca_file")),
)
# What a container may be given: another name is refused by the engine when the container before is gone. Source: capabilities(7) of Linux 5.9, getrlimit(2).
_CAPABILITY = (
    "AUDIT_CONTROL|AUDIT_READ|AUDIT_WRITE|BLOCK_SUSPEND|BPF|CHECKPOINT_RESTORE|CHOWN|DAC_OVERRIDE|DAC_READ_SEARCH|FOWNER|FSETID|IPC_LOCK|IPC_OWNER|KILL|LEASE"
    "|LINUX_IMMUTABLE|MAC_ADMIN|MAC_OVERRIDE|MKNOD|NET_ADMIN|NET_BIND_SERVICE|NET_BROADCAST|NET_RAW|PERFMON|SETFCAP|SETGID|SETPCAP|SETUID|SYS_ADMIN|SYS_BOOT"
    "|SYS_CHROOT|SYS_MODULE|SYS_NICE|SYS_PACCT|SYS_PTRACE|SYS_RAWIO|SYS_RESOURCE|SYS_TIME|SYS_TTY_CONFIG|SYSLOG|WAKE_ALARM"
)
_ULIMIT = "core|cpu|data|fsize|locks|memlock|msgqueue|nice|nofile|nproc|rss|rtprio|rttime|sigpending|stack"
_GGUF_FILE = (r"(?!(?:.*/)?\.\.?/)[\w.+@-]+(?:/[\w.+@-]+)*\.gguf", "Qwen3-8B-Q4_K_M.gguf")
_PROGRAM_TEXTS = {
    "docker_address_pools[].base": (r"[0-9A-Fa-f.:]+/[0-9]{1,3}", "172.30.0.0/16"),
    "ray_capabilities[]": (rf"(?:CAP_)?(?:ALL|{_CAPABILITY})", "DAC_OVERRIDE"),
    "ray_ulimits[]": (rf"(?:{_ULIMIT}):(?:-1|[0-9]{{1,18}})(?::(?:-1|[0-9]{{1,18}}))?", "nofile:1048576:1048576"),
    # Of a header (RFC 9110), as one word of HAProxy's configuration.
    "gateway_affinity_header": (r"[A-Za-z0-9-]{0,64}", "X-Session-Id"),
    # HAProxy asks no name server: one that does not answer would keep it from starting.
    "gateway_address": (_LISTENS, "10.10.0.5"),
    "gateway_names[]": (rf"{_HOST}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", "llm.example.org"),
    "gateway_virtual_address": (r"[0-9.]{0,15}", "10.10.0.50"),
    # Exactly as it is written in a request's line.
    "gateway_paths[]": (r"/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-]", "/v1/audio/speech"),
    "docker_log_max_size": (r"[1-9][0-9]*[bkmgBKMG]?", "50m"),
    "llm_cluster_interface": (r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}", "eth1"),
    "monitoring_address": (_ADDRESS, "10.10.0.5"),
    "monitoring_listen_address": (_ADDRESS, "127.0.0.1"),
    "ray_dashboard_host": (_ADDRESS, "127.0.0.1"),
    # Open WebUI reads who somebody is from there.
    "web_ui_oidc.provider_url": (
        r"https://[A-Za-z0-9.\[\]:_-]+/[A-Za-z0-9._~:/?@!&=+,%-]*",
        "https://login.example.org/.well-known/openid-configuration",
    ),
    "web_ui_ldap.host": (rf"{_HOST}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", "ldap.example.org"),
    "web_ui_ldap.username_attribute": (r"[A-Za-z0-9][A-Za-z0-9.-]{0,63}", "uid"),
    "web_ui_ldap.mail_attribute": (r"[A-Za-z0-9][A-Za-z0-9.-]{0,63}", "mail"),
    # All that vLLM has below a slash is its whole API: what stops or changes the model, too.
    **dict.fromkeys(("llama_cpp_draft_file", "llama_cpp_file", "ollama_file"), _GGUF_FILE),
    "llama_cpp_version": (r"b?[0-9]{4,6}", "b9603"),
    "vllm_api_paths[]": (r"/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-]/?", "/tokenize"),
}
FORMS = {
    **{name: (re.compile(pattern), example) for pattern, example, names in _ALIKE for name in names},
    **{name: (re.compile(pattern), example) for name, (pattern, example) in _PROGRAM_TEXTS.items()},
    "gateway_keys[].name": (KEY_NAME, "alice"),
}
# Resource limits in units, by directive.
_LIMIT, LIMIT_EXAMPLE = (
    re.compile(r"(?:Limit|Memory|Tasks|CPU|IO|OOM)[A-Za-z]*=-?[A-Za-z0-9][A-Za-z0-9:.%-]*"),
    "LimitNOFILE: 16384",
)
_INDEX = re.compile(r"\[\d+\]")


def general(name: str) -> str:
    """The name of a value, whichever part of a list it is: ``gateway_keys[].name``."""
    return _INDEX.sub("[]", name)


def bounds_of(name: str) -> Bounds | None:
    """The bounds of a number."""
    return next((each for each in BOUNDS if general(name).endswith(each.ending)), None)


def has_controls(name: str, text: str) -> bool:
    """Whether a text holds what would end a line of a file, or a word, in another language."""
    return general(name) not in SEVERAL_LINES and bool(_CONTROL.search(text))


def is_limit(directive: str, value: object) -> bool:
    """Whether a directive of a unit is a limit of resources, and no program to be started."""
    return value is not None and bool(_LIMIT.fullmatch(f"{directive}={value}"))


def is_host_path(text: str) -> bool:
    """Whether a path is one that a host can have: absolute, no folder of the system, and without what programs read as something else."""
    return bool(_HOST_PATH.fullmatch(text)) and text.rstrip("/") not in _NOT_TO_BE_TAKEN


def is_of_system(text: str) -> bool:
    """Whether a path names a folder of the system, which is no place for what others keep."""
    return text.startswith("/") and "/" + posixpath.normpath(text).lstrip("/") in _NOT_TO_BE_TAKEN


def example_for(name: str, text: str) -> str:
    """An example of the form that a text does not have; empty where it has its form."""
    pattern, example = FORMS.get(general(name), (None, ""))
    return "" if pattern is None or not text or pattern.fullmatch(text) else example
