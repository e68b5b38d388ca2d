# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make demo`: the commands a user would type, one after the other, on the lab's hosts."""

from __future__ import annotations

from lab.playbook import INVENTORY, show
from lab.progress import say


def run() -> None:
    """From bare hosts to a generated token."""
    show("bundle")
    show("site")
    say(
        f"""
What to try next
  ansible-playbook playbooks/site.yml -i {INVENTORY}            again: nothing changes
  ssh -F .lab/ssh/config node1                                 look around on a host
  less docs/runbooks/rebuild-a-node.md                         lose a host and get it back
  make demo-down                                               remove all of it"""
    )
