#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: network_connectivity
short_description: Check that hosts reach each other on the ports that a cluster will use
version_added: 0.1.0
description:
  - Run on all hosts of a cluster three times. With O(state=listening) each holds the ports that nothing holds yet, in a process
    that ends by itself after O(lifetime_seconds). With O(state=connected) each connects to all others on every network, measures how
    long that takes and, to eight of them at most, what one connection carries, and sends datagrams that may not be fragmented. With O(state=stopped) the
    listener ends and tells whose datagrams it got.
  - Where a container of this collection holds a port already, that one is connected to and left alone otherwise.
  - The action plugin asks for nothing but the step. What the module needs stands in C(llm_decision) of M(baremetal.llm.decide), which
    makes sense of the results afterwards. They have to be registered as C(llm_connectivity), and each step adds its own to those of the
    step before it.
  - Nothing on the host is changed, and no process is left behind.
options:
  state:
    description: Which of the three steps.
    type: str
    choices: [listening, connected, stopped]
    required: true
  host:
    description: The name of this host in the inventory. This and all further options are set by the action plugin.
    type: str
  token:
    description: A secret of this run, the same on all hosts. It is never sent.
    type: str
  addresses:
    description: >-
      This host's address in each of the networks, by network.
    type: dict
    default: {}
  mtus:
    description: The MTU of this host's interface in each of the networks.
    type: dict
    default: {}
  ports:
    description: The ports that this host will listen on, each with C(variable), C(first) and C(last).
    type: list
    elements: dict
    default: []
  peers:
    description:
      - All other hosts, each with C(host), C(addresses) and C(mtus) by network, and C(port) and C(held) as O(state=listening) returned
        them there.
    type: list
    elements: dict
    default: []
  timeout_seconds:
    description: How long a connection may take. Each is tried once; the kernel repeats what is lost after a second.
    type: float
    default: 3
  stream_seconds:
    description: How long each stream lasts.
    type: float
    default: 0.3
  lifetime_seconds:
    description: After how long a listener ends if nobody ends it.
    type: float
    default: 300
  name:
    description: Internal. Tells the listeners of a machine with several deployments from each other.
    type: str
    default: ""
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
  - baremetal.llm.attributes.looks
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Connectivity | Listen
  baremetal.llm.network_connectivity:
    state: listening
  register: llm_connectivity

- name: Connectivity | Connect
  baremetal.llm.network_connectivity:
    state: connected
  register: llm_connectivity

- name: Connectivity | Stop listening
  baremetal.llm.network_connectivity:
    state: stopped
  register: llm_connectivity
"""

RETURN = r"""
port:
  description: The port that the kernel chose, for streams and datagrams.
  returned: listening
  type: int
held:
  description: By variable and network the C(port) to connect to, and whether a listener C(answers) there or a service of ours.
  returned: listening
  type: dict
taken:
  description: Ports that somebody else holds, each with C(variable), C(port), C(address), C(program) and C(pid).
  returned: listening
  type: list
  elements: dict
reached:
  description:
    - By network and host the C(milliseconds) of a connection, the C(mbps) of a stream (V(null) if none was sent), what C(failed), by
      variable its C(port) and C(reason), and what was wrong with the C(stream).
  returned: connected
  type: dict
heard:
  description: By network and host the size of the largest packet that came from there.
  returned: stopped
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._connectivity import (
    CONTROL,
    probe,
    start_listener,
    stop_listener,
    stream_partners,
)


def main() -> None:
    """One of the three steps."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["listening", "connected", "stopped"], "required": True},
            "host": {"type": "str"},
            "token": {"type": "str", "no_log": True},
            "addresses": {"type": "dict", "default": {}},
            "mtus": {"type": "dict", "default": {}},
            "ports": {"type": "list", "elements": "dict", "default": []},
            "peers": {"type": "list", "elements": "dict", "default": []},
            "timeout_seconds": {"type": "float", "default": 3.0},
            "stream_seconds": {"type": "float", "default": 0.3},
            "lifetime_seconds": {"type": "float", "default": 300.0},
            "name": {"type": "str", "default": ""},
        },
        required_if=[("state", "listening", ["host", "token"]), ("state", "connected", ["host", "token"])],
        supports_check_mode=True,
    )
    given = module.params
    control = CONTROL + given["name"].encode()
    if given["state"] == "stopped":
        heard = stop_listener(control) or {}
        module.exit_json(changed=False, heard=heard.get("heard") or {})
    if given["state"] == "listening":
        try:
            found = start_listener(
                given["host"], given["token"], given["addresses"], given["ports"], given["lifetime_seconds"], control
            )
        except OSError as error:
            module.fail_json(msg="cannot listen on {0}: {1}".format(sorted(given["addresses"].values()), error))
        module.exit_json(changed=False, **found)
    names = sorted({given["host"], *(str(peer["host"]) for peer in given["peers"])})
    reached = probe(
        given["host"],
        given["token"],
        given["addresses"],
        given["peers"],
        given["mtus"],
        given["timeout_seconds"],
        dict.fromkeys(stream_partners(names, given["host"]), given["stream_seconds"]),
    )
    module.exit_json(changed=False, reached=reached)


if __name__ == "__main__":
    main()
