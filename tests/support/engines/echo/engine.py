"""An engine of one host without a memory model, as small as one can be: it says what it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import container
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment, Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import server_volumes
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.server_section import lone_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import unplanned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine


def _launch(deployment: Deployment) -> dict[str, dict[str, Any]]:
    mine = deployment.variables[deployment.head]
    options = [f"--{name}={value}" for name, value in deployment.plan["settings"].items()]
    argv = ["echo-server", f"--port={setting(mine, 'port')}", f"--model={model_path(mine)}", *options]
    return {deployment.head: {"argv": argv, "environment": {"ECHO_LOG": "info"}}}


def _sections(member: Member, environment: Mapping[str, Any]) -> dict[str, Any]:
    started = member.deployment.launch[member.host]
    made = container(member, "echo", environment, [], started["argv"], server_volumes(member))
    made["environment"] |= started["environment"]
    return {"echo": lone_section(member, made, {})}


ENGINE = Engine(
    name="echo",
    title="Echo",
    example_release="b5000",
    image="lab/echo:{}".format,
    inputs=unplanned.inputs,
    plan=unplanned.plan,
    launch=_launch,
    sections=_sections,
    reads_config=False,
    alive="/healthz",
    ready="/healthz",
    metrics=lambda: {
        "requests_running": {"kind": "gauge", "fold": "sum", "names": [{"name": "echo:requests_processing"}]},
        "generation_tokens": {"kind": "counter", "names": [{"name": "echo:tokens_predicted_total"}]},
    },
)
