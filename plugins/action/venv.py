# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of venv: says in the language of the task why the module failed."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import SpeakingAction


class ActionModule(SpeakingAction):
    """All that there is to do, modules with messages have in common."""
