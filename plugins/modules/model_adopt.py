#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_adopt
short_description: Take a model as it lies on a host
version_added: 0.1.0
description:
  - Reads a model in a folder of the host once, checks that it is whole - no file is missing, cut off, unfinished, or a pointer or
    a web page instead of the file - and notes the SHA-256 of each file in O(notes). A file is read again only if its size or time has changed.
  - Nothing in the folder is changed, copied or removed. It may be a network file system.
options:
  path:
    description: Folder of the model.
    type: path
    required: true
  notes:
    description: File for what is known of adopted models.
    type: path
    required: true
  weights:
    description: Whether it has to have weights. A tokenizer has none.
    type: bool
    default: true
  tokenizer:
    description: Whether it has to have a tokenizer of its own.
    type: bool
    default: false
  content:
    description: Read every file again. One whose content changed although nobody wrote to it is refused.
    type: bool
    default: false
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  action:
    description: Has a part that runs on the controller, and says there what went wrong.
    support: full
  check_mode:
    description: Can run in check mode.
    support: full
    details:
      - Reads only what the files say of themselves then, and notes nothing.
  diff_mode:
    description: Shows what changed.
    support: none
  idempotent:
    description: A second run reads nothing.
    support: full
"""

EXAMPLES = r"""
- name: Models | Take one from the disks of the host
  baremetal.llm.model_adopt:
    path: /data/models/Qwen2.5-14B-Instruct
    notes: /opt/llm/adopted.json
"""

RETURN = r"""
digest:
  description: One SHA-256 for all files, the same on hosts that have the same ones; empty in check mode.
  returned: success
  type: str
files:
  description: How many files it has.
  returned: success
  type: int
"""

import hashlib
import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, failure
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_object
from ansible_collections.baremetal.llm.plugins.module_utils._model_check import require_model
from ansible_collections.baremetal.llm.plugins.module_utils._model_files import hashed, listed, matters
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import Known, write_json, yield_to_others


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "notes": {"type": "path", "required": True},
            "weights": {"type": "bool", "default": True},
            "tokenizer": {"type": "bool", "default": False},
            "content": {"type": "bool", "default": False},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    path, notes = module.params["path"], module.params["notes"]
    if not os.path.exists(path):
        module.fail_json(**failure("model_no_folder", path=path))
    folder, names = (
        (path, matters(listed(path))) if os.path.isdir(path) else (os.path.dirname(path), [os.path.basename(path)])
    )
    try:
        require_model(folder, names, module.params["weights"], module.params["tokenizer"], said=path)
        if module.check_mode:
            module.exit_json(changed=False, digest="", files=len(names))
        # By folder; an unreadable note only means that files are read again.
        known: Any = read_object(notes)
        last: dict[str, Known] = known.get(path) or {}
        if module.params["content"]:
            yield_to_others()
        found = hashed(folder, names, {} if module.params["content"] else last)
        rotten = [
            name
            for name, one in found.items()
            if name in last and last[name]["stamp"] == one["stamp"] and last[name]["sha256"] != one["sha256"]
        ]
        if rotten:
            module.fail_json(**failure("model_rotten", path=path, files=", ".join(rotten)))
        changed = found != last
        if changed:
            os.makedirs(os.path.dirname(notes), mode=0o755, exist_ok=True)
            write_json(notes, {**known, path: found})
    except CodedError as error:
        module.fail_json(**failure(error.code, **error.values))
    except OSError as error:
        module.fail_json(**failure("as_given", reason=error))
    listing = json.dumps([[name, one["sha256"]] for name, one in sorted(found.items())])
    module.exit_json(changed=changed, digest=hashlib.sha256(listing.encode()).hexdigest(), files=len(names))


if __name__ == "__main__":
    main()
