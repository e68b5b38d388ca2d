#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_lock
short_description: Keep other runs away from a host while this one changes it
version_added: 0.1.0
description:
  - A file on the host says which run holds it. M(baremetal.llm.gather) reads it, and a run takes it before it changes anything.
  - The host is not taken where another run holds it, or has given it back since this one looked. RV(problem) says so; the module does not fail.
  - A holder on this machine whose process has ended is replaced. Of a run on another machine nobody knows whether it goes on, so it is replaced
    with O(take_over) only.
  - With the first lock of a host that no role has changed yet, it keeps a picture of the host beside the lock, C(before.json), with which
    M(baremetal.llm.host_reset) compares later.
options:
  state:
    description: Whether to take the host or to give it back.
    type: str
    choices: [taken, given_back]
    required: true
  path:
    description: The file on the host.
    type: path
    required: true
  take_over:
    description: Replace a holder, whoever it is.
    type: bool
    default: false
  mine:
    description: Internal. This run.
    type: dict
  seen:
    description: Internal. The lock as it was when the host was looked at.
    type: dict
  ended:
    description: Internal. A holder whose run is over.
    type: dict
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
  - baremetal.llm.attributes.controller_part
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
    details:
      - Takes nothing then.
  diff_mode:
    description: Shows what it changes in diff mode.
    support: none
seealso:
  - module: baremetal.llm.gather
"""

EXAMPLES = r"""
- name: Lock | Take the host
  baremetal.llm.host_lock:
    state: taken
    path: "{{ llm_host_dir }}/lock.json"
"""

RETURN = r"""
taken:
  description: Whether this run holds the host now.
  returned: always
  type: bool
problem:
  description: Why the host was not taken. Empty where it was, and where it was given back.
  returned: always
  type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._before import picture_of, take_picture
from ansible_collections.baremetal.llm.plugins.module_utils._lock import FREE, give_back, take
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs


def main() -> None:
    """Take the host or give it back; that is no change of the host."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["taken", "given_back"], "required": True},
            "path": {"type": "path", "required": True},
            "take_over": {"type": "bool", "default": False},
            "mine": {"type": "dict"},
            "seen": {"type": "dict"},
            "ended": {"type": "dict"},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    options = module.params
    if module.check_mode or not options["mine"]:
        module.exit_json(changed=False, taken=False, holder=None)
    if options["state"] == "given_back":
        give_back(options["path"], options["mine"])
        module.exit_json(changed=False, taken=False, holder=None)
    said = take(options["path"], options["mine"], options["seen"] or FREE, options["ended"])
    if said["taken"]:
        take_picture(os.path.dirname(options["path"]), lambda: picture_of(Programs(module)))
    module.exit_json(changed=False, **said)


if __name__ == "__main__":
    main()
