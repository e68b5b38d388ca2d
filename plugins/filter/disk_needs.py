# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.module_utils import _disks as disks

DOCUMENTATION = r"""
name: disk_needs
short_description: What a bundle puts on a host's disks
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - From the manifest of a bundle, what goes where on a host that serves one of its models. Sizes are those of the manifest.
  - The engine unpacks an archive of images below its data root before it registers the layers, so it needs that room twice.
positional: _input
options:
  _input:
    description: The content of the bundle's C(manifest.yml).
    type: dict
    required: true
  model:
    description: The model that the host serves. Other models of the bundle do not come to it.
    type: str
    default: ""
  host_dir:
    description: The directory on the host that takes the bundle's files and the models.
    type: str
    default: /opt/llm
  docker_root:
    description: The engine's data root.
    type: str
    default: /var/lib/docker
seealso:
  - module: baremetal.llm.disk_facts
"""

EXAMPLES = r"""
- name: Disk | Show what goes where
  ansible.builtin.debug:
    msg: "{{ manifest | baremetal.llm.disk_needs(model=vllm_model) }}"
  vars:
    manifest: {files: "{{ query('baremetal.llm.bundle_files', llm_bundle_dir) }}"}
"""

RETURN = r"""
_value:
  description:
    - Mappings with C(directory), C(bytes), C(name) (of the file that is copied) and C(marks) (paths that tell that an image is
      loaded already).
  type: list
  elements: dict
"""


def disk_needs(
    manifest: Any, model: str = "", host_dir: str = "/opt/llm", docker_root: str = "/var/lib/docker"
) -> list[dict[str, Any]]:
    """The filter; see the documentation above."""
    if not isinstance(manifest, Mapping):
        raise AnsibleFilterError(f"disk_needs wants the content of a manifest.yml, not {type(manifest).__name__}")
    return disks.disk_needs(manifest, model=str(model or ""), host_dir=str(host_dir), docker_root=str(docker_root))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"disk_needs": disk_needs}
