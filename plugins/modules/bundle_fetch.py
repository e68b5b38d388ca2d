#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_fetch
short_description: Bring what a bundle lacks, from hubs, package sources, registries and web servers
version_added: 0.1.0
description:
  - Finds out which files each item consists of, says how much that is and how long it takes to the hosts, checks the free space, and
    fetches what is not there yet. Shows bytes and the time left on the way.
  - What was found out is kept in the bundle (C(.state/plan.json)), models with the hash of their commit, so that a second run
    asks nobody and fetches nothing. A file that broke off is continued by the next run.
  - Runs on the controller. Proxy, tokens and credentials are the variables C(bundle_proxy), C(bundle_huggingface_token),
    C(bundle_modelscope_token) and C(bundle_registry_credentials), and no options, so that nothing can print them.
options:
  bundle:
    description: Folder of the bundle; made if it is not there.
    type: path
    required: true
  checks:
    description: File that remembers what was read, as M(baremetal.llm.bundle_verify) has it.
    type: path
    required: true
  items:
    description:
      - What the bundle shall hold, as M(baremetal.llm.bundle_decide) returns it - each with C(kind), C(path), C(source) and
        C(fields). A source that is a path is handed on in RV(artefacts).
    type: list
    elements: dict
    required: true
  images:
    description: Images, each with its C(reference), that this machine's engine shall have. Those that it lacks are pulled.
    type: list
    elements: dict
    default: []
  hosts:
    description: To how many hosts the bundle goes, for the estimate.
    type: int
    default: 1
  network_gbit_per_second:
    description: How fast they are reached, for the estimate.
    type: float
    default: 10
  registry_mirrors:
    description: Per registry the mirrors that are asked first.
    type: dict
    default: {}
  url_mirrors:
    description: Per beginning of an address the beginnings that are tried first.
    type: dict
    default: {}
  os_mirrors:
    description: Per beginning of a package source's address the one that takes its place.
    type: dict
    default: {}
  os_keyrings:
    description: Per distribution the keyring that the signature of its packages is checked with.
    type: dict
    default: {}
  huggingface_endpoint:
    description: Address of Hugging Face or of a mirror.
    type: str
    default: https://huggingface.co
  modelscope_endpoint:
    description: Address of ModelScope.
    type: str
    default: https://modelscope.cn
  update:
    description: Ask again for the newest of everything, instead of keeping to what was found out last time.
    type: bool
    default: false
  lists:
    description: Fetch nothing; write plain lists of what would be fetched, and a script that does, into this folder.
    type: path
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Asks for names and sizes, says what would be fetched, and writes nothing.
    support: full
  diff_mode:
    description: Lists what is, or would be, fetched.
    support: full
  idempotent:
    description: A second run fetches nothing.
    support: full
"""

EXAMPLES = r"""
- name: Bundle | Fetch a driver
  baremetal.llm.bundle_fetch:
    bundle: /srv/llm-bundle
    checks: /var/tmp/bundle-checks.json
    items:
      - kind: driver
        path: driver/NVIDIA-Linux-x86_64-570.195.03.run
        source: https://us.download.nvidia.com/tesla/570.195.03/NVIDIA-Linux-x86_64-570.195.03.run
        fields: {method: runfile, version: 570.195.03, branch: "570"}
"""

RETURN = r"""
fetched:
  description: What was fetched, or would be in check mode, with its size.
  returned: success
  type: list
  elements: str
artefacts:
  description: Everything that the bundle holds now, as M(baremetal.llm.bundle_manifest) takes it.
  returned: success
  type: list
  elements: dict
written:
  description: The lists that were written, or would be in check mode.
  returned: when O(lists) is set
  type: list
  elements: str
"""
