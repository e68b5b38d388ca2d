# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts of one deployment have to set, and have to agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, shown

REQUIRED = ("vllm_model", "vllm_version")
# What the hosts of a deployment must agree on.
SHARED = (
    "vllm_model",
    "vllm_version",
    "vllm_runtime",
    "vllm_image",
    "vllm_served_model_name",
    "vllm_port",
    "vllm_max_model_len",
    "vllm_tensor_parallel_size",
    "vllm_pipeline_parallel_size",
    "vllm_executor",
    "vllm_tokenizer",
    "vllm_speculative_model",
    "vllm_lora_adapters",
    "vllm_chat_template",
    "vllm_generation_config",
    "vllm_tool_call_parser",
    "vllm_tool_parser_plugin",
    "vllm_reasoning_parser",
    "ray_head_host",
    "llm_cluster_network",
    "llm_container_uid",
)


def setting_problems(inventory: Inventory) -> Problems:
    for deployment, members in inventory.deployments.items():
        if not members:
            continue
        yield from _missing(inventory, deployment, members)
        # A host in two deployments has the settings of one of them, which says nothing about the other.
        own = [host for host in members if sum(host in others for others in inventory.deployments.values()) == 1]
        yield from _different(inventory, deployment, own)
        yield from _head_elsewhere(inventory, deployment, own)
        yield from _model_is_url(inventory, deployment, members[0])


def _missing(inventory: Inventory, deployment: str, members: Sequence[str]) -> Problems:
    for name in REQUIRED:
        lacking = [
            host for host in members if inventory.get(host, name) in (None, "") and not inventory.is_open(host, name)
        ]
        if lacking:
            yield inventory.problem(
                "missing_variable",
                where=inventory.where(name, lacking[0], deployment),
                name=name,
                deployment=deployment,
                example=message("example_" + name, inventory.lang),
            )


def _different(inventory: Inventory, deployment: str, members: Sequence[str]) -> Problems:
    nothing = shown(None, inventory.lang)
    for name in SHARED:
        if any(inventory.is_open(host, name) for host in members):
            continue
        values: dict[str, list[str]] = {}
        for host in members:
            values.setdefault(inventory.text(inventory.get(host, name)), []).append(host)
        if len(values) < 2 or (name in REQUIRED and nothing in values):
            continue
        yield inventory.problem(
            "settings_differ",
            value="; ".join(f"{names(hosts, inventory.lang, 3)}: {text}" for text, hosts in values.items()),
            where=inventory.where(name, members[0], deployment),
            name=name,
            deployment=deployment,
        )


def _head_elsewhere(inventory: Inventory, deployment: str, members: Sequence[str]) -> Problems:
    wanted = next(filter(None, (inventory.get(host, "ray_head_host") for host in members)), None)
    everybody = inventory.deployments[deployment]
    if wanted is not None and not isinstance(wanted, (Mapping, list)) and str(wanted) not in everybody:
        yield inventory.problem(
            "head_not_in_deployment",
            value=inventory.text(wanted),
            where=inventory.where("ray_head_host", members[0], deployment),
            deployment=deployment,
            hosts=inventory.names(everybody),
        )


def _model_is_url(inventory: Inventory, deployment: str, host: str) -> Problems:
    model = inventory.get(host, "vllm_model")
    if isinstance(model, str) and "://" in model:
        path = [part for part in model.split("://", 1)[1].split("/")[1:] if part]
        yield inventory.problem(
            "model_is_url",
            value=inventory.text(model),
            where=inventory.where("vllm_model", host, deployment),
            deployment=deployment,
            suggestion="/".join(path[:2]) or "Qwen/Qwen2.5-14B-Instruct",
        )
