# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of model_share: says what went wrong."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import SpeakingAction


class ActionModule(SpeakingAction):
    """The module, in the language of the task."""
