#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_compress
short_description: Compress the layers of an archive of images
version_added: 0.1.0
description:
  - Writes an archive of images anew, with each layer compressed by itself, and removes the first one. Engines load both. Of the new one each layer
    can be taken without the others, so that hosts get those that they lack. What was interrupted leaves nothing under the new name.
  - Runs where the bundle is made, usually the controller.
options:
  source:
    description: The archive. If it is not there but O(dest) is, nothing is done.
    type: path
    required: true
  dest:
    description: The archive with compressed layers.
    type: path
    required: true
  compression:
    description: How layers are compressed.
    type: str
    required: true
    choices: [zstd, gzip]
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
    description: Says whether it would be compressed, and does not.
    support: full
  diff_mode:
    description: Shows what changed. There is nothing to be shown.
    support: none
  idempotent:
    description: A second run finds the archive compressed.
    support: full
requirements:
  - "for V(zstd): the Python library zstandard, or Python 3.14"
"""

EXAMPLES = r"""
- name: Images | Compress the archive
  baremetal.llm.bundle_compress:
    source: /srv/llm-bundle/.state/images.tar
    dest: /srv/llm-bundle/images/images.zstd.tar
    compression: zstd
"""

RETURN = r"""
size:
  description: Bytes of the archive with compressed layers.
  returned: when it is there
  type: int
"""

import os

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_compress import compress, writer
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, failure


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "compression": {"type": "str", "required": True, "choices": ["zstd", "gzip"]},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    source, dest, name = (module.params[option] for option in ("source", "dest", "compression"))
    if writer(name) is None:
        module.fail_json(**failure("as_given", reason=missing_required_lib("zstandard")))
    there = os.path.exists(source)
    if not there and not os.path.exists(dest) and not module.check_mode:
        module.fail_json(**failure("compress_nothing", source=source, dest=dest))
    if there and not module.check_mode:
        try:
            compress(source, dest, name)
            os.unlink(source)
        except (OSError, CodedError) as error:
            module.fail_json(**failure("compress_failed", source=source, dest=dest, reason=error))
    sizes = {"size": os.path.getsize(dest)} if os.path.exists(dest) else {}
    module.exit_json(changed=there, **sizes)


if __name__ == "__main__":
    main()
