# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that is loaded when somebody asks for it: roles/common/files/llm-on-request.py holds its port, and it listens behind that on its own host."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import ON_REQUEST, RIVALS
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import ON_REQUEST_DIR, names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Nothing, OnRequest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import is_open, setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import LOOPBACK
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import port_behind

# After a start the probe's word of before stands for an interval and a look of the probe (roles/common/files/llm-probe.py), which may take so long.
LOOK_SECONDS = 20
# Gateways ask each USAGE_SECONDS (gateway/decide.py) what answers have cost, and what a server has counted goes with it.
COUNTED_SECONDS = 3
# A start is given up after so long, where nothing is said: the probe, which computes a limit from the weights, is not there to be asked.
START_SECONDS = 1800


def is_on_request(variables: Mapping[str, object]) -> bool:
    return is_true(variables.get(ON_REQUEST) or False)


def is_local(variables: Mapping[str, object]) -> bool:
    """Whether a server listens on its own host only: nobody may ask it without a key, or another program is in front of it."""
    return is_open(variables) or is_on_request(variables)


def inner_port(variables: Mapping[str, object]) -> int:
    """The port on which a server itself listens."""
    port = whole(setting(variables, "port"))
    return port_behind(variables, port) if is_on_request(variables) else port


def wait_seconds(variables: Mapping[str, object]) -> int:
    return whole(variables["llm_on_request_wait_seconds"])


def on_request_section(member: Member) -> OnRequest | Nothing:
    """The settings of the program for a deployment."""
    if not member.on_request or not member.is_head:
        return {}
    mine = member.variables
    stay = mine.get("llm_on_request_stay_seconds")
    keys = [] if is_open(mine) else [member.key_file, f"{member.key_file}.gateway", f"{member.key_file}.previous"]
    return {
        "path": f"{ON_REQUEST_DIR}/{member.names['server']}.json",
        "settings": {
            "model": member.served_model_name,
            "listen": [LOOPBACK if member.deployment.engine.is_local(mine) else "0.0.0.0", int(member.setting("port"))],
            "inner": [LOOPBACK, inner_port(mine)],
            "ready": member.deployment.engine.alive,
            "state": member.names["state"],
            "look_seconds": int(member.setting("probe_interval_seconds")) + LOOK_SECONDS,
            "counted_seconds": COUNTED_SECONDS if member.deployment.engine.middleware else 0,
            "keys": keys,
            "rivals": [names_on(each, member.deployment.names)["server"] for each in mine.get(RIVALS) or ()],
            "start_seconds": int(member.setting("start_seconds") or START_SECONDS),
            "stay_seconds": None if stay is None else int(stay),
            "idle_seconds": int(mine["llm_on_request_idle_seconds"]),
            "queue": int(mine["llm_on_request_queue"]),
            "wait_seconds": wait_seconds(mine),
        },
    }
