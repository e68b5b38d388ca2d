#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_reset
short_description: Remove from a host what roles left there to serve
version_added: 0.1.0
description:
  - Removes units, containers, tables of the firewall, packages, images and files that the records of the host name, and nothing else.
  - Something goes only if it is the collection's. It has a name or a label of the collection, lies in its folder, or was not there when
    M(baremetal.llm.host_lock) took the first lock.
  - Weights, the bundle, secrets, and folders with anything else in them stay. So do driver, engine and toolkit.
  - A record goes when everything that it names is gone or stays for a reason. An interrupted run is made up for by the next one.
options:
  host_dir:
    description: The directory of the collection on the host.
    type: path
    default: /opt/llm
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
  diff_mode:
    description: Shows what it changes in diff mode.
    support: none
seealso:
  - module: baremetal.llm.record
"""

EXAMPLES = r"""
- name: Reset | List what roles left
  baremetal.llm.host_reset:
  check_mode: true
"""

RETURN = r"""
steps:
  description: What is removed, or would be in check mode. Each with C(role), C(kind) and C(name).
  returned: always
  type: list
  elements: dict
serving:
  description: Containers and running units of deployments among what is to go.
  returned: always
  type: list
  elements: str
stays:
  description: What a record names and stays, each with C(role), C(kind), C(name) and C(why).
  returned: always
  type: list
  elements: dict
failed_steps:
  description: What could not be removed, each with C(role), C(kind), C(name), and in C(why) the complaint.
  returned: always
  type: list
  elements: dict
differs:
  description:
    - In what the host differs now from the picture before the first change, by kind (C(packages), C(units), C(files), C(groups), C(modules)), each with
      what is there C(more), C(less), and in an C(other) version or state. None where there is no such picture.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._before import compared, picture_of, read_picture
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs
from ansible_collections.baremetal.llm.plugins.module_utils._reset import Stays, planned, serving, undone


def main() -> None:
    """List it, and remove it unless in check mode."""
    module = AnsibleModule(
        argument_spec={"host_dir": {"type": "path", "default": "/opt/llm"}}, supports_check_mode=True
    )
    host_dir = module.params["host_dir"]
    programs = Programs(module, timeout_seconds=300)
    before, now = read_picture(host_dir), picture_of(programs)
    steps, stays = planned(host_dir, before, programs, now["packages"])
    still = serving(steps, programs)
    failed: list[Stays] = []
    if not module.check_mode and steps:
        steps, failed = undone(steps, programs)
        programs.answer("systemctl", "daemon-reload")
        now = picture_of(programs)
    module.exit_json(
        changed=bool(steps),
        steps=[each._asdict() for each in steps],
        serving=still,
        stays=[each._asdict() for each in stays],
        failed_steps=[each._asdict() for each in failed],
        differs=None if before is None else compared(before, now),
    )


if __name__ == "__main__":
    main()
