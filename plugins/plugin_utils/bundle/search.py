# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model's config.json that no file names: from the catalogue, else from the hubs that the controller's variables name."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.module_utils._download import make_opener
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.hub import ask, hubs
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.model_config import Found
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import config_of


def search_config(model: str, controller: Mapping[str, object]) -> Found:
    """What is known of a model by its name. ``controller`` has the variables of hubs, their tokens and the proxy (``bundle_*``)."""
    known = config_of(model)
    if known:
        return Found(known, Text("config_from_catalogue"))
    tokens = {hub: str(controller.get(f"bundle_{hub}_token") or "") for hub in ("huggingface", "modelscope")}
    endpoint = str(controller.get("bundle_huggingface_endpoint") or os.environ.get("HF_ENDPOINT") or "")
    places = hubs(endpoint, str(controller.get("bundle_modelscope_endpoint") or ""), tokens)
    answer = ask(model, places, make_opener(str(controller.get("bundle_proxy") or "")))
    origin = Text("config_from_hub", url=answer.url) if answer.config else None
    tried = answer.tried or [Text("config_place", place=model, reason=Text("config_no_id"))]
    return Found(answer.config, origin, tried)
