# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Named states of the lab's hosts: made once by the collection's own playbooks, kept by content, restored in seconds.

A state is, for each host, an image of its root file system and a volume with what its engine keeps, and of the controller what the
playbooks left there (secrets, reports). Its name ends in a hash of everything it was made from, so that a change of any of that makes it
stale, and no state can be taken for another.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, ContainerError, ImageNotFound, NotFound

from lab import bundle, exits, hosts, playbook
from lab.config import CACHE, CHECKOUT, IMAGE_REPOSITORY, LAB, STATE, SUFFIX, Config, Node, digest
from lab.locks import lock
from lab.progress import LabError, say, step

GIB = 2**30
KEPT = CACHE / "states"
COPY = LAB / "files" / "copy_disk.py"
# This much of the disk stays free, whatever there is to keep.
RESERVE_GIB = float(os.environ.get("LLM_LAB_RESERVE_GIB") or 5)
# What bare hosts take on the disk until they serve, with the bundle; measured, rounded up.
ROAD_GIB = 20.0
# What playbooks leave on the controller, below STATE. The results of reading the bundle belong to the checkout and stay there.
CONTROLLER = ("secrets", "reports")


@dataclass(frozen=True)
class State:
    """What hosts are like after some playbooks."""

    name: str
    # The state it is made from; none: hosts fresh from their installer.
    parent: str = ""
    playbooks: tuple[str, ...] = ()
    # The roles that these playbooks apply, besides those that every playbook starts with.
    roles: tuple[str, ...] = ()
    # It holds addresses, so each lab has its own.
    own: bool = False
    # What keeping it takes on the disk for each host, besides layers that it shares with its parent; measured, rounded up.
    gib: float = 0.0


STATES = {
    state.name: state
    for state in (
        State("bare"),
        State("prepared", "bare", ("prepare",), ("nvidia_driver", "docker", "nvidia_container_toolkit"), gib=0.5),
        State("loaded", "prepared", ("images", "models"), ("images", "models"), gib=2.6),
        State("serving", "loaded", ("serve",), ("network", "ray", "vllm"), own=True, gib=0.2),
    )
}


@dataclass(frozen=True)
class Snapshot:
    """One state as it is kept: its name, and the hash of what it was made from."""

    state: State
    key: str

    @property
    def name(self) -> str:
        return f"{self.state.name}{SUFFIX if self.state.own else ''}-{self.key}"

    @property
    def folder(self) -> Path:
        return KEPT / self.name

    def image(self, node: Node) -> str:
        return f"{IMAGE_REPOSITORY}/state:{self.name}-{node.name}"

    def volume(self, node: Node) -> str:
        return f"{IMAGE_REPOSITORY}-state-{self.name}-{node.name}"


class States:
    """The states of one lab."""

    def __init__(self, client: docker.DockerClient, config: Config, host_image: str) -> None:
        self.client = client
        self.config = config
        self.host_image = host_image
        self.nodes = list(config.nodes.values())

    def restore(self, name: str) -> None:
        """The hosts are in this state, whatever they were before. It is made first if it is not kept."""
        hosts.ensure_key()
        hosts.ensure_networks(self.client, self.config)
        missing = self._missing(name)
        needed = sum(state.gib for state in missing) * len(self.nodes)
        if missing and needed > (free := self.make_room(needed)) - RESERVE_GIB:
            say(
                f"lab: no space to keep {' and '.join(state.name for state in missing)}: that takes {needed:.1f} GiB, and {free:.1f} GiB are "
                f"free, of which {RESERVE_GIB:g} stay so. The playbooks run on bare hosts instead, which takes minutes each time. "
                "'python -m lab state list' shows what is kept, 'python -m lab state prune' removes what is stale."
            )
            self._bare()
            for state in self._lineage(name):
                self._play(state)
            return
        self._restore(STATES[name])

    def keep(self, name: str) -> None:
        """The hosts are in this state, by another way than the one that makes it; what it is made from is the same. They are stopped.

        A scenario that walks the whole road spares those that begin at its end the walk.
        """
        state = STATES[name]
        snapshot = self._snapshot(state)
        with lock(f"state-{snapshot.name}"):
            if self._kept(snapshot):
                return
            needed = sum(one.gib for one in self._lineage(name)) * len(self.nodes)
            if needed > (free := self.make_room(needed)) - RESERVE_GIB:
                say(
                    f"lab: the state {snapshot.name} is not kept: it takes {needed:.1f} GiB, and {free:.1f} GiB are free"
                )
                return
            self._keep(snapshot, 0, boot=False)

    def table(self) -> list[str]:
        """A line for each state: name, size of its own, when it was made and how long that took, current or stale."""
        rows = [f"{'bare':30} made from the image of a host in seconds; nothing is kept"]
        for record in self._records():
            made = time.strftime("%Y-%m-%d %H:%M", time.localtime(record["made"]))
            size, seconds = record["bytes"] / GIB, record["seconds"]
            how = f"in {seconds:.0f} s" if seconds else "by another run"
            rows.append(f"{record['name']:30} {size:6.2f} GiB, made {made} {how}, {self._standing(record)}")
        for state in STATES.values():
            if state.parent and not self._kept(self._snapshot(state)):
                rows.append(f"{state.name:30} not kept; about {state.gib * len(self.nodes):.1f} GiB")
        return rows

    def prune(self, everything: bool = False) -> None:
        """Remove states that are stale, or all of them."""
        for record in self._records():
            if everything or self._standing(record) == "stale":
                with lock(f"state-{record['name']}"):
                    self._forget(record["name"])
                say(f"lab: removed the state {record['name']} ({record['bytes'] / GIB:.2f} GiB)")

    def make_room(self, gib: float) -> float:
        """The GiB that are free, after stale states were removed if less than ``gib`` and the reserve were."""
        if self._free_gib() < gib + RESERVE_GIB:
            self.prune()
        return self._free_gib()

    # What it is made from

    def _snapshot(self, state: State) -> Snapshot:
        if not state.parent:
            return Snapshot(
                state, digest(self.host_image, [hosts.hardware_of(node) for node in self.nodes], LAB / "hosts.py")
            )
        sources = [CHECKOUT / name for name in (*bundle.ALWAYS, *(f"roles/{role}" for role in state.roles))]
        own = (self.config.name, self.config.networks) if state.own else ()
        parent = self._snapshot(STATES[state.parent]).key
        return Snapshot(state, digest(parent, bundle.key(self.client, self.config), *sources, COPY, own))

    def _lineage(self, name: str) -> list[State]:
        state = STATES[name]
        return [*self._lineage(state.parent), state] if state.parent else []

    def _missing(self, name: str) -> list[State]:
        """What has to be made for it: everything after the last state of its lineage that is kept."""
        missing: list[State] = []
        for state in reversed(self._lineage(name)):
            if self._kept(self._snapshot(state)):
                break
            missing.insert(0, state)
        return missing

    def _kept(self, snapshot: Snapshot) -> bool:
        if not (snapshot.folder / "state.json").exists():
            return False
        try:
            for node in self.nodes:
                self.client.images.get(snapshot.image(node))
                self.client.volumes.get(snapshot.volume(node))
        except (ImageNotFound, NotFound):
            return False
        return True

    def _standing(self, record: dict[str, Any]) -> str:
        if record["lab"] not in ("", self.config.name):
            return f"of {record['lab']}"
        return "current" if record["name"] == self._snapshot(STATES[record["state"]]).name else "stale"

    # Restore and make

    def _restore(self, state: State) -> None:
        if not state.parent:
            self._bare()
            return
        snapshot = self._snapshot(state)
        with lock(f"state-{snapshot.name}", shared=True):
            if self._kept(snapshot):
                self._put_back(snapshot)
                return
        with lock(f"state-{snapshot.name}"):
            made = self._kept(snapshot)
            if not made:
                self._make(snapshot)
        if made:  # by another process, meanwhile
            self._restore(state)

    def _make(self, snapshot: Snapshot) -> None:
        state = snapshot.state
        self._restore(STATES[state.parent])
        started = time.monotonic()
        self._play(state)
        if self._snapshot(state) != snapshot:
            say(f"lab: the state {snapshot.name} is not kept: what it is made from was changed meanwhile")
            return
        self._keep(snapshot, time.monotonic() - started)

    def _play(self, state: State) -> None:
        for name in state.playbooks:
            with step(f"making the state {state.name}: {name}.yml"):
                playbook.log(STATE / "logs" / f"state-{state.name}-{name}.log", name)

    def _bare(self) -> None:
        self._forget_hosts()
        hosts.ensure_hosts(self.client, self.config, self.host_image)
        exits.ensure_watch(self.client, self.config, self.host_image)

    def _put_back(self, snapshot: Snapshot) -> None:
        """New hosts with the disks that the state keeps. They boot, and what the engine shall run starts."""
        with step(f"restoring the state {snapshot.name}"):
            self._forget_hosts()
            for node in self.nodes:
                self.client.volumes.create(hosts.volume(self.config, node))

            def host(node: Node) -> None:
                self._copy(snapshot.volume(node), hosts.volume(self.config, node))
                hosts.create_host(self.client, self.config, node, self.host_image, snapshot.image(node))

            self._each(host)
            for node in self.nodes:
                hosts.trust_host(node)
            hosts.write_ssh_config(self.config)
            for name in CONTROLLER:
                kept = snapshot.folder / name
                if kept.exists():
                    shutil.copytree(kept, STATE / name, dirs_exist_ok=True)
            exits.ensure_watch(self.client, self.config, self.host_image)
            self._each(lambda node: hosts.wait_for_boot(self.client, self.config, node))

    def _keep(self, snapshot: Snapshot, seconds: float, boot: bool = True) -> None:
        """Keep the hosts' disks, and what the playbooks left on the controller. The record is written last."""
        for record in self._records():
            if record["state"] == snapshot.state.name and record["lab"] in ("", self.config.name):
                self._forget(record["name"])
        self._forget(snapshot.name)

        def host(node: Node) -> None:
            container = self.client.containers.get(hosts.container_name(self.config, node))
            container.stop(timeout=hosts.STOP_SECONDS)
            container.commit(*snapshot.image(node).split(":"))
            self.client.volumes.create(snapshot.volume(node))
            self._copy(hosts.volume(self.config, node), snapshot.volume(node))
            if boot:
                container.start()

        with step(f"keeping the state {snapshot.name}"):
            self._each(host)
            unfinished = snapshot.folder.with_suffix(".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True, mode=0o700)
            for name in CONTROLLER:
                if (STATE / name).exists():
                    shutil.copytree(STATE / name, unfinished / name, ignore=shutil.ignore_patterns(bundle.CHECKS))
            record = {
                "name": snapshot.name,
                "state": snapshot.state.name,
                "lab": self.config.name if snapshot.state.own else "",
                "bytes": self._bytes(snapshot),
                "made": time.time(),
                "seconds": seconds,
            }
            (unfinished / "state.json").write_text(json.dumps(record, indent=2) + "\n")
            unfinished.rename(snapshot.folder)
            if boot:
                self._each(lambda node: hosts.wait_for_boot(self.client, self.config, node))

    def _forget_hosts(self) -> None:
        exits.remove_watch(self.client, self.config)
        hosts.remove_hosts(self.client, self.config)
        for name in CONTROLLER:
            for path in (STATE / name).glob("*"):
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != bundle.CHECKS:
                    path.unlink()

    def _forget(self, name: str) -> None:
        """A state is gone, what a killed process left of one as well."""
        shutil.rmtree(KEPT / name, ignore_errors=True)
        for image in self.client.images.list(name=f"{IMAGE_REPOSITORY}/state"):
            for tag in image.tags:
                if tag.startswith(f"{IMAGE_REPOSITORY}/state:{name}-"):
                    try:
                        self.client.images.remove(tag)
                    except APIError as error:  # a host of another lab still has it as its disk
                        if error.status_code != 409:
                            raise
        for volume in self.client.volumes.list(filters={"name": f"{IMAGE_REPOSITORY}-state-{name}-"}):
            volume.remove()

    def _records(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(KEPT.glob("*/state.json"))]

    # The engine below the lab

    def _each(self, do: Callable[[Node], None]) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(do, self.nodes))

    def _copy(self, source: str, target: str) -> None:
        self._on_volumes(target, ["python3", "/copy_disk.py", *(f"/volumes/{name}/_data" for name in (source, target))])

    def _bytes(self, snapshot: Snapshot) -> int:
        """What a state takes on the disk besides what it shares with its parent."""
        parent = STATES[snapshot.state.parent]
        made_from = self._snapshot(parent)
        before = made_from if parent.parent and self._kept(made_from) else None
        total = 0
        for node in self.nodes:
            own, below = snapshot.image(node), before.image(node) if before else self.host_image
            total += self.client.images.get(own).attrs["Size"] - self.client.images.get(below).attrs["Size"]
            # What du has counted once, as a file of the parent, it does not count again.
            volumes = [before.volume(node)] if before else []
            command = [
                "du",
                "-s",
                "--block-size=1",
                *(f"/volumes/{name}" for name in [*volumes, snapshot.volume(node)]),
            ]
            total += int(self._on_volumes(snapshot.volume(node), command).splitlines()[-1].split()[0])
        return total

    def _free_gib(self) -> float:
        self.client.volumes.create(f"{IMAGE_REPOSITORY}-space")
        answer = self._on_volumes(f"{IMAGE_REPOSITORY}-space", ["df", "--block-size=1", "--output=avail", "/volumes"])
        return int(answer.split()[-1]) / GIB

    def _on_volumes(self, volume: str, command: Iterable[str]) -> bytes:
        """Run a command on the folder in which the engine keeps its volumes. Layers have marks that only this capability may set."""
        folder = Path(self.client.volumes.get(volume).attrs["Mountpoint"]).parents[1]
        binds = {str(folder): {"bind": "/volumes", "mode": "rw"}, str(COPY): {"bind": "/copy_disk.py", "mode": "ro"}}
        command = list(command)
        try:
            answer: bytes = self.client.containers.run(
                self.host_image,
                command[1:],
                entrypoint=command[:1],
                volumes=binds,
                cap_add=["SYS_ADMIN"],
                network_mode="none",
                labels={hosts.WORKS_FOR: self.config.name},
                remove=True,
                stderr=True,
            )
        except ContainerError as error:
            log = (error.stderr or b"").decode(errors="replace")
            raise LabError(f"{' '.join(command)} failed:\n{log[-3000:]}") from error
        return answer
