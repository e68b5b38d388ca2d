#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_excerpt
short_description: Write what hosts lack of the images in a bundle
version_added: 0.1.0
description:
  - Writes archives without the images that no host of the play lacks, and without the layers that the engines of all of them have, into a bundle of its
    own in the folder C(.state) of the bundle, and returns where. An upgrade then sends the layers that are new.
  - What a host lacks is in its fact C(_images_lacking), a mapping with C(references) and C(layers). C(layers) is a list for each image that its engine
    has, of the SHA-256 of its layers as C(docker image inspect) says them; it is empty for an engine that needs whole images, as those with containerd's
    store do.
  - Where less than a tenth is saved, the archive was compressed as a whole, or there is no room to write, the bundle itself is returned.
options:
  bundle:
    description: Folder of the bundle on the controller.
    type: path
    required: true
  whole:
    description: Whether hosts get whole archives all the same.
    type: bool
    default: false
  written:
    description: What an earlier task has returned as RV(written). That folder is removed, and nothing else is done.
    type: path
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller_part
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Images | Write what hosts lack of the bundle
  baremetal.llm.image_excerpt:
    bundle: /srv/llm-bundle
  run_once: true
  register: __images_excerpt
"""

RETURN = r"""
bundle:
  description: The folder to bring images from.
  returned: without O(written)
  type: str
written:
  description: The same folder where it was written, for O(written) when the archives are on the hosts; empty where it is O(bundle).
  returned: without O(written)
  type: str
"""
