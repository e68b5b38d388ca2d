#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: record
short_description: Record on the host what a role left there, and from what
version_added: 0.1.0
description:
  - Every role ends with it. M(baremetal.llm.gather) verifies the record in the next run, and a role whose record holds is not run again.
  - Looks at everything that is named, and writes what it finds into C(<role>.json) below O(records_dir), in one step, readable by root only.
  - The digest of what the role was asked for comes from the decisions of the run. A role that is run by itself, with tags, or in check
    mode leaves the last record as it is; where the role changed anything, that record does not hold any more.
options:
  role:
    description: The role's name.
    type: str
    required: true
  records_dir:
    description: Folder of the records on the host.
    type: path
    required: true
  subjects:
    description:
      - What the role left, by kind.
      - V(paths) are files, folders and links, also such that must not be there; V(trees) folders with everything in them; V(environments)
        Python environments that M(baremetal.llm.venv) made; V(links) have the
        form C(PATTERN -> FOLDER) and mean the links of the pattern that lead below the folder; V(settings) are JSON files by path, each
        with a mapping in the shape of the keys that count; V(units) are systemd's; V(packages), V(groups), V(images) (references) and
        V(containers) are names; V(runtimes) are those of containers that the engine knows; V(tables) are nftables' of the family inet;
        V(firewalls) are V(ufw) or V(firewalld) with their rules; V(driver) is V([nvidia]); V(probes) are state files of a probe;
        V(started) are services and containers, each with the files that it reads when it starts.
    type: dict
    default: {}
  made_from:
    description: Internal. The digest of what the role was asked for.
    type: str
  collection:
    description: Internal. A digest of this collection.
    type: str
extends_documentation_fragment:
  - baremetal.llm.sysfs
  - baremetal.llm.attributes.linux
  - baremetal.llm.attributes.controller_part
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
    details:
      - Writes nothing then.
  diff_mode:
    description: Shows what it changes in diff mode.
    support: none
seealso:
  - module: baremetal.llm.gather
"""

EXAMPLES = r"""
- name: Docker | Record what it left
  baremetal.llm.record:
    role: docker
    records_dir: "{{ llm_host_dir }}/records"
    subjects:
      paths: [/etc/systemd/system/docker.service]
      units: [docker.service, containerd.service]
      settings: {/etc/docker/daemon.json: {log-opts: {}, live-restore: {}}}
"""

RETURN = r"""
recorded:
  description: Whether a record was written. It is no change of the host.
  returned: always
  type: bool
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._evidence import (
    Host,
    brought_before,
    make_record,
    read_record,
    write_record,
)
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import read_gpus
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs


def main() -> None:
    """Look at everything that is named, and write it down."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "records_dir": {"type": "path", "required": True},
            "subjects": {"type": "dict", "default": {}},
            "sysfs_root": {"type": "path", "default": "/sys"},
            "made_from": {"type": "str"},
            "collection": {"type": "str"},
        },
        supports_check_mode=True,
    )
    options = module.params
    if module.check_mode or not options["made_from"]:
        module.exit_json(changed=False, recorded=False)
    programs = Programs(module)
    gpus = read_gpus(programs, options["sysfs_root"], "/proc") if "driver" in options["subjects"] else None
    record = make_record(options["subjects"], Host(programs, gpus), options["made_from"], options["collection"])
    before = read_record(os.path.join(options["records_dir"], options["role"] + ".json"))
    earlier = brought_before(before) if options["role"] == "images" else {}
    if earlier:
        record["earlier"] = earlier
    module.exit_json(changed=False, recorded=write_record(options["records_dir"], options["role"], record))


if __name__ == "__main__":
    main()
