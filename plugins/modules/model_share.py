#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_share
short_description: Hand the files of a model on to other hosts
version_added: 0.1.0
description:
  - Starts a web server on the host, on one address and behind a token that is made for this call, which serves the files of one model and nothing
    else. Other hosts fetch them with M(baremetal.llm.model_fetch), which compares every file with its SHA-256.
  - The server ends when it is told to (O(state=absent)), and by itself when nobody has asked for anything for O(idle_seconds).
options:
  state:
    description: Whether the server shall run.
    type: str
    choices: [present, absent]
    default: present
  dest:
    description: Folder on the host for all models.
    type: path
  folder:
    description: Folder of the model below it.
    type: str
  addresses:
    description: Addresses of the host; the first on which it can listen is taken.
    type: list
    elements: str
    default: []
  idle_seconds:
    description: After how long without a request it ends by itself.
    type: int
    default: 600
  url:
    description: The server that shall end.
    type: str
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  action:
    description: Has a part that runs on the controller, and says there what went wrong.
    support: full
  async:
    description: Can be run in the background.
    support: none
  check_mode:
    description: Starts and ends nothing then.
    support: full
  diff_mode:
    description: Shows what changed. Nothing does.
    support: none
"""

EXAMPLES = r"""
- name: Models | Hand a model on
  baremetal.llm.model_share:
    dest: /opt/llm/models
    folder: Qwen--Qwen2.5-14B-Instruct
    addresses: [10.10.0.1]
  register: __share
  no_log: true
"""

RETURN = r"""
url:
  description: Where the files are, with the token; empty where nothing is handed on. Keep it out of logs.
  returned: success
  type: str
files:
  description: The files, each with C(path) below O(dest), C(size) and C(sha256) as they were noted when they came.
  returned: success
  type: list
  elements: dict
"""

import os
import secrets
import urllib.request

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Wanted, stamp
from ansible_collections.baremetal.llm.plugins.module_utils._download import direct_opener
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import read_state
from ansible_collections.baremetal.llm.plugins.module_utils._share import END, first_listening


def end(url: str) -> None:
    """A server that ended already is as good."""
    try:
        direct_opener().open(urllib.request.Request(url + END), timeout=10).close()
    except OSError:
        pass


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "dest": {"type": "path"},
            "folder": {"type": "str"},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "idle_seconds": {"type": "int", "default": 600},
            "url": {"type": "str", "no_log": True},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        required_if=[("state", "present", ("dest", "folder")), ("state", "absent", ("url",))],
        supports_check_mode=True,
    )
    said = module.params
    if said["state"] == "absent":
        if said["url"] and not module.check_mode:
            end(said["url"])
        module.exit_json(changed=False)
    dest = said["dest"]
    files = [
        Wanted(path=path, size=now[0], sha256=known["sha256"])
        for path, known in sorted(read_state(dest).items())
        for now in [stamp(os.path.join(dest, path)) if path.startswith(said["folder"] + "/") else None]
        if now and known.get("stamp") == now
    ]
    url = ""
    if files and not module.check_mode:
        full = {file["path"]: os.path.join(dest, file["path"]) for file in files}
        url = first_listening(said["addresses"], secrets.token_urlsafe(24), full, said["idle_seconds"])
    module.exit_json(changed=False, url=url, files=files)


if __name__ == "__main__":
    main()
