#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_fetch
short_description: Let a host fetch a model from its hub
version_added: 0.1.0
description:
  - Fetches the files of a model that the host lacks, as a manifest of the controller names them (M(baremetal.llm.online_sources)).
  - What an interrupted run had fetched is continued, not fetched again. Every file is compared with its SHA-256 before it gets its name.
  - The tokens of hubs and the proxy are the variables C(bundle_huggingface_token), C(bundle_modelscope_token) and C(bundle_proxy).
options:
  bundle:
    description: Folder on the controller whose C(manifest.yml) names the files.
    type: path
    required: true
  model:
    description: The model, as the manifest names it.
    type: str
    required: true
  dest:
    description: Folder on the host for all models.
    type: path
    required: true
  content:
    description: Read every file on the host again, instead of trusting size and modification time.
    type: bool
    default: false
  files:
    description: Internal. What the controller's part asks the host's part about.
    type: list
    elements: dict
  phase:
    description: Internal. Whether the host's part shall C(check) what is missing or C(fetch) it.
    type: str
    choices: [check, fetch]
    default: check
  headers:
    description: Internal. What the hub wants to see.
    type: dict
    default: {}
  proxy:
    description: Internal. The way to the hub.
    type: str
    default: ""
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller_part
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Says what would be fetched and fetches nothing.
    support: full
  diff_mode:
    description: Lists the files that are, or would be, fetched.
    support: full
  idempotent:
    description: A second run fetches nothing.
    support: full
"""

EXAMPLES = r"""
- name: Models | Let the host fetch its model
  baremetal.llm.model_fetch:
    bundle: "{{ llm_sources_dir }}"
    model: Qwen/Qwen2.5-14B-Instruct
    dest: /opt/llm/models
"""

RETURN = r"""
fetched:
  description: Paths below O(dest) of the files that were fetched, or would be in check mode.
  returned: success
  type: list
  elements: str
rotten:
  description: Those of RV(fetched) that were on the host, with the right size and time, and another content.
  returned: success
  type: list
  elements: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import look
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, failure
from ansible_collections.baremetal.llm.plugins.module_utils._download import make_opener
from ansible_collections.baremetal.llm.plugins.module_utils._model_files import fetch


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "bundle": {"type": "path", "required": True},
            "model": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "content": {"type": "bool", "default": False},
            "files": {"type": "list", "elements": "dict"},
            "phase": {"type": "str", "choices": ["check", "fetch"], "default": "check"},
            "headers": {"type": "dict", "default": {}, "no_log": True},
            "proxy": {"type": "str", "default": "", "no_log": True},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    # Containers read the models as another user, whatever a host lets root's files be by default.
    os.umask(0o022)
    said = module.params
    dest, files = said["dest"], said["files"] or []
    try:
        if said["phase"] == "check":
            found = look(dest, files, said["content"], module.check_mode, "models_dir")
            module.exit_json(changed=bool(found["missing"]), **found)
        module.exit_json(changed=True, wrong=fetch(dest, files, said["headers"], make_opener(said["proxy"])))
    except CodedError as error:
        module.fail_json(**failure(error.code, **error.values))
    except OSError as error:
        module.fail_json(**failure("not_writable", folder=dest, reason=error, variable="models_dir"))


if __name__ == "__main__":
    main()
