# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's playbooks, run against the lab as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from lab.config import CHECKOUT
from lab.progress import LabError, say

INVENTORY = "inventories/lab"
BIN = Path(sys.executable).parent
SHOWN_LINES = 60


def show(name: str, *arguments: str) -> None:
    """Run a playbook with its output on the screen."""
    command = _command(name, arguments)
    say(f"\n$ {' '.join(command)}")
    if _run(command, None):
        raise LabError(f"{' '.join(command)} failed; its last lines above say why. Run it again when that is mended.")


def log(file: Path, name: str, *arguments: str) -> None:
    """Run a playbook with its output in a file; the last lines are shown when it fails."""
    command = _command(name, arguments)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as output:
        status = _run(command, output)
    if status:
        lines = file.read_text(errors="replace").splitlines()[-SHOWN_LINES:]
        raise LabError("\n".join([f"{' '.join(command)} failed. The end of {file}:", *lines]))


def _command(name: str, arguments: tuple[str, ...]) -> list[str]:
    return ["ansible-playbook", f"playbooks/{name}.yml", "-i", INVENTORY, *arguments]


def _run(command: list[str], output: IO[str] | None) -> int:
    # What molecule sets for its own playbooks would change what these do.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MOLECULE_"))}
    return subprocess.run(
        [BIN / command[0], *command[1:]], cwd=CHECKOUT, env=environment, stdout=output, stderr=output
    ).returncode
