# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether ``models_source`` names something that models can come from."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import SOURCE
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems

_ALLOWED = re.compile(r"(host|controller):/.+|rsync://[^/]+/.+|rclone:[^:]+:.*")


def source_problems(inventory: Inventory) -> Problems:
    """Malformed sources, and a folder of the controller beside a bundle, which has the model itself."""
    for deployment, members in inventory.deployments.items():
        if not members:
            continue
        head = inventory.head(members)
        said = inventory.get(head, SOURCE)
        if not said or inventory.is_open(head, SOURCE):
            continue
        where = inventory.where(SOURCE, head, deployment)
        for source in said.values() if isinstance(said, Mapping) else [said]:
            if not isinstance(source, str) or not _ALLOWED.fullmatch(source):
                yield inventory.problem("models_source_malformed", value=inventory.text(source), where=where)
            elif source.startswith("controller:") and inventory.get(head, "llm_bundle_dir"):
                yield inventory.problem("models_source_and_bundle", value=inventory.text(source), where=where)
