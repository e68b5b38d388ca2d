#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_pull
short_description: Let a host copy a model from an rsync server, or from what rclone reads
version_added: 0.1.0
description:
  - Lets rsync or rclone of the host copy a model. What arrives has to be whole - no file is missing, cut off, unfinished, or a pointer or
    a web page instead of the file - and its SHA-256 are noted, because nobody has published them. Other hosts get the same files with
    M(baremetal.llm.fanout).
  - What has been copied once is not asked for again, as long as nobody touches it.
options:
  source:
    description: V(rsync://HOST/MODULE/PATH), or a path of rclone such as V(s3:bucket/models/qwen), whose remote is configured on the host.
    type: str
    required: true
  dest:
    description: Folder on the host for all models.
    type: path
    required: true
  folder:
    description: Folder of the model below it.
    type: str
    required: true
  files:
    description: Patterns of the weights that are wanted; left out, all of them.
    type: list
    elements: str
    default: []
  tokenizer:
    description: Whether it has to have a tokenizer of its own.
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
    description: Says whether it would copy, and copies nothing.
    support: full
  diff_mode:
    description: Shows what changed.
    support: none
  idempotent:
    description: A second run copies nothing.
    support: full
"""

EXAMPLES = r"""
- name: Models | Copy one from an rsync server
  baremetal.llm.model_pull:
    source: rsync://store.example/models/Qwen2.5-14B-Instruct
    dest: /opt/llm/models
    folder: Qwen--Qwen2.5-14B-Instruct
"""

RETURN = r"""
files:
  description: The files that came, below O(folder).
  returned: if they were copied
  type: list
  elements: str
"""

import hashlib
import os
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, failure
from ansible_collections.baremetal.llm.plugins.module_utils._model_files import has_pulled, pull_command, take_pulled


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "folder": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "str", "default": []},
            "tokenizer": {"type": "bool", "default": False},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    source, dest, folder = (module.params[name] for name in ("source", "dest", "folder"))
    if has_pulled(dest, folder, source):
        module.exit_json(changed=False)
    # The same place each time, so that an interrupted copy goes on.
    arrived = os.path.join(dest, INCOMING, "pull-" + hashlib.sha256(source.encode()).hexdigest()[:16])
    command = pull_command(source, arrived, module.params["files"])
    if not shutil.which(command[0]):
        module.fail_json(**failure("model_no_program", program=command[0], source=source))
    if module.check_mode:
        module.exit_json(changed=True, files=[])
    try:
        os.makedirs(arrived, mode=0o755, exist_ok=True)
        status, out, said = module.run_command(command)
        if status:
            text = (said or out).strip()[-1000:]
            module.fail_json(**failure("model_program_failed", program=command[0], source=source, said=text))
        names = take_pulled(dest, folder, arrived, source, module.params["tokenizer"])
        shutil.rmtree(arrived)
    except CodedError as error:
        module.fail_json(**failure(error.code, **error.values))
    except OSError as error:
        module.fail_json(**failure("not_writable", folder=dest, reason=error, variable="models_dir"))
    module.exit_json(changed=True, files=names)


if __name__ == "__main__":
    main()
