#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_decide
short_description: Decide what the bundle of an inventory has to hold
version_added: 0.1.0
description:
  - From the deployments, as M(baremetal.llm.inventory_check) left them in C(llm_inventory) of localhost, and the variables of their
    hosts, the images, the driver, the engine, the toolkit, the packages, the wheels and the models that the bundle has to hold.
  - Describes the archive of the images for the manifest, and refuses images that the engine of this machine lacks.
  - Refuses images that cannot run on the GPUs that the inventory declares (C(llm_gpus)) or with the driver that the hosts will have, and
    names the release that works.
  - Which of these it does follows from its options. Runs on the controller and touches no host.
options:
  bundle:
    description: Folder of the bundle on the controller. It need not exist yet.
    type: path
    required: true
  wishes:
    description:
      - Decide what the bundle has to hold, with these wishes - C(images) and C(artefacts) that are named outright, C(systems) of the hosts,
        as in V(debian-12), C(kernels) whose headers are needed, C(wheels), the C(hub) of the models, C(model_sources) of some of them,
        and the C(compression) of the archive of the images.
    type: dict
  images:
    description: Describe the archive that holds these images.
    type: list
    elements: dict
  engine_images:
    description: What the engine says of images, as M(community.docker.docker_image_info) returns it.
    type: list
    elements: dict
  archive:
    description: Path of the archive in the bundle.
    type: str
  checked_images:
    description: Refuse these images, as a manifest records them, if they cannot serve their deployments.
    type: list
    elements: dict
  artefacts:
    description: What the bundle will hold, as M(baremetal.llm.bundle_manifest) takes it. Its drivers count when images are checked.
    type: list
    elements: dict
    default: []
  offered:
    description: Folders one of which may hold a complete bundle, whose images are checked likewise, with its own drivers.
    type: list
    elements: path
    default: []
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Bundle | Decide what it has to hold
  baremetal.llm.bundle_decide:
    bundle: /srv/llm-bundle
    wishes:
      systems: [debian-12]
  register: __decided
"""

RETURN = r"""
wanted:
  description:
    - C(images), their C(compression) and the path of their C(archive), C(other_archives) (where an earlier run may have put them),
      C(items), as M(baremetal.llm.bundle_fetch) takes them, the number of C(hosts), C(problems) (texts about what the inventory does not say),
      C(ray_images) (references of the images that have to hold Ray) and C(known_images) (what the bundle's manifest says of its images).
  returned: if O(wishes) is given
  type: dict
archive:
  description: The archive of the images, as M(baremetal.llm.bundle_manifest) takes it.
  returned: if O(images) is given
  type: dict
archived:
  description: Whether the bundle holds it already.
  returned: if O(images) is given
  type: bool
"""
