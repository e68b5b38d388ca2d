# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long it takes until N hosts have a file: passed on from host to host, against a copy to each: `make bench-fanout`, as root.

Every host, the controller among them, is a network namespace of its own with a link of a given rate in each direction; the disk and the processors
are this machine's and shared by all, so the figures say what the network allows, and the CPU-s per GiB what the rest takes. What runs on a host is
the program that roles start there, with the libtorrent of --lib or of this environment; the controller hands over by ssh, to an sshd of each host.

Each line has the time, also in multiples of size/rate, and the bytes that left the controller in copies. `--check` exits with 1 where a figure that is
meant to be reached is missed; without it nothing fails by its time.

usage: python benchmarks/fanout.py [--hosts 8] [--mib 512] [--mbit 200] [--lib FOLDER] [--only fanout,sixteen,killed,slow,unshaped,copy,rsync,http] [--check]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / ".collections")]

from ansible_collections.baremetal.llm.plugins.module_utils import _fanout, _pieces  # noqa: E402
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import fanout  # noqa: E402

from tests.support.debian import unpacked  # noqa: E402

PACKAGES = ("openssh-server", "openssh-sftp-server", "rsync", "libpopt0", "libwrap0", "libxxhash0")
PROGRAM = "ansible_collections.baremetal.llm.plugins.module_utils._fanout"
PORTS = range(20100, 20140)
FORKS = 10


def programs() -> tuple[Path, dict[str, str]]:
    """A folder with Debian's sshd and rsync, and what their environment has to have."""
    folder = unpacked("fanout/programs", PACKAGES)
    libraries = [str(path.parent) for path in folder.glob("**/libpopt.so.0")] + [
        str(path.parent) for path in folder.glob("**/libwrap.so.0")
    ]
    return folder, {"LD_LIBRARY_PATH": ":".join(libraries)}


def libtorrent(named: str) -> str:
    """The folder from which libtorrent is imported: the one that is named, or that of this environment."""
    found = importlib.util.find_spec("libtorrent")
    if not named and (found is None or found.origin is None):
        raise SystemExit("there is no libtorrent; requirements/core-2.19.txt names it, and --lib a folder that has it")
    return named or str(Path(str(found and found.origin)).parents[1])


def run(*command: Any) -> None:
    subprocess.run([str(word) for word in command], check=True)


class Network:
    """Namespaces on one bridge, c0 for the controller, h1 and so on for the hosts, with links that are shaped."""

    def __init__(self, hosts: int, mbit: Mapping[int, int]) -> None:
        self.mark = f"fan{os.getpid()}"
        self.count, self.mbit = hosts, mbit

    def name(self, at: int) -> str:
        return f"{self.mark}-{at}"

    @staticmethod
    def address(at: int) -> str:
        return f"10.249.7.{at + 1}"

    def __enter__(self) -> Network:
        run("ip", "netns", "add", self.name(99))
        run("ip", "-n", self.name(99), "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self.name(99), "link", "set", "br0", "up")
        for at in range(self.count + 1):
            name = self.name(at)
            run("ip", "netns", "add", name)
            run(
                "ip",
                "-n",
                name,
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                f"port{at}",
                "netns",
                self.name(99),
            )
            run("ip", "-n", self.name(99), "link", "set", f"port{at}", "master", "br0", "up")
            run("ip", "-n", name, "address", "add", f"{self.address(at)}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            if self.mbit[at]:
                shape = ["root", "tbf", "rate", f"{self.mbit[at]}mbit", "burst", "128kb", "latency", "60ms"]
                run("tc", "-n", name, "qdisc", "add", "dev", "eth0", *shape)
                run("tc", "-n", self.name(99), "qdisc", "add", "dev", f"port{at}", *shape)
        return self

    def __exit__(self, *_rest: Any) -> None:
        for at in [*range(self.count + 1), 99]:
            subprocess.run(["ip", "netns", "delete", self.name(at)], check=False)

    def inside(self, at: int) -> list[str]:
        return ["ip", "netns", "exec", self.name(at)]

    def sent(self, at: int) -> int:
        """Bytes that a host has sent, with all that protocols add."""
        shown = subprocess.run(
            ["ip", "-n", self.name(at), "-s", "-j", "link", "show", "eth0"], capture_output=True, check=True
        )
        return int(json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"])


class Lab:
    """The hosts: an sshd for each, and a folder for what they get."""

    def __init__(self, network: Network, folder: Path, lib: str) -> None:
        self.network, self.folder, self.lib = network, folder, lib
        self.running: list[subprocess.Popen[bytes]] = []
        self.programs, self.environment = programs()

    def __enter__(self) -> Lab:
        key = self.folder / "key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        os.makedirs("/run/sshd", exist_ok=True)
        users = self.folder / "passwd"
        users.write_text("root:x:0:0::/root:/bin/sh\nsshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n")
        for at in range(1, self.network.count + 1):
            options = [
                *(
                    "-o",
                    f"HostKey={key}",
                    "-o",
                    f"AuthorizedKeysFile={key}.pub",
                    "-o",
                    "StrictModes=no",
                    "-o",
                    "PidFile=none",
                ),
                *("-o", f"ListenAddress={self.network.address(at)}", "-o", "UsePAM=no", "-o", "PermitRootLogin=yes"),
                *("-o", f"Subsystem=sftp {self.programs}/usr/lib/openssh/sftp-server", "-o", "MaxSessions=50"),
            ]
            sshd = [str(self.programs / "usr/sbin/sshd"), "-D", "-q", "-f", "/dev/null", *options]
            # A namespace has mounts of its own: sshd wants a user of that name, which this machine may not have.
            own = 'mount --bind "$0" /etc/passwd && exec "$@"'
            self.start([*self.network.inside(at), "sh", "-c", own, str(users), *sshd])
        time.sleep(1)
        return self

    def __exit__(self, *_rest: Any) -> None:
        for process in self.running:
            process.kill()
            process.wait()

    def start(self, command: Sequence[str], **more: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env={**os.environ, **self.environment, **more})
        self.running.append(process)
        return process

    def ssh(self) -> list[str]:
        return [
            *("-i", str(self.folder / "key"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
            *("-o", "LogLevel=ERROR", "-o", "ControlMaster=auto", "-o", "ControlPersist=60"),
            *("-o", f"ControlPath={self.folder}/%h"),
        ]

    def home(self, at: int) -> Path:
        return self.folder / f"h{at}"

    def empty(self) -> None:
        for at in range(1, self.network.count + 1):
            shutil.rmtree(self.home(at), ignore_errors=True)
            (self.home(at) / INCOMING).mkdir(parents=True)


class Fanout:
    """One fan-out of some files over the hosts of a lab."""

    def __init__(self, lab: Lab, files: Sequence[fanout.File], source: Path, limit_mbit: int = 0) -> None:
        self.lab, self.source = lab, source
        self.files = fanout.in_sessions(files)
        self.job = {
            "sessions": fanout.session_count(self.files),
            "ports": list(PORTS),
            "secret": os.urandom(16).hex(),
            "limit_bytes": limit_mbit * 125000,
            "writers": 2,
            "idle_seconds": 120,
            "files": self.files,
            "have": [],
        }
        self.hosts = list(range(1, lab.network.count + 1))
        self.programs: dict[int, subprocess.Popen[bytes]] = {}
        self.said: dict[int, dict[str, Any]] = {}

    def run_folder(self, at: int) -> Path:
        return self.lab.home(at) / "run"

    def start(self, at: int) -> None:
        folder = self.run_folder(at)
        folder.mkdir(exist_ok=True)
        for name in (_fanout.STATUS, _fanout.PEERS):
            (folder / name).unlink(missing_ok=True)
        job = {**self.job, "dest": str(self.lab.home(at)), "address": self.lab.network.address(at)}
        (folder / _fanout.JOB).write_text(json.dumps(job))
        (folder / _fanout.LEASE).touch()
        command = [*self.lab.network.inside(at), sys.executable, "-W", "ignore", "-m", PROGRAM, str(folder)]
        self.programs[at] = self.lab.start(command, PYTHONPATH=f"{ROOT}/.collections:{self.lab.lib}")

    def status(self, at: int) -> dict[str, Any]:
        (self.run_folder(at) / _fanout.LEASE).touch()
        return dict(json.loads((self.run_folder(at) / _fanout.STATUS).read_text()))

    def last(self, at: int) -> dict[str, Any]:
        """The same, of one that is being started anew what it said before."""
        with contextlib.suppress(FileNotFoundError):
            self.said[at] = self.status(at)
        return self.said[at]

    def wait(self, at: int) -> dict[str, Any]:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(FileNotFoundError):
                found = self.status(at)
                if found["ready"]:
                    return found
            time.sleep(0.1)
        raise SystemExit(f"host {at} does not start")

    def meet(self, found: Mapping[int, Mapping[str, Any]]) -> None:
        for place, at in enumerate(self.hosts):
            peers = [
                [self.lab.network.address(other), found[other]["ports"]]
                for other in fanout.neighbours(self.hosts, place)
            ]
            (self.run_folder(at) / _fanout.PEERS).write_text(json.dumps(peers))

    def put(self, at: int, segment: fanout.Segment) -> None:
        file = next(one for one in self.files if one["path"] == segment.path)
        with open(self.source / segment.path, "rb") as stream:
            stream.seek(segment.start)
            content = stream.read(segment.size)
        target = self.lab.home(at) / INCOMING / _fanout.slice_name(file, segment.start, segment.size)
        command = [*self.lab.network.inside(0), "ssh", *self.lab.ssh(), self.lab.network.address(at), f"cat > {target}"]
        if subprocess.run(command, input=content, check=False).returncode:
            raise OSError(f"ssh to host {at} failed")

    def work(self, at: int, plan: Sequence[fanout.Segment], claims: str) -> dict[str, Any]:
        sizes = {file["path"]: file["size"] for file in self.files}
        ways = fanout.Ways(put=lambda segment: self.put(at, segment), ask=lambda: self.last(at), poll_seconds=0.5)
        found = fanout.hand_on(plan, fanout.Claims(claims, len(plan)), sizes, list(sizes), ways)
        return {**found, "finished": time.monotonic()}

    def run(self, during: Any = None) -> tuple[dict[int, dict[str, Any]], float]:
        began = time.monotonic()
        for at in self.hosts:
            self.start(at)
        self.meet({at: self.wait(at) for at in self.hosts})
        have = [{path: one["have"] for path, one in self.status(at)["files"].items()} for at in self.hosts]
        plan = fanout.segments(self.files, have, len(self.hosts))
        with tempfile.TemporaryDirectory() as claims, ThreadPoolExecutor(len(self.hosts)) as pool:
            first = time.monotonic()
            print(f"  started in {first - began:.1f} s, {len(plan)} segments", flush=True)
            extra = threading.Thread(target=during, args=(self,)) if during else None
            if extra:
                extra.start()
            # As many at a time as Ansible's forks are.
            busy = threading.Semaphore(FORKS)

            def limited(at: int) -> dict[str, Any]:
                with busy:
                    return self.work(at, plan, claims)

            found = dict(zip(self.hosts, pool.map(limited, self.hosts), strict=True))
            if extra:
                extra.join()
        return found, first

    def end(self) -> dict[int, dict[str, Any]]:
        found = {}
        for at, process in self.programs.items():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(20)
            found[at] = self.status(at)
        return found


def right(lab: Lab, files: Sequence[fanout.File], hosts: Sequence[int]) -> bool:
    from ansible_collections.baremetal.llm.plugins.module_utils._bundle import sha256_of

    return all(sha256_of(str(lab.home(at) / file["path"])) == file["sha256"] for at in hosts for file in files)


def report(name: str, seconds: float, ideal: float, copies: float, more: str = "") -> dict[str, float]:
    print(
        f"{name:<28} {seconds:7.1f} s  {seconds / ideal if ideal else 0:5.2f} x size/rate   {copies:5.2f} copies sent   {more}",
        flush=True,
    )
    return {"seconds": seconds, "times": seconds / ideal if ideal else 0, "copies": copies}


def by_fanout(
    name: str, options: Any, count: int, folder: Path, slow: int = -1, during: Any = None, mbit: int | None = None
) -> dict[str, float]:
    rate = options.mbit if mbit is None else mbit
    rates = {at: rate // 4 if at == slow else rate for at in range(count + 1)}
    files = [{"path": path.name, **_pieces.describe(str(path))} for path in sorted((folder / "source").iterdir())]
    size = sum(file["size"] for file in files)
    with (
        Network(count, rates) as network,
        tempfile.TemporaryDirectory(dir=folder) as home,
        Lab(network, Path(home), options.lib) as lab,
    ):
        lab.empty()
        before = network.sent(0)
        work = Fanout(lab, files, folder / "source")
        found, first = work.run(during)
        last = max(one["finished"] for at, one in found.items() if "finished" in one and at != slow) - first
        sent = network.sent(0) - before
        ended = work.end()
        wrong = [at for at in work.hosts if found[at]["left"]]
        assert not wrong, f"hosts {wrong} lack files"
        assert right(lab, files, work.hosts), "a file is not what it should be"
        cpu = sum(one["cpu_seconds"] for one in ended.values()) / (size * count / (1 << 30))
        ideal = size * 8 / (rate * 1e6) if rate else 0
        return report(
            name, last, ideal, sent / size, f"{cpu:.1f} CPU-s per GiB, {size / last / (1 << 20):.0f} MiB/s a host"
        )


def by_copy(name: str, options: Any, folder: Path, way: str, count: int, mbit: int) -> dict[str, float]:
    """Each host gets a copy from the controller, all at once."""
    source = folder / "source"
    size = sum(path.stat().st_size for path in source.iterdir())
    with (
        Network(count, dict.fromkeys(range(count + 1), mbit)) as network,
        tempfile.TemporaryDirectory(dir=folder) as home,
        Lab(network, Path(home), options.lib) as lab,
    ):
        lab.empty()
        before, began = network.sent(0), time.monotonic()
        server = None
        if way == "http":
            command = [
                sys.executable,
                "-m",
                "http.server",
                "--bind",
                network.address(0),
                "--directory",
                str(source),
                "8080",
            ]
            server = lab.start([*network.inside(0), *command], PYTHONUNBUFFERED="1")
            time.sleep(1)
            began = time.monotonic()

        def bring(at: int) -> None:
            paths = [str(path) for path in source.iterdir()]
            target = f"{network.address(at)}:{lab.home(at)}/"
            environment = {**os.environ, **lab.environment}
            if way == "scp":
                subprocess.run(
                    [*network.inside(0), "scp", "-q", *lab.ssh(), *paths, target], check=True, env=environment
                )
            elif way == "rsync":
                program = str(lab.programs / "usr/bin/rsync")
                far = f"--rsync-path=LD_LIBRARY_PATH={lab.environment['LD_LIBRARY_PATH']} {program}"
                shell = " ".join(["ssh", *lab.ssh()])
                subprocess.run(
                    [*network.inside(0), program, "-W", "-e", shell, far, *paths, target], check=True, env=environment
                )
            else:
                for path in source.iterdir():
                    url = f"http://{network.address(0)}:8080/{path.name}"
                    text = (
                        f"import urllib.request; urllib.request.urlretrieve({url!r}, {str(lab.home(at) / path.name)!r})"
                    )
                    subprocess.run([*network.inside(at), sys.executable, "-c", text], check=True)

        with ThreadPoolExecutor(count) as pool:
            list(pool.map(bring, range(1, count + 1)))
        seconds = time.monotonic() - began
        sent = network.sent(0) - before
        if server:
            server.kill()
        ideal = size * 8 / (mbit * 1e6) if mbit else 0
        return report(name, seconds, ideal, sent / size, f"{size / seconds / (1 << 20):.0f} MiB/s a host")


def killed(work: Fanout) -> None:
    """One host dies in the middle, and comes back with what it had."""
    victim = work.hosts[-1]
    while not any(
        sum(last - first + 1 for first, last in one["have"]) > 20 for one in work.status(victim)["files"].values()
    ):
        time.sleep(0.2)
    work.programs[victim].kill()
    work.programs[victim].wait()
    time.sleep(4)
    work.start(victim)
    work.wait(victim)
    work.meet({at: work.status(at) for at in work.hosts})


def main() -> Iterator[str]:
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].strip())
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--mbit", type=int, default=200)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--lib", default="")
    parser.add_argument("--only", default="fanout,sixteen,killed,slow,unshaped,copy,rsync,http")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if os.geteuid():
        raise SystemExit("network namespaces are made as root")
    options.lib = libtorrent(options.lib)
    base = ROOT / "build/fanout"
    base.mkdir(parents=True, exist_ok=True)
    wanted = options.only.split(",")
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=base) as name:
        folder = Path(name)
        (folder / "source").mkdir()
        for number in range(options.files):
            with open(folder / "source" / f"file{number}", "wb") as stream:
                for _mib in range(options.mib // options.files):
                    stream.write(os.urandom(1 << 20))
        hosts = options.hosts
        if "fanout" in wanted:
            found["fanout"] = by_fanout(f"fanout, {hosts} hosts", options, hosts, folder)
        if "sixteen" in wanted:
            found["four"] = by_fanout("fanout, 4 hosts", options, 4, folder)
            found["sixteen"] = by_fanout("fanout, 16 hosts", options, 16, folder)
        if "killed" in wanted:
            found["killed"] = by_fanout("fanout, one host killed", options, hosts, folder, during=killed)
        if "slow" in wanted:
            found["slow"] = by_fanout("fanout, others of a slow one", options, hosts, folder, slow=hosts)
        for way in ("scp", "rsync", "http"):
            if way in wanted or (way == "scp" and "copy" in wanted):
                found[way] = by_copy(f"{way}, {hosts} hosts", options, folder, way, hosts, options.mbit)
        if "unshaped" in wanted:
            found["free"] = by_fanout(f"fanout, {hosts} hosts, unshaped", options, hosts, folder, mbit=0)
            found["free_scp"] = by_copy(f"scp, {hosts} hosts, unshaped", options, folder, "scp", hosts, 0)
    yield from missed(found)


def missed(found: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Which of the figures that this is meant to reach were not."""
    limits = [
        ("fanout", "times", 1.35, ""),
        ("fanout", "copies", 1.3, ""),
        ("sixteen", "seconds", 1.2, "four"),
        ("slow", "seconds", 1.2, "fanout"),
    ]
    for name, figure, limit, other in limits:
        if name in found and (not other or other in found):
            value = found[name][figure] / (found[other][figure] if other else 1)
            if value > limit:
                yield f"{name}: {figure} {value:.2f}, meant to be at most {limit}"
    if "free" in found and found["free_scp"]["seconds"] < 2 * found["free"]["seconds"]:
        yield "unshaped: less than twice the rate of scp"


if __name__ == "__main__":
    problems = list(main())
    print("\n".join(problems) or "every figure was reached")
    raise SystemExit(1 if problems and "--check" in sys.argv else 0)
