# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast this machine is, and how fast the lab's states are restored on it: `make bench-lab`.

P, the yardstick, is how long a play of twenty pings takes on the lab's three hosts: the median of five runs. Everything that Ansible does
here takes a multiple of it, on a slow machine and on a fast one. States that are not kept yet are made first, which takes minutes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from lab.states import STATES

ROOT = Path(__file__).resolve().parent.parent
PINGS = [Path(sys.executable).parent / "ansible-playbook", "-i", "inventories/lab", "benchmarks/pings.yml"]


def seconds(*command: str | Path) -> float:
    """Wall time of a command that has to succeed."""
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}")
    return time.monotonic() - started


def lab(*arguments: str) -> float:
    """Wall time of a command of the lab."""
    return seconds(sys.executable, "-m", "lab", *arguments)


def main() -> None:
    """Print P, then each state's time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", nargs="*", default=list(STATES), choices=list(STATES), help="the states to restore")
    states = parser.parse_args().states
    lab("state", "restore", "bare")
    runs = [seconds(*PINGS) for _run in range(5)]
    p = statistics.median(runs)
    print(f"{'load before':28} {os.getloadavg()[0]:6.1f}")
    print(f"{'P: twenty pings, three hosts':28} {p:6.1f} s  ({', '.join(f'{run:.1f}' for run in runs)})", flush=True)
    for name in states:
        lab("state", "make", name)
        took = lab("state", "restore", name)
        print(f"{'restore ' + name:28} {took:6.1f} s  {took / p:4.1f} x P", flush=True)


if __name__ == "__main__":
    main()
