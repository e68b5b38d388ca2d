#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: served
short_description: Keep what a deployment serves with, so that it can be returned to
version_added: 0.1.0
description:
  - Notes on a host what its deployment served with when a token came, and reads what it served with before. With that, the deployment can be
    taken back without network, bundle or the controller of that time.
  - M(baremetal.llm.gather) shows the notes without what the roles were given, as C(llm_served).
options:
  state:
    description:
      - V(kept) notes what serves now, and gives the files of its models a second name, so that the next revision leaves them.
      - V(begun) notes that a run begins to bring another version, until that has served.
      - V(looked) reads the version to go back to; V(put_back) also gives the files of its models their places again.
      - V(gone_back) notes that it serves.
    type: str
    choices: [begun, gone_back, kept, looked, put_back]
    required: true
  version:
    description: The version to go back to. Left out, the one before the newest; where a run was ended meanwhile, the one that all hosts know.
    type: str
    default: ""
  reason:
    description: With O(state=gone_back), why; empty where a person asked for it.
    type: str
    default: ""
  left:
    description: With O(state=gone_back), the C(version) and C(image) from which it went back.
    type: dict
    default: {}
  path:
    description: Internal. The file on the host.
    type: path
  host_dir:
    description: Internal. The folder of the collection on the host.
    type: path
  models_dir:
    description: Internal. The folder of the models.
    type: path
  serves:
    description: Internal. What serves now, or is begun.
    type: dict
    default: {}
  container:
    description: Internal. The container that serves, whose image is noted.
    type: str
    default: ""
  closed:
    description: Internal. The variables of its programs that may be secrets, with their values.
    type: dict
    default: {}
  images_keep:
    description: Internal. How many earlier versions keep their image.
    type: int
    default: 1
  models_keep:
    description: Internal. How many earlier versions keep their models.
    type: int
    default: 1
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
  - baremetal.llm.attributes.controller_part
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Writes nothing then, and says whether files of a model would be put back.
    support: full
  diff_mode:
    description: Shows what it changes in diff mode.
    support: none
seealso:
  - module: baremetal.llm.gather
  - module: baremetal.llm.record
"""

EXAMPLES = r"""
- name: Return | Read what served before
  baremetal.llm.served:
    state: looked
  register: __before
"""

RETURN = r"""
served:
  description: The version that was asked for, as it was kept, with C(closed); empty where there is none.
  returned: with O(state=looked) and O(state=put_back)
  type: dict
decision:
  description: A decision by which the host is given what it was given then, in the form of M(baremetal.llm.decide).
  returned: with O(state=put_back)
  type: dict
left:
  description: What the host leaves, with C(version) and C(image).
  returned: with O(state=looked) and O(state=put_back)
  type: dict
container:
  description: The name of the container whose image is noted; empty where there is none.
  returned: with O(state=kept)
  type: str
present:
  description: Whether the image of the version is on the host; true where it needs none.
  returned: with O(state=looked) and O(state=put_back)
  type: bool
moved:
  description: Whether the reference of its image stands for another image by now.
  returned: with O(state=looked) and O(state=put_back)
  type: bool
lacking:
  description: The models of the version whose files were not kept, although others lie in their place now.
  returned: with O(state=looked) and O(state=put_back)
  type: list
  elements: str
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._engine import ask_engine
from ansible_collections.baremetal.llm.plugins.module_utils._served import (
    Image,
    State,
    gone_back,
    keep_model,
    pins,
    put_back,
    read_served,
    remove_unpinned,
    with_state,
    write_served,
)


def keep(module: AnsibleModule) -> None:
    """Note what serves now. That is no change of the host."""
    options = module.params
    # With the name of the image, and without what is added here.
    serves: State = options["serves"]
    image = (
        (ask_engine("/containers/{0}/json".format(options["container"])) or {}).get("Image", "")
        if options["container"]
        else ""
    )
    # Nothing is returned: Ansible hides what looks like a value of closed in all that this module says, and such a value may be as short as 1.
    if module.check_mode:
        module.exit_json(changed=False)
    before = read_served(options["path"])
    state: State = {
        **serves,
        "since": now(),
        "image": {"reference": options["serves"]["image"], "id": image, "pinned": True},
        "models": [{**model, "kept": keep_model(options["models_dir"], model["folder"])} for model in serves["models"]],
        "closed": options["closed"],
    }
    content = with_state(before, state, options["images_keep"], options["models_keep"])
    write_served(options["path"], content)
    remove_unpinned(options["models_dir"], pins(options["host_dir"])["models"])
    module.exit_json(changed=False)


def begin(module: AnsibleModule) -> None:
    """Note what is begun. That is no change of the host either."""
    serves, path = module.params["serves"], module.params["path"]
    if not module.check_mode:
        begun = {"version": serves["version"], "image": serves["image"], "at": now()}
        write_served(path, {**read_served(path), "begun": begun})
    module.exit_json(changed=False)


def go_back(module: AnsibleModule) -> None:
    """Note that the version of before serves."""
    options = module.params
    before = read_served(options["path"])
    if not module.check_mode and asked_for(module):
        returned = {**options["left"], "reason": options["reason"], "at": now()}
        write_served(options["path"], gone_back(before, options["version"], returned))
    module.exit_json(changed=False)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def asked_for(module: AnsibleModule) -> State | None:
    """The version that is asked for; None where there is none."""
    states, version = read_served(module.params["path"])["states"], module.params["version"]
    return next((state for state in states if state["version"] == version), None)


def is_here(image: Image) -> bool:
    return not image["id"] or ask_engine("/images/{0}/json".format(image["id"])) is not None


def is_moved(image: Image) -> bool:
    said = ask_engine("/images/{0}/json".format(image["reference"])) if image["id"] else None
    return bool(image["id"]) and (said or {}).get("Id") != image["id"]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["begun", "gone_back", "kept", "looked", "put_back"], "required": True},
            "path": {"type": "path"},
            "host_dir": {"type": "path"},
            "models_dir": {"type": "path"},
            "version": {"type": "str", "default": ""},
            "serves": {"type": "dict", "default": {}},
            "container": {"type": "str", "default": ""},
            "closed": {"type": "dict", "default": {}, "no_log": True},
            "images_keep": {"type": "int", "default": 1},
            "models_keep": {"type": "int", "default": 1},
            "reason": {"type": "str", "default": ""},
            "left": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    if module.params["state"] == "kept":
        keep(module)
    if module.params["state"] == "begun":
        begin(module)
    if module.params["state"] == "gone_back":
        go_back(module)
    served = asked_for(module)
    kept = {model["folder"]: model["kept"] for model in served["models"]} if served else {}
    of_ours = {folder for folder in kept if os.path.dirname(folder) == os.path.normpath(module.params["models_dir"])}
    changed = False
    if module.params["state"] == "put_back":
        for folder, tree in kept.items():
            changed |= os.path.isdir(tree) and put_back(tree, folder, module.check_mode)
    module.exit_json(
        changed=changed,
        served=served or {},
        present=served is None or is_here(served["image"]),
        moved=served is not None and is_moved(served["image"]),
        lacking=sorted(folder for folder in of_ours if not os.path.isdir(kept[folder])),
    )


if __name__ == "__main__":
    main()
