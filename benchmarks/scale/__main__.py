# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the real playbooks/site.yml costs the controller on 1, 4, 16 and 32 hosts: `make bench-scale`.

The hosts are namespaces of this machine with a systemd, an sshd and firewall rules of their own. Stood in for are the GPU (the lab's), Docker
Engine and vLLM (programs that answer like them). Nothing is skipped on Ansible's side. For each number of hosts: the first run, a second
one that has nothing to do, a play of twenty pings as the yardstick, and one host that is added with --limit.

Needs Linux 5.8 or later, root, iproute2, ssh, and the first time debootstrap with a mirror of Debian. Nothing fails by its time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.scale import figures, page
from benchmarks.scale.artefacts import write_artefacts
from benchmarks.scale.base import ensure_base
from benchmarks.scale.figures import Machine, Run
from benchmarks.scale.hosts import INOTIFY, INOTIFY_EACH, Fleet, Host, prepare_network, remove_cgroups
from benchmarks.scale.inventory import deployments, inventory
from lab import config as lab_config
from lab.progress import LabError

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "scale"
RESULTS, PAGE = OUT / "scale.json", "performance.md"
ANSIBLE = str(Path(sys.executable).with_name("ansible-playbook"))
SITE, PINGS = "playbooks/site.yml", "benchmarks/pings.yml"
INSIDE = "LLM_SCALE_INSIDE"
# What the figures depend on.
MEASURED = ("ansible.cfg", "benchmarks/pings.yml", "benchmarks/scale", "playbooks", "plugins", "roles")
RECAP = re.compile(r"^(\S+) +: ok=(\d+) +changed=(\d+) +unreachable=(\d+) +failed=(\d+)", re.M)


def environment(controls: Path) -> dict[str, str]:
    """Ansible as the checkout sets it up, with connections of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MOLECULE_"))}
    return {**kept, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(controls), "PYTHONPATH": str(ROOT)}


def measure(fleet: Fleet, hosts: int, kind: str, *words: str) -> Run:
    """Run a playbook, and say what it cost. Ends the benchmark if it fails."""
    log, cost = OUT / "logs" / f"{hosts}-{kind}.log", OUT / "logs" / f"{hosts}-{kind}.json"
    log.parent.mkdir(parents=True, exist_ok=True)
    before = fleet.calls()
    # A socket's path may have no more than 108 characters.
    with tempfile.TemporaryDirectory(prefix="scale-", dir="/tmp") as controls, log.open("w") as output:
        command = [sys.executable, "-m", "benchmarks.scale.measure", str(cost), ANSIBLE, *words]
        status = subprocess.run(
            command, cwd=ROOT, env=environment(Path(controls)), stdout=output, stderr=output
        ).returncode
    text = log.read_text(errors="replace")
    if status:
        fleet.keep_journals(log.parent)
        sys.exit(
            f"{' '.join(words)} failed; the hosts' journals are in {log.parent}. The end of {log}:\n{text[-4000:]}"
        )
    calls = [count - before.get(host, 0) for host, count in fleet.calls().items()]
    recap = [line for line in RECAP.findall(text) if line[0] != "localhost"]
    measured = json.loads(cost.read_text())
    return Run(
        hosts=hosts,
        kind=kind,
        calls=sum(calls),
        calls_most=max(calls),
        results=sum(int(line[1]) for line in recap),
        changed=sum(int(line[2]) for line in recap),
        **measured,
    )


def measure_all(number: int, base: Path, bundle: Path, forks: int | None) -> Iterator[Run]:
    """Every run on a number of hosts, each as soon as it is over."""
    folder = OUT / f"hosts-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    fleet = Fleet(base, folder / "fleet")
    hosts, more = [Host(one) for one in range(1, number + 1)], Host(number + 1)
    where, grown = folder / "hosts.yml", folder / "grown.yml"
    version = lab_config.load().vllm_version
    for path, added in ((where, []), (grown, [more])):
        path.write_text(
            json.dumps(inventory(deployments(hosts, added), bundle, folder, fleet.folder, version), indent=1)
        )
    try:
        started = time.monotonic()
        fleet.start(hosts)
        print(f"{number} hosts booted in {time.monotonic() - started:.1f} s", flush=True)
        for kind, words in (
            ("pings", [PINGS, "-i", str(where)]),
            ("first", [SITE, "-i", str(where)]),
            ("again", [SITE, "-i", str(where)]),
            ("added", [SITE, "-i", str(grown), "--limit", more.name]),
        ):
            if kind == "added":
                fleet.start([more])
            run = measure(fleet, number, kind, *words, *(["--forks", str(forks)] if forks else []))
            print("  ".join(figures.cells(run)), flush=True)
            yield run
            if kind == "again" and run.changed:
                sys.exit(f"The second run changed something: see {OUT}/logs/{number}-again.log.")
    finally:
        fleet.close()


def make_bundle(folder: Path) -> Path:
    """The bundle of the light hosts."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    artefacts = folder.with_suffix(".json")
    artefacts.write_text(
        json.dumps({"scale_artefacts": write_artefacts(folder, lab_config.load()), "llm_bundle_dir": str(folder)})
    )
    command = [ANSIBLE, "benchmarks/scale/bundle.yml", "-i", "localhost,", "-e", f"@{artefacts}"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(folder.parent), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")
    return folder


def commit() -> str:
    """The last one that changed what is measured, and whether something was changed since."""
    last = _said("git", "log", "-1", "--format=%h", "--", *MEASURED)
    return f"{last} with changes" if _said("git", "status", "--porcelain", "--", *MEASURED) else last


def _said(*command: str) -> str:
    return subprocess.run(
        command, cwd=ROOT, env=environment(OUT), check=True, capture_output=True, text=True
    ).stdout.strip()


def machine(forks: int | None) -> Machine:
    """This one."""
    program = "import ansible.release, ansible.constants as settings; print(ansible.release.__version__, settings.DEFAULT_FORKS)"
    core, default = _said(sys.executable, "-c", program).split()
    cpus = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    memory = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.M)
    return Machine(
        cpu=cpus[0] if cpus else platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gib=int(memory.group(1)) / (1 << 20) if memory else 0,
        python=platform.python_version(),
        ansible=core,
        forks=forks or int(default),
        commit=commit(),
    )


def in_namespaces(base: Path, hosts: int) -> int:
    """Start this program again where a network and processes of its own end with it. Its exit status."""
    watches, wanted = int(INOTIFY.read_text()), 128 + INOTIFY_EACH * hosts
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command += [sys.executable, "-m", "benchmarks.scale", *sys.argv[1:]]
    try:
        if watches < wanted:
            print(f"fs.inotify.max_user_instances is {wanted} instead of {watches} while the hosts run", flush=True)
            INOTIFY.write_text(str(wanted))
        return subprocess.run(
            command, cwd=ROOT, env={**os.environ, INSIDE: str(base), "PYTHONPATH": str(ROOT)}
        ).returncode
    finally:
        if watches < wanted:
            INOTIFY.write_text(str(watches))
        remove_cgroups()


def main() -> None:
    """Make what is missing, enter namespaces, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--hosts", nargs="+", type=int, default=[1, 4, 16, 32], help="how many hosts, one measurement for each"
    )
    parser.add_argument(
        "--forks", type=int, help="hosts that Ansible works on at the same time, if not as many as ansible.cfg says"
    )
    parser.add_argument("--docs", action="store_true", help="write the figures into docs/performance.md")
    options = parser.parse_args()
    if os.geteuid():
        sys.exit("bench-scale makes namespaces: run it as root.")
    if INSIDE not in os.environ:
        signal.signal(signal.SIGTERM, lambda *_arguments: sys.exit(143))  # as Ctrl-C does: what was set is set back
        OUT.mkdir(parents=True, exist_ok=True)
        try:
            base = ensure_base(lab_config.load())
        except LabError as error:
            sys.exit(str(error))
        sys.exit(in_namespaces(base, max(options.hosts) + 1))
    prepare_network()
    bundle = make_bundle(OUT / "bundle")
    about = machine(options.forks)
    for number in options.hosts:
        for run in measure_all(number, Path(os.environ[INSIDE]), bundle, options.forks):
            keep(run, about)
    runs = kept(about)
    print(f"\n{figures.table(runs)}\n\n{figures.ratio_table(runs)}\n")
    write_page(OUT / PAGE, runs, about)
    print(f"{RESULTS.relative_to(ROOT)} and {(OUT / PAGE).relative_to(ROOT)} hold the figures.")
    if options.docs:
        write_page(ROOT / "docs" / PAGE, runs, about)


def kept(about: Machine) -> list[Run]:
    """What was measured on this machine with this commit, also by earlier calls: 32 hosts take long."""
    if not RESULTS.exists():
        return []
    content = json.loads(RESULTS.read_text())
    return [Run(**run) for run in content["runs"]] if content["machine"] == asdict(about) else []


def keep(run: Run, about: Machine) -> None:
    """Add a run to what was measured, in place of the same one of an earlier call."""
    others = [other for other in kept(about) if (other.hosts, other.kind) != (run.hosts, run.kind)]
    every = sorted([*others, run], key=lambda one: (one.hosts, list(figures.KINDS).index(one.kind)))
    RESULTS.write_text(json.dumps({"machine": asdict(about), "runs": [asdict(one) for one in every]}, indent=1) + "\n")


def write_page(path: Path, runs: list[Run], about: Machine) -> None:
    """docs/performance.md with these figures, and its plot."""
    image = path.parent / page.PLOT
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_text(page.plot(runs))
    path.write_text(page.replaced((ROOT / "docs" / PAGE).read_text(), page.section(runs, about)))


if __name__ == "__main__":
    main()
