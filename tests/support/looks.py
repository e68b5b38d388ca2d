"""What gather finds on a host that serves, as plain facts, for tests and benchmarks of what is made of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import Asked, Looked, looked_at

# The hosts' clock at the time of the look.
NOW = 1_790_000_000.0
GIB = 1 << 30
CARD = {
    "index": 0,
    "uuid": "GPU-1",
    "name": "Tesla V100-PCIE-16GB",
    "memory_mib": 16384,
    "compute_capability": "7.0",
    "bus_id": "00000000:3B:00.0",
    "link": {"generation": 3, "generation_max": 3, "width": 16, "width_max": 16},
    "ecc": {"enabled": True, "pending": True, "volatile": {"corrected": 0, "uncorrected": 0}, "aggregate": {}},
    "temperature_celsius": 41,
    "throttle_reasons": [],
    "memory_used_mib": 14336,
    "power_limit_watts": {"now": 250, "default": 250, "minimum": 100, "maximum": 250},
    "clocks": {"graphics_mhz": 1380, "memory_mhz": 877},
    "firmware": "88.00.48.00.02",
}
FIGURES = {"running": 2.0, "waiting": 1.0, "kv_use": 0.34, "prompt_tokens": 50.0, "generated_tokens": 900.0}


def container(name: str, **changes: Any) -> dict[str, Any]:
    made = {
        "name": name,
        "image": "vllm/vllm-openai:v0.8.5",
        "image_id": "sha256:" + "ab" * 32,
        "state": "running",
        "exit_code": 0,
        "out_of_memory": False,
        "restarts": 0,
        "started": NOW - 11520,
        "finished": None,
        "labels": {"baremetal.llm.deployment": "qwen"},
        "arguments": {},
        "environment": {"NCCL_SOCKET_IFNAME": "=eth1", "VLLM_HOST_IP": "10.0.0.1"},
    }
    return {**made, **changes}


def facts(head: bool = True, deployment: str = "qwen") -> dict[str, Any]:
    """The facts of a host of two: its head serves, the other takes part by Ray."""
    word = {"kind": "serving", "said": "serving", "starts": 0, "restarts": 0, "failures": 0, "silence": 0, "loading": 0}
    word |= {"served": True, "start_seconds": 80, "causes": [], "age": 4.0, "counters": {}}
    labels = {"baremetal.llm.deployment": deployment}
    watched = {**word, "kind": "running", "said": "running"}
    live = {
        "now": NOW,
        "versions": {"docker": "27.3.1", "toolkit": "1.17.8"},
        "containers": [container(name, labels=labels) for name in ("llm-ray", "llm-vllm")[: 1 + head]],
        "units": [{"name": "llm-probe.timer", "load": "loaded", "state": "active", "restarts": None, "started": None}],
        "probe": {"llm-ray": watched, **({"llm-vllm": word} if head else {})},
        "server": {"url": "http://10.0.0.1:8000", "error": "", "figures": dict(FIGURES)} if head else None,
        "disks": [
            {"mount": "/", "total_bytes": 400 * GIB, "available_bytes": 200 * GIB, "files": 9000, "files_free": 8000}
        ],
        "xids": [],
        "clock_synchronized": True,
        "certificates": {},
        "firmware": {},
        "series": None,
        "models": {"org--a": "cd" * 32},
    }
    nic = {"name": "eth1", "mtu": 9000, "speed_mbps": 100000, "driver": "mlx5_core", "kind": "ethernet"}
    return {
        "llm_gpus_found": [copy.deepcopy(CARD)],
        "llm_gpu": {"driver": {"loaded": "570.195.03"}, "source": "nvidia-smi"},
        "llm_host": {"kernel": "6.1.0-18-amd64"},
        "llm_nics_found": [nic],
        "llm_records": {"docker": {"digest": "11" * 32, "collection": "22", "differs": []}},
        "llm_lock": {"holder": None},
        "llm_live": live,
    }


def asked(host: str, deployment: str = "qwen", members: tuple[str, ...] = ("gpu01", "gpu02"), **more: Any) -> Asked:
    given: dict[str, Any] = {"names": names(sharing=[host]), "served_model": "org/a", "model_folder": "org--a"}
    given["deployments"] = (deployment,)
    return Asked(host, deployment, members[0], members, **{**given, **more})


def look(host: str = "gpu01", changes: Mapping[str, Any] | None = None, said: str = "", **more: Any) -> Looked:
    """A host that serves, but for ``changes``: values by their place in the facts, as in ``llm_live.xids``."""
    mine = asked(host, **more)
    if said:
        return looked_at(mine, {}, said)
    found = facts(mine.is_head, mine.deployment)
    for place, value in (changes or {}).items():
        *folders, last = place.split(".")
        at: Any = found
        for part in folders:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if isinstance(at, list):
            at[int(last)] = value
        else:
            at[last] = value
    return looked_at(mine, found, "")
