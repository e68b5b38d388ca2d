#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_transfer
short_description: Bring a bundle onto disks, and off them again
version_added: 0.1.0
description:
  - Copies a bundle to a folder, files that are too large for its file system in parts, or copies one from such folders into the
    folder of a bundle and puts the parts together. Everything is compared with its SHA-256 on the way.
  - What was copied before and not touched since is not copied again.
  - Runs on the controller.
options:
  bundle:
    description: Folder of the bundle on the controller.
    type: path
    required: true
  checks:
    description: File that remembers what was copied, as M(baremetal.llm.bundle_verify) has it.
    type: path
    required: true
  export:
    description: Folder that the bundle is copied to.
    type: path
  sources:
    description:
      - Folders that a bundle is brought in from. Its files and parts may be spread over them.
      - One of them holds C(manifest.yml), or C(plan.json) where the script of the lists has fetched the files.
    type: list
    elements: path
  split_mib:
    description: Largest file on the disk. V(0) splits nothing. FAT32 takes V(4095).
    type: int
    default: 0
  manifest_sha256:
    description: What the SHA-256 of the manifest that is brought in has to be. Left out, it is not compared.
    type: str
    default: ""
  allowed_signers:
    description: Who may have signed that manifest, as M(baremetal.llm.bundle_verify) has it.
    type: str
    default: ""
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Says what would be copied, and copies nothing.
    support: full
  diff_mode:
    description: Lists the files that are, or would be, copied.
    support: full
  idempotent:
    description: A second run copies nothing.
    support: full
"""

EXAMPLES = r"""
- name: Bundle | Copy it to a USB disk
  baremetal.llm.bundle_transfer:
    bundle: /srv/llm-bundle
    checks: /var/tmp/bundle-checks.json
    export: /media/usb/llm-bundle
    split_mib: 4095
"""

RETURN = r"""
copied:
  description: Files that were copied, or would be in check mode.
  returned: success
  type: list
  elements: str
artefacts:
  description: What a bundle without manifest holds now, as M(baremetal.llm.bundle_manifest) takes it.
  returned: success
  type: list
  elements: dict
"""
