# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a deployment's variables and the bundle to what Triton's plan is asked, and the plan: that of the vLLM in the image, on one host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import image_of, image_reference
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import estimates, unplanned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.estimates import Asked
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Inputs
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import since
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.triton.arguments import (
    NAME,
    SETTINGS,
    check_choices,
    engine_arguments,
    facts,
    is_of_frontend,
    table,
    vllm_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.inputs import found_facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.serving import answers_with
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import items, mapping, text, texts, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment

# The name of a model is that of its folder in the model repository.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# vLLM itself finds that its GPUs are of one host.
_LEFT_TO_VLLM = "distributed_executor_backend"


def inputs(
    deployment: DeploymentHosts, hostvars: Mapping[str, Mapping[str, object]], manifest: Mapping[str, object]
) -> Inputs:
    """The questions to every engine behind the filter of paths. In addition the name in the API, the vLLM that the bundle found in the image, and the facts
    for vLLM's planner."""
    found = _JUDGE.inputs(deployment, hostvars, manifest)
    head, records = hostvars[deployment["head"]], mappings(manifest.get("files"))
    more = {
        "name": str(setting(head, "served_model_name") or setting(head, "model")),
        "vllm_version": image_of(records, image_reference(head)).get("vllm_version"),
        "found": found_facts(hostvars, [deployment["head"]], records),
    }
    return {**found, "request": {**found["request"], **more}}


def plan(
    config: Mapping[str, object], nodes: Sequence[Mapping[str, object]], request: Mapping[str, object], language: str
) -> dict[str, object]:
    """vLLM's plan for the head, with Triton's own options among its settings. Where the vLLM in the image is not known, one that says so."""
    judged = _JUDGE.plan(config, nodes, request, language)
    if not judged["ok"]:
        return judged
    name, release = text(request["name"]), str(judged["triton_version"])
    if not _NAME.fullmatch(name):
        return unplanned.refused(judged, Text("triton_name", name=name, example=name.rpartition("/")[2]), language)
    said = mapping(judged["settings"])
    answer = answers_with(said, config)
    if not _is_served(answer, release):
        return unplanned.refused(judged, Text("triton_answer", release=release, answer=answer), language)
    vllm = vllm_of(release, text(request["vllm_version"]))
    try:
        check_choices(said)
        engine_arguments("", said)
        if not vllm:
            return _not_planned(judged, Asked(config, read_gpus(items(nodes[0]["gpus"])), release, said), language)
        wishes = {
            **{option: value for option, value in said.items() if not is_of_frontend(option)},
            # What was found in the image counts, else what NVIDIA says of it.
            "compute_capabilities": facts()["capabilities"]["names"],
            **mapping(request["found"]),
            "vllm_version": vllm,
            "image_has_ray": False,
            **{option: request[option] for option in ("observations",) if option in request},
        }
        found = plan_deployment(config, nodes[:1], wishes, language)
    except InputError as error:
        return unplanned.refused(judged, Text("input_error", field=error.field, why=error.why), language)
    chosen = {option: value for option, value in mapping(found["settings"]).items() if option != _LEFT_TO_VLLM}
    runs = Text("triton_runs", release=release, vllm=vllm).say(language)
    more = {"settings": _with_length(chosen, said), "reasons": [runs, *texts(found["reasons"])]}
    return {**found, f"{NAME}_version": release, **more}


def _is_served(answer: str, release: str) -> bool:
    """Whether the frontend has a path for what a model answers with (``answers_with`` of interface.py)."""
    first = facts()["paths"]["since"]["/v1/embeddings"]
    return answer == "token" or (answer == "embedding" and since(release, first))


def _with_length(chosen: Mapping[str, object], said: Mapping[str, object], most: object = None) -> dict[str, object]:
    """These settings of vLLM, and the options of the frontend. A request that does not say how long its answer may be gets as much as there is, as it does
    from vLLM itself; Triton alone would end after 16 tokens."""
    length = chosen.get("max_model_len") or most
    usual = {"default_max_tokens": length} if length else {}
    mine = {option: value for option, value in said.items() if is_of_frontend(option)}
    return {**{option: value for option, value in chosen.items() if value is not None}, **usual, **mine}


def _not_planned(base: dict[str, object], asked: Asked, language: str) -> dict[str, object]:
    """The GPUs of the head, as many as divide the model's heads, and vLLM's own defaults."""
    model = read_model(asked.config)
    spread = whole(asked.said.get("tensor_parallel_size") or estimates.spread_of(model, len(asked.gpus)))
    if spread > len(asked.gpus) or not estimates.divides(model, spread):
        said = {"setting": "triton_tensor_parallel_size", "tp": spread, "gpus": len(asked.gpus)}
        return unplanned.refused(base, Text("engine_spread", **said), language)
    mine = {option: value for option, value in asked.said.items() if not is_of_frontend(option)}
    settings = _with_length({**mine, "tensor_parallel_size": spread}, asked.said, model.context)
    why = Text("triton_unplanned", release=asked.release, newest=facts()["releases"]["newest"])
    return estimates.spread_plan({**base, "settings": settings}, spread, [why], language)


def _judged(base: dict[str, object], asked: Asked, language: str) -> dict[str, object]:
    """Options are those of the release, and the image has code for the GPUs; the rest is vLLM's."""
    return base


_JUDGE = estimates.Planner(table, SETTINGS, lambda asked: estimates.no_code(NAME, asked), _judged)
