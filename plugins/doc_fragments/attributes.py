# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What modules say of themselves. A module that can more, or says more exactly what, writes only that."""

    DOCUMENTATION = r"""
options: {}
attributes:
  platform:
    description: Where it runs.
    platforms: posix
    support: full
"""

    # It only looks.
    LOOKS = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and does the same there.
    support: full
  diff_mode:
    description: Shows what changed. Nothing does.
    support: none
"""

    # It reads what only Linux has.
    LINUX = r"""
options: {}
attributes:
  platform:
    description: Where it runs.
    platforms: linux
    support: full
"""

    FACTS = r"""
options: {}
attributes:
  facts:
    description: Returns facts about the host.
    support: full
"""

    # It is an action plugin.
    CONTROLLER = r"""
options: {}
attributes:
  action:
    description: Runs on the controller, without a connection to the host.
    support: full
  async:
    description: Can be run in the background.
    support: none
"""

    # It has an action plugin in front of it.
    CONTROLLER_PART = r"""
options: {}
attributes:
  action:
    description: Has a part that runs on the controller.
    support: full
  async:
    description: Can be run in the background.
    support: none
"""
