#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_cleanup
short_description: Say what takes space on a host, and remove single things of that
version_added: 0.1.0
description:
  - Lists images, layers, models, unfinished transfers, compile caches, what runs left, journals, core files and packages of the package manager's cache,
    each with its size, its file system, and whether it may go. What serves, what somebody may go back to and what is not the collection's stays.
  - Removes only what O(items) names, one by one. Each is looked at again at that moment, and stays if it is another one by now or something keeps it.
    Nothing is followed through a link, and nothing is forced.
  - Writes nothing before it removes, so that it works on a disk that is full.
options:
  state:
    description: Whether to list, or to remove O(items).
    type: str
    choices: [listed, removed]
    default: listed
  items:
    description: What is removed, as RV(items) has it; C(class), C(name) and C(stamp) count.
    type: list
    elements: dict
    default: []
  classes:
    description: Which classes are looked at.
    type: list
    elements: str
    default: [images, layers, models, transfers, caches, runs, journals, cores, packages]
  host_dir:
    description: The folder of the collection on the host.
    type: path
    default: /opt/llm
  models_dir:
    description: The folder of the models. Left out, C(models) below O(host_dir).
    type: path
  docker_root:
    description: The data root of an engine that does not answer.
    type: path
    default: /var/lib/docker
  keep_days:
    description: For how many days journals stay.
    type: int
    default: 7
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
  diff_mode:
    description: Shows what it removes in diff mode.
    support: full
seealso:
  - module: baremetal.llm.cleanup
"""

EXAMPLES = r"""
- name: Cleanup | List what takes space
  baremetal.llm.host_cleanup:
"""

RETURN = r"""
items:
  description: What takes space, each with its C(class), C(name), C(bytes), C(mount), and C(verdict), C(why) and C(by).
  returned: with O(state=listed)
  type: list
  elements: dict
other:
  description: What else is large, each with C(name), C(bytes) and C(mount).
  returned: with O(state=listed)
  type: list
  elements: dict
damage:
  description: What is not as it should be, each with C(kind), C(name), C(role) and C(said).
  returned: always
  type: list
  elements: dict
engine_answers:
  description: Whether an engine said what it has.
  returned: with O(state=listed)
  type: bool
file_systems:
  description: The file systems with what is free on them.
  returned: always
  type: list
  elements: dict
removed:
  description: What was removed, or would be in check mode, each with C(class), C(name) and C(bytes).
  returned: with O(state=removed)
  type: list
  elements: dict
stayed:
  description: What was to go and stayed, each with C(class), C(name), and in C(why) the reason or in C(said) the complaint.
  returned: with O(state=removed)
  type: list
  elements: dict
"""


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._cleanup import (
    Look,
    Where,
    damage,
    file_systems,
    remove,
    survey,
    why_not,
)
from ansible_collections.baremetal.llm.plugins.module_utils._cleanup_rules import CLASSES, Gone, Stayed
from ansible_collections.baremetal.llm.plugins.module_utils._engine import ask_engine
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs


def main() -> None:
    """List it, or remove it one by one."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["listed", "removed"], "default": "listed"},
            "items": {"type": "list", "elements": "dict", "default": []},
            "classes": {"type": "list", "elements": "str", "default": list(CLASSES)},
            "host_dir": {"type": "path", "default": "/opt/llm"},
            "models_dir": {"type": "path"},
            "docker_root": {"type": "path", "default": "/var/lib/docker"},
            "keep_days": {"type": "int", "default": 7},
        },
        supports_check_mode=True,
    )
    options = module.params
    host_dir = options["host_dir"].rstrip("/")
    root = str((ask_engine("/info") or {}).get("DockerRootDir") or options["docker_root"])
    where = Where(host_dir, (options["models_dir"] or host_dir + "/models").rstrip("/"), root)
    programs = Programs(module)
    if options["state"] == "listed":
        found = survey(where, options["classes"], options["keep_days"])
        module.exit_json(changed=False, file_systems=file_systems(where), damage=damage(where, programs), **found)
    removed, stayed = removal(module, where)
    answer: dict[str, object] = {
        "changed": bool(removed),
        "removed": removed,
        "stayed": stayed,
        "file_systems": file_systems(where),
        "damage": damage(where, programs),
    }
    if removed:
        answer["diff"] = {"before": "".join(each["name"] + "\n" for each in removed), "after": ""}
    module.exit_json(**answer)


def removal(module: AnsibleModule, where: Where) -> tuple[list[Gone], list[Stayed]]:
    """What went, and what stayed and why. Each is looked at just before it goes."""
    options, look = module.params, Look(where, module.params["keep_days"])
    removed: list[Gone] = []
    stayed: list[Stayed] = []
    for wanted in options["items"]:
        each, why = why_not(wanted, look.items(wanted["class"]))
        said = "" if why or module.check_mode else remove(each, where)
        # Of an image the size that it had beside the others.
        shown: Gone = {
            "class": wanted["class"],
            "name": wanted["name"],
            "bytes": wanted["bytes"],
            "mount": wanted["mount"],
            "tags": wanted.get("tags"),
        }
        if why or said:
            stayed.append({**shown, "why": why, "said": said})
        else:
            removed.append(shown)
    return removed, stayed


if __name__ == "__main__":
    main()
