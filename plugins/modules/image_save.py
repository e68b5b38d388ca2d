#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_save
short_description: Write an image of the engine into an archive
version_added: 0.1.0
description:
  - Writes what C(docker save) would write, notes the SHA-256 of the archive in O(dest), and gives the archive its name when all of it is on the disk.
    M(baremetal.llm.fanout) hands it on.
  - An archive that is there as it was noted stays. Its name should say which image it is.
  - Where the disk has no room for the archive, or the engine breaks off, there is no archive, and that is no failure because other hosts can pull the image.
options:
  reference:
    description: The image, by a name with a tag.
    type: str
    required: true
  dest:
    description: Folder on the host.
    type: path
    required: true
  path:
    description: Name of the archive below it.
    type: str
    required: true
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  action:
    description: Has a part that runs on the controller, and warns there where no archive was written.
    support: full
  async:
    description: Can be run in the background.
    support: none
  check_mode:
    description: Says whether an archive would be written, and writes none.
    support: full
  diff_mode:
    description: Shows what changed.
    support: none
"""

EXAMPLES = r"""
- name: Images | Save an image for other hosts
  baremetal.llm.image_save:
    reference: vllm/vllm-openai:v0.11.0
    dest: /opt/llm/bundle
    path: images-4f2c9d0e1b7a.tar
"""

RETURN = r"""
saved:
  description: Whether the archive is there.
  returned: success
  type: bool
"""

import contextlib
import hashlib
import http.client
import os
import shutil
import urllib.parse

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes, stamp
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING, place, write_state
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, coded
from ansible_collections.baremetal.llm.plugins.module_utils._engine import ENGINE_SOCKET, ask_engine, saved_image
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import read_state

MIB = 1 << 20


def is_there(dest: str, path: str) -> bool:
    known, now = read_state(dest).get(path), stamp(os.path.join(dest, path))
    return bool(now and known and known.get("stamp") == now)


def require_room(dest: str, reference: str, socket: str = ENGINE_SOCKET) -> None:
    """CodedError where the archive could fill the disk. The engine says how many bytes the layers have unpacked, which is what an archive holds."""
    image = ask_engine("/images/{0}/json".format(urllib.parse.quote(reference, safe="")), socket) or {}
    needed, free = int(image.get("Size") or 0), shutil.disk_usage(dest).free
    if needed > free:
        sizes = {"free": human_bytes(free), "needed": human_bytes(needed)}
        raise CodedError("no_room", folder=dest, variable="llm_host_dir", **sizes)


def save(reference: str, dest: str, path: str, socket: str = ENGINE_SOCKET) -> None:
    """Write the archive, under its name only when it is complete. OSError or HTTPException where the engine has no such image or breaks off."""
    digest, size = hashlib.sha256(), 0
    arrived = os.path.join(dest, INCOMING, "saving-" + hashlib.sha256(path.encode()).hexdigest()[:16])
    try:
        with saved_image(reference, socket) as stream, open(arrived, "wb", opener=_own_files.no_link) as out:
            while True:
                piece = stream.read(MIB)
                if not piece:
                    break
                digest.update(piece)
                out.write(piece)
                size += len(piece)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(arrived)
        raise
    state = read_state(dest)
    place(dest, {"path": path, "size": size, "sha256": digest.hexdigest()}, arrived, state)
    write_state(dest, state)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "reference": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "path": {"type": "str", "required": True},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    reference, dest, path = (module.params[name] for name in ("reference", "dest", "path"))
    if is_there(dest, path):
        module.exit_json(changed=False, saved=True)
    if module.check_mode:
        module.exit_json(changed=True, saved=False)
    try:
        os.makedirs(os.path.join(dest, INCOMING), mode=0o700, exist_ok=True)
        require_room(dest, reference)
        save(reference, dest, path)
    except CodedError as error:
        module.exit_json(changed=False, saved=False, why=coded(error.code, **error.values))
    except (OSError, http.client.HTTPException) as error:
        module.exit_json(changed=False, saved=False, why=coded("as_given", reason=error))
    module.exit_json(changed=True, saved=True)


if __name__ == "__main__":
    main()
