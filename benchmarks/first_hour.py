# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a clone to a plan for hosts of one's own, as the first screen of README.md says it: `make bench-first-hour`.

In a clean clone of the last commit the commands of that screen are run, with the lab's three hosts in place of the reader's: `make env` twice, the second
time with the downloads of the first, `discover.yml`, a plan of the inventory that it wrote, and the plan from one line. Printed is what each took beside
what it should take. Nothing fails by its time.

usage: python benchmarks/first_hour.py [--clone REPOSITORY] [--no-hosts]   # --no-hosts: without the lab's hosts, which need what `make demo` needs
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from lab import config  # noqa: E402

# What stands in the environment of a test, and not in that of a reader.
NOT_A_READERS = re.compile(
    r"^(ANSIBLE_|MOLECULE_|PYTEST_|MAKE|MFLAGS$|ARGS$|PYTHONPATH$|PYTHONDONTWRITEBYTECODE$|VIRTUAL_ENV$)"
)
LAST_LINES = 30
BEST_OF = 3


@dataclass(frozen=True)
class FirstScreen:
    """The commands of README.md: those that lead to a plan for one's own hosts, after the clone, and the plan from one line."""

    road: tuple[str, ...]
    one_line: str

    @property
    def environment(self) -> str:
        return self.road[0]

    @property
    def discover(self) -> str:
        return next(line for line in self.road if "discover.yml" in line)

    @property
    def inventory(self) -> str:
        """The folder that the last command takes."""
        return self.road[-1].split(" -i ")[1].split()[0]


def first_screen(text: str) -> FirstScreen:
    """The commands of a README. Raises ValueError where it has none."""
    blocks = [
        found.strip().splitlines() for found in re.findall(r"^```bash\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]
    road = next((tuple(lines) for lines in blocks if lines[0].startswith("make env")), ())
    one_line = next((line for lines in blocks for line in lines if "playbooks/plan.yml" in line), "")
    if not road or "discover.yml" not in " ".join(road) or " -i " not in road[-1] or not one_line:
        raise ValueError(
            "README.md has no block with make env, discover.yml and a playbook with -i, or no plan from one line"
        )
    return FirstScreen(road, one_line)


class Clone:
    """A clean clone, and a shell in it."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not NOT_A_READERS.match(name)}
        ours = str(ROOT / ".venv" / "bin")
        self.environment["PATH"] = ":".join(part for part in os.environ["PATH"].split(":") if part != ours)
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", source, str(folder)], check=True)

    def run(self, line: str) -> float:
        """The seconds that a line of a shell takes. Ends the benchmark if it fails."""
        print(f"$ {line}", flush=True)
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-ec", line],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        took = time.monotonic() - began
        if done.returncode:
            lines = (done.stdout + done.stderr).splitlines()[-LAST_LINES:]
            sys.exit("\n".join([*lines, f"The command above ended with {done.returncode}."]))
        return took

    def written(self) -> list[str]:
        """What is in the clone and not in git, beside what git ignores."""
        done = subprocess.run(
            ["git", "status", "--porcelain"], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return [line[3:] for line in done.stdout.splitlines()]

    def entered(self, line: str) -> float:
        """The same in the environment that was made."""
        return self.run(f"source .venv/bin/activate && {line}")


def on_lab_hosts(line: str) -> str:
    """A command of README.md for three hosts, with the lab's, and what reaches them."""
    lab = config.load()
    addresses = ",".join(node.mgmt for node in lab.nodes.values())
    named = re.sub(r"llm_hosts=\S+", f"llm_hosts={addresses}", line)
    ssh = config.STATE / "ssh"
    options = f"-o UserKnownHostsFile={ssh / 'known_hosts'} -o IdentitiesOnly=yes"
    return f"{named} -e ansible_ssh_private_key_file={ssh / 'id_ed25519'} -e '{{ansible_ssh_common_args: {options}, preflight_sysfs_root: /etc/lab/sys}}'"


def figure(name: str, value: str, goal: str) -> None:
    print(f"  {name:<58} {value:>9}   {goal}", flush=True)


def measure(clone: Clone, hosts: bool) -> None:
    screen = first_screen((clone.folder / "README.md").read_text(encoding="utf-8"))
    with_downloads = clone.run(screen.environment)
    for made in (".venv", ".tools"):
        shutil.rmtree(clone.folder / made)
    environment = clone.run(screen.environment)
    one_line = min(clone.entered(screen.one_line) for _ in range(BEST_OF))
    discovered = planned = 0.0
    by_hand = clone.written()
    if hosts:
        if subprocess.run([sys.executable, "-m", "lab", "up"], cwd=ROOT).returncode:
            sys.exit("The lab's hosts are not up, see above. --no-hosts measures the rest.")
        discovered = clone.entered(on_lab_hosts(screen.discover))
        planned = clone.entered(f"ansible-playbook playbooks/plan.yml -i {screen.inventory}")
    print("\nFrom the clone to a plan for own hosts")
    figure("commands (README.md; the last one plans, and serves)", str(len(screen.road)), "at most 3")
    if hosts:
        made = ", ".join(clone.written())
        figure(f"files before discover, which wrote {made}", str(len(by_hand)), "0")
    figure("make env with the downloads that caches lacked", f"{with_downloads:.1f} s", "")
    figure("make env beside downloads", f"{environment:.1f} s", "")
    if hosts:
        figure("discover.yml on three hosts", f"{discovered:.1f} s", "at most 10 s")
        figure("plan.yml with the inventory that it wrote", f"{planned:.1f} s", "")
        figure("all of it beside downloads", f"{environment + discovered + planned:.1f} s", "at most 180 s")
    print("\nA plan without hosts")
    figure(f"plan.yml from one line, best of {BEST_OF}", f"{one_line:.1f} s", "at most 3 s")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the first screen of README.md in a clean clone.")
    parser.add_argument("--no-hosts", action="store_true", help="leave out what needs the lab's hosts")
    parser.add_argument(
        "--clone",
        metavar="REPOSITORY",
        default=str(ROOT),
        help="what is cloned; without it the last commit of this checkout",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-hour-") as folder:
        measure(Clone(Path(folder, "baremetal.llm"), arguments.clone), not arguments.no_hosts)


if __name__ == "__main__":
    main()
