#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_verify
short_description: Compare a bundle on the controller with its manifest
version_added: 0.1.0
description:
  - Compares every file of a bundle with the size and SHA-256 that its manifest names, several files at a time, and fails with the
    names of all that are missing, of the wrong size, corrupt, swapped with another or no plain files.
  - A file that was right and was not touched since is not read again. Files that the manifest does not know are a warning.
  - Runs on the controller, needs no network and changes nothing in the bundle.
options:
  bundle:
    description:
      - Folder of the bundle on the controller; C(manifest.yml) lies in it.
      - Left out, it is each that a host of a deployment or of a service names, its C(llm_bundle_dir). What was verified holds for the run - no task
        reads another manifest of that folder later. M(baremetal.llm.inventory_check) has to have left
        the deployments in C(llm_inventory) of localhost.
    type: path
  manifest_sha256:
    description:
      - What the SHA-256 of the manifest has to be. Left out, it is only shown.
      - Without O(bundle) it is the C(llm_bundle_manifest_sha256) of each of these hosts, as O(allowed_signers) is its C(llm_bundle_allowed_signers).
    type: str
    default: ""
  allowed_signers:
    description: >-
      Who may have signed the manifest - an OpenSSH public key, or the path of a file of allowed signers, as ssh-keygen(1) describes it. Left out,
      signatures are not looked at.
    type: str
    default: ""
  checks:
    description: File on the controller that remembers what was read. It may hold several bundles, and may be deleted any time.
    type: path
    required: true
  content:
    description: Whether contents are compared, and not only names and sizes.
    type: bool
    default: true
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Does the same, and remembers nothing.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: A second run reads nothing that was not touched.
    support: full
"""

EXAMPLES = r"""
- name: Bundle | Compare it with its manifest
  baremetal.llm.bundle_verify:
    bundle: /srv/llm-bundle
    checks: /var/tmp/bundle-checks.json
"""

RETURN = r"""
files:
  description: How many files the manifest lists.
  returned: always
  type: int
bytes:
  description: Their size together.
  returned: always
  type: int
read_bytes:
  description: How much of it was read this time.
  returned: always
  type: int
manifests:
  description: By the folder of each bundle the SHA-256 of its manifest.
  returned: always
  type: dict
faults:
  description: >-
    What is wrong with the first bundle that is not as it should be, by C(missing), C(link), C(size), C(corrupt), C(swapped) and C(extra),
    each a list of files.
  returned: always
  type: dict
  sample: {corrupt: [models/Qwen--Qwen2.5-7B/model-00001-of-00004.safetensors]}
"""
