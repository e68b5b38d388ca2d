# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the images and models of a host come from: a bundle, or registries and hubs."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true


def is_online(variables: Mapping[str, object]) -> bool:
    """Whether a host gets images and models from registries and hubs: it may, and there is no bundle."""
    return not is_true(variables.get("llm_offline", True)) and not variables.get("llm_bundle_dir")


def manifest_folder(variables: Mapping[str, object]) -> str:
    """The folder whose manifest says what a host's images and models are: its bundle, or what was asked from registries and hubs; may be empty."""
    folder = variables.get("llm_sources_dir") if is_online(variables) else variables.get("llm_bundle_dir")
    return str(folder or "")
