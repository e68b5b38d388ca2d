# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make demo`: the commands a user would type, one after the other, on the lab's hosts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lab.config import CHECKOUT
from lab.progress import LabError, say

INVENTORY = "inventories/lab"
BIN = Path(sys.executable).parent


def playbook(name: str, *arguments: str) -> None:
    """Run a playbook against the lab, with its output on the screen."""
    command = ["ansible-playbook", f"playbooks/{name}.yml", "-i", INVENTORY, *arguments]
    say(f"\n$ {' '.join(command)}")
    if subprocess.run([BIN / command[0], *command[1:]], cwd=CHECKOUT).returncode:
        raise LabError(f"{' '.join(command)} failed; its last lines above say why. Run it again when that is mended.")


def run() -> int:
    """From bare hosts to a generated token."""
    playbook("bundle")
    playbook("site")
    say(
        f"""
What to try next
  ansible-playbook playbooks/site.yml -i {INVENTORY}            again: nothing changes
  ssh -F .lab/ssh/config node1                                 look around on a host
  less docs/runbooks/rebuild-a-node.md                         lose a host and get it back
  make demo-down                                               remove all of it"""
    )
    return 0
