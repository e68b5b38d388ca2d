# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided of a server, whichever engine it runs: all that does not depend on the engine, around what does."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import digest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import environment_file
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.on_request import (
    on_request_section,
    wait_seconds,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.probe import probe_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import runtime_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import (
    Container,
    LoneSection,
    Nothing,
    Options,
    ServerSection,
    SmallFile,
    Unit,
)


def server_section(
    member: Member,
    container: Container | Nothing,
    unit: Unit | Nothing,
    config: Options,
    files: Sequence[SmallFile],
    reads: str,
) -> ServerSection:
    """The server on a host: its container or its unit, and the files that it reads, of which ``reads`` is a digest."""
    return {
        "needed": member.host in member.deployment.launch,
        "runtime": runtime_section(member.variables, member.names["server"]),
        "container": container,
        "unit": unit,
        "environment_file": environment_file(member, member.deployment.engine.name),
        "config": config,
        "files": list(files),
        "reads": reads,
        "on_request": on_request_section(member),
        "url": member.url,
        "ask": [
            *("/usr/bin/env", "python3", f"{member.folder}/scripts/ask.py"),
            *([] if member.kind == "token" else [f"--kind={member.kind}"]),
            *([f"--seconds={wait_seconds(member.variables)}"] if member.on_request else []),
            *(member.url, member.served_model_name),
        ],
        "served_model_name": member.served_model_name,
        "key_file": member.key_file,
        # The host of each rank. Where Ray spreads them, it says itself where they are.
        "ranks": [node["host"] for node in member.deployment.plan["nodes"] for dummy in node["ranks"]],
    }


def lone_section(
    member: Member,
    container: Container | Nothing,
    unit: Unit | Nothing,
    files: Sequence[SmallFile] = (),
    restarts_for_keys: bool = False,
) -> LoneSection:
    """The same of an engine whose server is one container of one host, with its probe. ``unit`` is what stands in front of it; with ``restarts_for_keys`` it
    reads its keys only when it starts."""
    reads = digest([*member.deployment.weights])
    server = server_section(member, container, unit, {"path": "", "content": {}}, files, reads)
    return {**server, "restarts_for_keys": restarts_for_keys, "probe": probe_section(member, [])}
