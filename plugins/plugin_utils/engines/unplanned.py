# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs and plan of an engine without a memory model: it gets the GPUs of its head, and whether a start fits is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import config_path, gpus_of, memory_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_of, setting, settings_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Inputs
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, number
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import NOT, UNKNOWN

# Of an engine that serves from one host.
EXECUTOR = "uni"


def inputs(
    deployment: DeploymentHosts, hostvars: Mapping[str, Mapping[str, object]], manifest: Mapping[str, object]
) -> Inputs:
    """The head first, and the engine's options as the inventory has them."""
    head = deployment["head"]
    order = [head, *(host for host in deployment["hosts"] if host != head)]
    mine = engine_of(hostvars[head])
    said = {"title": mine.title, f"{mine.name}_version": str(setting(hostvars[head], "version"))}
    return {
        "nodes": [{"host": host, "gpus": gpus_of(hostvars[host]), **memory_of(hostvars[host])} for host in order],
        "request": {**mapping(setting(hostvars[head], "options")), "engine": said},
        "config": None,
    }


def inputs_with_config(
    deployment: DeploymentHosts,
    hostvars: Mapping[str, Mapping[str, object]],
    manifest: Mapping[str, object],
    settings: Sequence[str],
) -> Inputs:
    """The same of an engine that reads the model's config.json: the request has these settings that the inventory has, and ``options``."""
    head = hostvars[deployment["head"]]
    found = inputs(deployment, hostvars, manifest)
    options = dict(mapping(setting(head, "options")))
    request = {"engine": found["request"]["engine"], "options": options, **settings_of(head, settings)}
    return {"nodes": found["nodes"], "request": request, "config": config_path(mappings(manifest.get("files")), head)}


def plan(
    config: Mapping[str, object], nodes: Sequence[Mapping[str, object]], request: Mapping[str, object], language: str
) -> dict[str, object]:
    """A plan with the fields of one that was computed; it says that nothing was. Without a GPU on the head there is no rank."""
    said = dict(mapping(request["engine"]))
    title = said.pop("title")
    gpus = mappings(nodes[0]["gpus"])
    warning = message("plan_no_memory_model", language, engine=title)
    return {
        **said,
        "ok": True,
        "verdict": UNKNOWN,
        "executor": EXECUTOR,
        "nodes": [
            {"host": node["host"], "ranks": list(range(len(gpus))) if node is nodes[0] else []} for node in nodes
        ],
        "gpus": [{"name": str(gpu["name"]), "memory_gib": round(number(gpu["memory_mib"]) / 1024, 2)} for gpu in gpus],
        "settings": {name: value for name, value in request.items() if name != "engine"},
        "reasons": [],
        "alternatives": [],
        "past": {},
        "predicted": {
            "ok": True,
            "verdict": UNKNOWN,
            "error": None,
            "errors": [],
            "warnings": [warning],
            "ranks": [],
            "margin": {},
        },
    }


def refused(base: dict[str, object], why: Text, language: str) -> dict[str, object]:
    """The same plan of an engine that knows better, where it cannot serve."""
    error = {"code": why.code, "message": why.say(language).strip(), "remedy": ""}
    predicted = {
        **mapping(base["predicted"]),
        "ok": False,
        "verdict": NOT,
        "error": error,
        "errors": [error],
        "warnings": [],
    }
    return {**base, "ok": False, "verdict": NOT, "predicted": predicted}
