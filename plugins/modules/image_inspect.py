#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_inspect
short_description: Say what is inside container images
version_added: 0.1.0
description:
  - Reads which GPUs the CUDA code of vLLM, torch and the libraries beside them is built for, and the versions of what vLLM runs
    on. Needs no GPU and no CUDA tool, and unpacks nothing to disk.
  - Runs on the controller, and on hosts with an engine. Changes nothing.
options:
  path:
    description: An archive of images, as C(docker save) writes it, or an OCI layout in a tar archive; compressed or not.
    type: path
  reference:
    description: An image of the machine's engine.
    type: str
  records:
    description:
      - What else is to be recorded of the images, each with C(reference) and C(id). RV(images) has these then, each completed
        with its C(contents).
    type: list
    elements: dict
    default: []
  known:
    description: RV(images) of an earlier run. If it has the contents of all O(records), the archive is not read.
    type: list
    elements: dict
    default: []
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  action:
    description: Has a part that runs on the controller, and says there what went wrong.
    support: full
requirements:
  - "for O(reference) the engine's socket, or, where another engine is named by DOCKER_HOST, the Python library docker"
  - "the Python library zstandard or Python 3.14, for what is compressed with zstd"
"""

EXAMPLES = r"""
- name: Images | Look into an archive
  baremetal.llm.image_inspect:
    path: /srv/llm-bundle/images/images.tar
  register: __inspected

- name: Images | Show it
  ansible.builtin.debug:
    msg: "{{ __inspected.text }}"
"""

RETURN = r"""
images:
  description:
    - Each image with its C(references), its C(id), and, where they are known, C(vllm_version), C(torch_version), C(ray_version),
      C(cuda_version), C(python_version), C(driver_minimum), C(driver_requirement) (what its environment asks of the driver), and
      C(compute_capabilities), those that both vLLM and torch hold code for.
    - C(libraries) has per library the number of its fat binaries (C(containers)), in how many of them each architecture is
      (C(architectures)), and C(built_for), the architectures without strays.
  returned: success
  type: list
  elements: dict
text:
  description: The same, for people.
  returned: success
  type: list
  elements: str
"""

import io
import os
from collections.abc import Iterator

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.baremetal.llm.plugins.module_utils._coded import failure
from ansible_collections.baremetal.llm.plugins.module_utils._engine import ENGINE_SOCKET, saved_image
from ansible_collections.baremetal.llm.plugins.module_utils._image_archive import complete, read_archive, remembered
from ansible_collections.baremetal.llm.plugins.module_utils._image_layers import ArchiveError

try:
    import docker

    HAS_DOCKER = True
except ImportError:
    HAS_DOCKER = False


class Pieces(io.RawIOBase):
    """The pieces that the engine sends, as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces, self.rest = pieces, b""

    def read(self, size: int = -1, /) -> bytes:
        if not self.rest:
            self.rest = next(self.pieces, b"")
        found, self.rest = self.rest[:size], self.rest[size:]
        return found


def look(module: AnsibleModule) -> list[dict[str, object]]:
    path, reference = module.params["path"], module.params["reference"]
    if path:
        with open(path, "rb") as stream:
            return read_archive(stream)
    if not os.environ.get("DOCKER_HOST") and os.path.exists(ENGINE_SOCKET):
        with saved_image(reference) as stream:
            return [{**one, "references": [reference]} for one in read_archive(stream)]
    if not HAS_DOCKER:
        module.fail_json(**failure("as_given", reason=missing_required_lib("docker")))
    try:
        # The engine reads a layer from its disk before it sends the next piece.
        client = docker.from_env(timeout=600)
        image = client.images.get(reference)
        found = read_archive(Pieces(image.save()))
    except docker.errors.DockerException as error:
        module.fail_json(**failure("image_nowhere", reference=reference, reason=error))
    return [{**one, "references": [reference]} for one in found]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "reference": {"type": "str"},
            "records": {"type": "list", "elements": "dict", "default": []},
            "known": {"type": "list", "elements": "dict", "default": []},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        required_one_of=[("path", "reference")],
        mutually_exclusive=[("path", "reference")],
        supports_check_mode=True,
    )
    records = module.params["records"]
    seen = remembered(records, module.params["known"]) if records else None
    try:
        images = look(module) if seen is None else seen
        completed = complete(records, images)
    except (OSError, ArchiveError) as error:
        where = os.path.abspath(module.params["path"]) if module.params["path"] else module.params["reference"]
        module.fail_json(**failure("image_unreadable", path=where, reason=error))
    module.exit_json(changed=False, images=completed or images)


if __name__ == "__main__":
    main()
