#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_check
short_description: Refuse an image from a registry that cannot serve the GPUs of its hosts
version_added: 0.1.0
description:
  - Of the hosts that have pulled an image the first one reads the GPU code in it (M(baremetal.llm.image_inspect)), and the result is kept in
    C(llm_sources_dir), so that an image is read once. It is compared with the GPUs that were found, as the images of a bundle are when it is made.
  - Where hosts have a bundle there is nothing to do.
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller_part
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Images | Compare what was pulled with the GPUs
  baremetal.llm.image_check:
"""

RETURN = r"""
images:
  description: The images that were read now, as M(baremetal.llm.image_inspect) returns them.
  returned: success
  type: list
  elements: dict
"""
