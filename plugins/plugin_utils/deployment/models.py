# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The models that the hosts of a deployment need: the one that is served, and the folders that it is served with.

A tokenizer from elsewhere, a draft model and an adapter are folders of a model hub like any model. They come with the bundle in the same way
and lie in the same folder on the hosts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings

# The variables that name one model each.
BY_NAME = ("vllm_model", "vllm_tokenizer", "vllm_speculative_model")
ADAPTERS = "vllm_lora_adapters"


def needed_models(variables: Mapping[str, Any]) -> dict[str, str]:
    """Each model with the variable that names it, the served one first; by name as in the bundle, or as a path on the hosts.

    What is no text is somebody else's to refuse.
    """
    named = [(variables.get(name), name) for name in BY_NAME]
    named += [(adapter.get("model"), ADAPTERS) for adapter in mappings(variables.get(ADAPTERS))]
    found: dict[str, str] = {}
    for model, variable in named:
        if isinstance(model, str) and model:
            found.setdefault(model, variable)
    return found


def folder_of(variables: Mapping[str, Any], model: str) -> str:
    """Where a model lies on its hosts."""
    return model if posixpath.isabs(model) else f"{variables['models_dir']}/{model.replace('/', '--')}"


def model_path(variables: Mapping[str, Any]) -> str:
    """Where the served model lies on its hosts."""
    return folder_of(variables, str(variables["vllm_model"]))


def folders_outside(variables: Mapping[str, Any]) -> list[str]:
    """The folders of models that do not lie in ``models_dir``."""
    inside = str(variables["models_dir"]).rstrip("/") + "/"
    folders = [folder_of(variables, model) for model in needed_models(variables)]
    return [folder for folder in folders if not posixpath.normpath(folder).startswith(inside)]
