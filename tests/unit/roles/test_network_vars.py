"""What roles/network makes of what the hosts remember."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.support.role_vars import role_variable


def remembered(network: str) -> dict[str, Any]:
    return {"content": base64.b64encode(json.dumps({"network": network}).encode()).decode()}


NOTHING = {"skipped": True}
OLD, OTHER = remembered("10.0.0.0/24"), remembered("10.0.1.0/24")


@pytest.mark.parametrize(
    ("inside", "outside", "previous"),
    [
        ([NOTHING, NOTHING], {}, ""),
        ([OLD, OLD], {"skipped": True}, "10.0.0.0/24"),
        ([NOTHING, OLD], {"results": []}, "10.0.0.0/24"),  # the head was rebuilt
        ([NOTHING], {"results": [{"unreachable": True}, {"msg": "file not found"}, OTHER]}, "10.0.1.0/24"),
        ([OLD], {"results": [OTHER]}, "10.0.0.0/24"),
    ],
)
def test_whoever_remembers_the_network_tells_it(inside: list[Any], outside: dict[str, Any], previous: str) -> None:
    hosts = [f"gpu{n}" for n, _state in enumerate(inside, start=1)]
    hostvars = {host: {"__network_state_content": state} for host, state in zip(hosts, inside, strict=True)}
    found = role_variable(
        "network", "_network_previous", hostvars=hostvars, _network_members=hosts, __network_states_outside=outside
    )
    assert found == previous


@pytest.mark.parametrize(
    ("hosts", "forks", "seconds"), [(2, 5, 600), (5, 5, 600), (6, 5, 900), (64, 5, 4200), (64, 1, 19500)]
)
def test_listeners_wait_for_the_last_host(hosts: int, forks: int, seconds: int) -> None:
    """Ansible takes as many hosts at once as it has forks."""
    names = [f"gpu{n}" for n in range(hosts)]
    found = role_variable("network", "_network_listen_seconds", ansible_play_hosts=names, ansible_forks=forks)
    assert found == seconds
