# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What status.yml and doctor.yml take with many hosts: `make bench-status`.

The hosts are stood in for by a connection that waits as long as a host works, and then hands over what gather finds on a host that serves
(tests/support/looks.py). Everything on Ansible's side is real: so this is what the controller takes. Nothing fails by its time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.looks import facts

ROOT = Path(__file__).resolve().parents[1]
PLAYBOOKS = ("status", "doctor")
# Hosts of a deployment, each.
MEMBERS = 4


def inventory(hosts: int) -> dict[str, object]:
    names = [f"gpu{number:03}" for number in range(1, hosts + 1)]
    groups = {
        f"model{start // MEMBERS:02}": {"hosts": dict.fromkeys(names[start : start + MEMBERS])}
        for start in range(0, hosts, MEMBERS)
    }
    variables = {
        "ansible_connection": "stand_in",
        "ansible_python_interpreter": "/usr/bin/python3",
        "llm_language": "en",
        "vllm_model": "org/a",
        "vllm_version": "0.8.5",
        "llm_offline": False,
    }
    return {"all": {"vars": variables, "children": {"llm_deployments": {"children": groups}}}}


def main() -> None:
    """Measure, and print a line for each playbook."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--forks", type=int, default=25, help="hosts that Ansible works on at the same time")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a host works")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="status-") as name:
        folder = Path(name)
        (folder / "hosts.json").write_text(json.dumps(inventory(options.hosts)))
        (folder / "facts.json").write_text(json.dumps(facts()))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "MOLECULE_"))}
        environment = {
            **kept,
            "ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "tests/support/connections"),
            "STAND_IN_FACTS": str(folder / "facts.json"),
            "STAND_IN_SECONDS": str(options.seconds),
        }
        for playbook in PLAYBOOKS:
            command = [str(Path(sys.executable).with_name("ansible-playbook")), f"playbooks/{playbook}.yml"]
            command += ["-i", str(folder / "hosts.json"), "--forks", str(options.forks)]
            started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
            took, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
            if done.returncode not in (0, 1):
                sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            report = json.loads((folder / f".llm/reports/{playbook}.json").read_text())
            seen = len(report["rows"]) if playbook == "status" else report["exit_code"]
            what = f"{seen} rows" if playbook == "status" else f"exit code {seen}"
            print(
                f"{playbook}.yml: {options.hosts} hosts of {options.seconds:g} s each, {options.forks} forks: "
                f"{took:.1f} s, {cpu:.1f} s of processor, {what}",
                flush=True,
            )


if __name__ == "__main__":
    main()
