# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM, as the rest of the collection sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine, Metric
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.environment import (
    ALL_ADDRESS_VARIABLES,
    CACHES,
    address_variables,
    own_environment,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.inputs import (
    OF_ALL_HOSTS,
    SETTINGS,
    plan_inputs,
    plan_problems,
    plan_warnings,
    ray_images,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.launch import launch_of, rank_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.option_rules import OPTION_RULES
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.paths import paths_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.ray import object_store_gib
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.sections import sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.serving import Serving, answers_with
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.start_phases import PHASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, within


def _metrics() -> Mapping[str, Metric]:
    content = Path(__file__).with_name("metrics.yml").read_bytes()
    found: Mapping[str, Mapping[str, Metric]] = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return found["metrics"]


def _image(release: str) -> str:
    return f"vllm/vllm-openai:v{release}"


def _unprivileged(head: Mapping[str, object], gpus: Sequence[Gpu]) -> bool:
    if release_key(str(head["vllm_version"])) < release_key(changes.OTHER_USERS_SINCE):
        return False
    return all(gpu.capability < changes.OTHER_USERS_BELOW_CAPABILITY for gpu in gpus)


def _devices_by_index(release: str) -> bool:
    return within(release_key(release), *changes.DEVICES_BY_INDEX)


ENGINE = Engine(
    name="vllm",
    title="vLLM",
    example_release="0.8.5.post1",
    image=_image,
    release_in_image="vllm_version",
    images_with_ray=ray_images,
    inputs=plan_inputs,
    plan=plan_deployment,
    plan_warnings=plan_warnings,
    plan_problems=plan_problems,
    launch=launch_of,
    sections=sections,
    served=Serving,
    settings=SETTINGS,
    option_rules=OPTION_RULES,
    release_form=r"\d+(\.\d+)+([-.]?(a|b|rc|post|dev)\d+)*(\+[A-Za-z0-9.]+)?",
    shared=(
        *("max_model_len", "tensor_parallel_size", "pipeline_parallel_size", "executor", "tokenizer"),
        *("speculative_model", "lora_adapters", "chat_template", "generation_config", "tool_call_parser"),
        *("tool_parser_plugin", "reasoning_parser"),
    ),
    of_all_hosts=OF_ALL_HOSTS,
    context="max_model_len",
    spans_hosts=True,
    models=("model", "tokenizer", "speculative_model"),
    adapters="lora_adapters",
    answers_with=answers_with,
    before=("ray",),
    measures=True,
    on_request=True,
    # Units of systemd, and Ray's own container.
    never_on_request={"runtime": "venv", "executor": "ray"},
    address_variables=address_variables,
    all_address_variables=ALL_ADDRESS_VARIABLES,
    # The latter are those of the collection's own programs, which paths are open among them.
    owned_variables={"VLLM_API_KEY": "vllm_api_key", "LLM_*": "vllm_api_paths, vllm_api_key_enabled"},
    environment=own_environment,
    caches=CACHES,
    etc_hosts=rank_names,
    unprivileged=_unprivileged,
    module="vllm",
    shared_memory_gib=object_store_gib,
    devices_by_index=_devices_by_index,
    start_phases=PHASES,
    # The collection's own middleware answers at the first (roles/common/files/llm_api_paths.py).
    ready="/ready",
    alive="/health",
    paths=paths_of,
    middleware=True,
    # Settings are those of the plan.
    alike_settings={"max_model_len": "gateway_differs_length", "quantization": "gateway_differs_answers"},
    alike_options={
        **dict.fromkeys(
            ("chat_template", "generation_config", "override_generation_config"), "gateway_differs_answers"
        ),
        **dict.fromkeys(("enable_auto_tool_choice", "tool_call_parser", "reasoning_parser"), "gateway_differs_tools"),
    },
    metrics=_metrics,
)
