# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What operations on hosts that serve take, and whom they disturb: `make bench-day-two`, as root.

Three hosts of the lab serve two deployments, and a client asks each of them twice a second. Each operation is run as its runbook says. A line for each
says how long it took, in seconds and in plain starts of the engine of the same run; how many requests of the deployment beside it failed, and how long the
deployment that it is about gave no answer. Nothing fails by its time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.config import CHECKOUT, STATE, load
from tests.support.drills import users_environment

HEADS = {"tiny_split": "node1", "tiny_single": "node3"}
SPLIT, SINGLE = HEADS
PATIENCE_SECONDS = 600
# The client gives up where no answer comes so long: no operation makes the deployment beside it that slow.
TIMEOUT_SECONDS = 20
LAB = (sys.executable, "-m", "lab")
CONFIRMED = ("-e", "llm_confirm=true")


class Client(threading.Thread):
    """Asks a deployment for a token twice a second, and remembers what became of each request."""

    def __init__(self, deployment: str, addresses: tuple[str, ...]) -> None:
        super().__init__(daemon=True)
        self.deployment, self.addresses = deployment, addresses
        self.asked: list[tuple[float, bool]] = []

    def answered(self) -> bool:
        """Whether a token comes from a host of the deployment; its head may be another one meanwhile."""
        body = json.dumps({"model": "tiny", "prompt": "Hello", "max_tokens": 1}).encode()
        for address in self.addresses:
            try:
                key = (STATE / f"secrets/{self.deployment}_api_key").read_text().strip()
                head = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
                request = urllib.request.Request(f"http://{address}:8000/v1/completions", body, head)
                with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                    if json.load(response)["choices"]:
                        return True
            except (OSError, ValueError):
                continue
        return False

    def run(self) -> None:
        while True:
            began = time.monotonic()
            self.asked.append((began, self.answered()))
            time.sleep(max(0.0, 0.5 - (time.monotonic() - began)))

    def since(self, began: float) -> tuple[int, int, float]:
        """Requests, failed ones, and the longest time between two answers."""
        found = [(when, good) for when, good in list(self.asked) if when >= began]
        times = [began, *(when for when, good in found if good), time.monotonic()]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        return len(found), sum(not good for _when, good in found), max(gaps)


@dataclass(frozen=True)
class Operation:
    """Commands one after the other, and the deployment that they are about; none where both serve on."""

    title: str
    commands: tuple[tuple[str, ...], ...]
    about: str = ""


def play(name: str, *options: str) -> tuple[str, ...]:
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    return (program, "-i", "inventories/lab", f"playbooks/{name}.yml", *options)


def operations(setting: str) -> Iterator[Operation]:
    """In an order in which each begins on hosts that serve, but for those that start what was stopped."""
    single, split = ("-e", f"llm_target={SINGLE}"), ("-e", f"llm_target={SPLIT}")
    changed = (*single, *CONFIRMED, "-i", setting, "-e", "vllm_canary_slower_percent=1000")
    yield Operation("status.yml", (play("status"),))
    yield Operation("doctor.yml", (play("doctor"),))
    yield Operation("site.yml, nothing to do", (play("site"),))
    yield Operation("upgrade.yml, another setting", (play("upgrade", *changed),), SINGLE)
    yield Operation("rollback.yml", (play("rollback", *single, *CONFIRMED),), SINGLE)
    yield Operation("stop.yml", (play("stop", *split, *CONFIRMED),), SPLIT)
    yield Operation("site.yml, starts it", (play("site"),), SPLIT)
    yield Operation(
        "remove_nodes.yml, the worker", (play("remove_nodes", "-e", "llm_target=node2", *CONFIRMED),), SPLIT
    )
    yield Operation("add_nodes.yml, the worker", (play("add_nodes", *split, *CONFIRMED),), SPLIT)
    lost = ("-e", "llm_node=node1", *CONFIRMED)
    alone = play("replace_node", *lost, "-e", "llm_on_remaining=true")
    yield Operation("replace_node.yml, without the lost head", ((*LAB, "power", "off", "node1"), alone), SPLIT)
    yield Operation(
        "replace_node.yml, the head is back", ((*LAB, "power", "on", "node1"), play("replace_node", *lost)), SPLIT
    )
    node = ("-e", "llm_target=node3", *CONFIRMED)
    yield Operation("stop.yml and reset.yml, a host", (play("stop", *node), play("reset", *node)), SINGLE)
    yield Operation("site.yml, on the reset host", (play("site"),), SINGLE)


def run(*command: str, codes: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(command, cwd=CHECKOUT, env=users_environment(), capture_output=True, text=True)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(command)}: {done.stdout[-4000:]}{done.stderr[-2000:]}")


def wait(client: Client, began: float) -> None:
    """Until a token came that was asked for after this moment."""
    while not any(good for when, good in list(client.asked) if when >= began):
        if time.monotonic() - began > PATIENCE_SECONDS:
            sys.exit(f"{client.deployment} gave no answer for {PATIENCE_SECONDS} s.")
        time.sleep(0.1)


@contextmanager
def lab(keep: bool) -> Iterator[dict[str, Client]]:
    """Hosts that serve, with a client for each deployment."""
    run(*LAB, "state", "restore", "serving")
    try:
        data = {name: node.data for name, node in load().nodes.items()}
        clients = {
            SPLIT: Client(SPLIT, (data["node1"], data["node2"])),
            SINGLE: Client(SINGLE, (data["node3"],)),
        }
        for client in clients.values():
            client.start()
            wait(client, time.monotonic())
        yield clients
    finally:
        if not keep:
            run(*LAB, "down")


def main() -> None:
    """Measure, and print a line for each operation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the hosts as they are at the end")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="day-two-") as folder, lab(options.keep) as clients:
        setting = Path(folder) / "setting.yml"
        setting.write_text(json.dumps({SINGLE: {"vars": {"vllm_max_num_seqs": 8}}}))
        began = time.monotonic()
        run("ssh", "-F", str(STATE / "ssh/config"), HEADS[SINGLE], "docker restart --time 1 llm-vllm")
        wait(clients[SINGLE], time.monotonic())
        start = time.monotonic() - began
        print(f"a plain start of the engine: {start:.0f} s", flush=True)
        print(f"{'operation':42} {'seconds':>7} {'starts':>6}  {'beside: failed':>14}  about: without an answer")
        for operation in operations(str(setting)):
            began = time.monotonic()
            for command in operation.commands:
                # The doctor ends with 1 where it found something, such as a host that was just rebuilt.
                run(*command, codes=(0, 1) if "playbooks/doctor.yml" in command else (0,))
            took = time.monotonic() - began
            beside = [client.since(began) for name, client in clients.items() if name != operation.about]
            failed = f"{sum(one[1] for one in beside)} of {sum(one[0] for one in beside)}"
            away = f"{clients[operation.about].since(began)[2]:.0f} s" if operation.about else "-"
            print(f"{operation.title:42} {took:7.1f} {took / start:6.1f}  {failed:>14}  {away}", flush=True)


if __name__ == "__main__":
    main()
