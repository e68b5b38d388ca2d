#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: online_sources
short_description: Ask registries and hubs what deployments without a bundle get from them
version_added: 0.1.0
description:
  - For every deployment whose hosts may reach the internet (C(llm_offline=false)) and have no bundle, it asks the registry for the digest of the
    image, and the hub for the files of the models with sizes and SHA-256.
  - The answers are kept in C(llm_sources_dir), with the small files of the models. A later run keeps to them and asks nobody, until
    C(bundle_update_enabled) says otherwise.
  - Everything that cannot be had is named at once, before a host is touched - images and models that nobody has, and files that a mirror lists
    without having them.
  - Runs on the controller. Mirrors, proxy, tokens and credentials are the variables of the role C(bundle), and no options, so that nothing can
    print them.
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller
author:
  - The baremetal.llm authors (@baremetal-llm)
requirements:
  - "the Python library huggingface_hub or modelscope-hub, for models"
"""

EXAMPLES = r"""
- name: Online | Ask registries and hubs
  baremetal.llm.online_sources:
  run_once: true
"""

RETURN = r"""
images:
  description: Each image with the digest under which all hosts pull it.
  returned: success
  type: list
  elements: str
files:
  description: How many files the models have.
  returned: success
  type: int
"""
