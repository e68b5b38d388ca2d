"""States of the lab: named by what they are made from, and never made where there is no space for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab import bundle, config, hosts, locks, states
from lab.progress import LabError
from lab.states import STATES, States
from tests.support import docs_commands


@dataclass
class Engine:
    """The engine below the lab, as far as states ask it what it holds."""

    images: Any = None
    volumes: Any = None
    kept: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.images = self.volumes = self

    def get(self, name: str) -> None:
        if name not in self.kept:
            raise states.NotFound(name)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> States:
    """A lab in an empty checkout and an empty cache."""
    monkeypatch.setattr(states, "KEPT", tmp_path / "states")
    monkeypatch.setattr(locks, "LOCKS", tmp_path / "locks")
    for module in (states, bundle):
        monkeypatch.setattr(module, "CHECKOUT", tmp_path)
        # The checkout's own belongs to the scenarios that run beside this.
        monkeypatch.setattr(module, "STATE", tmp_path / ".lab")
    monkeypatch.setattr(bundle, "key", lambda client, lab: "bundle")
    for state in STATES.values():
        for name in (*bundle.ALWAYS, *(f"roles/{role}" for role in state.roles)):
            folder = tmp_path / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "main.yml").write_text(name)
    return States(Engine(), config.load(), "host:1")  # type: ignore[arg-type]


def names(lab: States) -> dict[str, str]:
    return {name: lab._snapshot(state).name for name, state in STATES.items()}


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ("plugins", {"prepared", "loaded", "serving"}),
        ("inventories/lab", {"prepared", "loaded", "serving"}),
        ("roles/docker", {"prepared", "loaded", "serving"}),
        ("roles/models", {"loaded", "serving"}),
        ("roles/vllm", {"serving"}),
    ],
)
def test_a_change_makes_the_states_stale_that_come_after_it(
    lab: States, tmp_path: Path, changed: str, stale: set[str]
) -> None:
    before = names(lab)
    (tmp_path / changed / "main.yml").write_text("changed")
    after = names(lab)
    assert {name for name in STATES if before[name] != after[name]} == stale


def test_another_host_makes_every_state_stale(lab: States) -> None:
    before = names(lab)
    lab.host_image = "host:2"
    assert all(before[name] != after for name, after in names(lab).items())


def test_only_the_state_that_holds_addresses_belongs_to_one_lab(lab: States) -> None:
    before = names(lab)
    lab.config.networks["data"] = "172.31.243.0/24"
    after = names(lab)
    assert {name for name in STATES if before[name] != after[name]} == {"serving"}


def test_a_state_counts_as_kept_only_with_its_record_and_every_disk(lab: States) -> None:
    snapshot = lab._snapshot(STATES["prepared"])
    disks = {name for node in lab.nodes for name in (snapshot.image(node), snapshot.volume(node))}
    engine: Any = lab.client
    engine.kept = disks
    assert not lab._kept(snapshot)
    snapshot.folder.mkdir(parents=True)
    (snapshot.folder / "state.json").write_text("{}")
    assert lab._kept(snapshot)
    for disk in disks:
        engine.kept = disks - {disk}
        assert not lab._kept(snapshot)


def test_without_space_the_playbooks_run_on_bare_hosts(
    lab: States, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(states.hosts, "ensure_key", lambda: None)
    monkeypatch.setattr(states.hosts, "ensure_networks", lambda *_: None)
    monkeypatch.setattr(lab, "_free_gib", lambda: 7.0)
    monkeypatch.setattr(lab, "prune", lambda: done.append("prune"))
    monkeypatch.setattr(lab, "_bare", lambda: done.append("bare"))
    monkeypatch.setattr(lab, "_play", lambda state: done.append(state.name))
    lab.restore("loaded")
    assert done == ["prune", "bare", "prepared", "loaded"]
    said = capsys.readouterr().out
    assert "no space to keep prepared and loaded" in said
    assert "7.0 GiB are free" in said
    assert "lab state prune" in said


def test_what_a_killed_process_left_at_work_on_disks_is_ended_before_they_are_removed(
    lab: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []

    class Left:
        def remove(self, force: bool) -> None:
            done.append(("ended", force))

    class Containers:
        def list(self, **asked: Any) -> list[Left]:
            done.append(asked)
            return [Left()]

    engine: Any = lab.client
    engine.containers = Containers()
    monkeypatch.setattr(hosts, "remove_host", lambda *_: done.append("host removed"))
    hosts.remove_hosts(engine, lab.config)
    assert done == [
        {"all": True, "filters": {"label": "baremetal.llm.lab.volumes=llm-lab"}},
        ("ended", True),
        *["host removed"] * len(lab.nodes),
    ]


def test_secrets_and_reports_go_with_the_hosts_but_not_what_was_read_of_the_bundle(
    lab: States, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = tmp_path / ".lab"
    for name in ("secrets/api_key", "reports/plan.json", "reports/run/1.json", f"reports/{bundle.CHECKS}", "ssh/id"):
        path = state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    monkeypatch.setattr(states.exits, "remove_watch", lambda *_: None)
    monkeypatch.setattr(states.hosts, "remove_hosts", lambda *_: None)
    lab._forget_hosts()
    left = {str(path.relative_to(state)) for path in state.rglob("*") if path.is_file()}
    assert left == {f"reports/{bundle.CHECKS}", "ssh/id"}


def test_stale_states_make_room_where_there_is_too_little(lab: States, monkeypatch: pytest.MonkeyPatch) -> None:
    free = [14.9, 30.0]
    monkeypatch.setattr(lab, "_free_gib", lambda: free[0])
    monkeypatch.setattr(lab, "prune", lambda: free.pop(0))
    assert lab.make_room(9.9) == 14.9  # and 5 GiB of reserve: enough
    assert lab.make_room(10) == 30.0
    assert free == [30.0]


def test_a_state_whose_sources_change_while_it_is_made_is_not_kept(
    lab: States, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "_bare", lambda: None)
    monkeypatch.setattr(lab, "_play", lambda state: (tmp_path / "roles/docker/main.yml").write_text("saved meanwhile"))
    monkeypatch.setattr(lab, "_keep", lambda *_: pytest.fail("it was kept"))
    lab._restore(STATES["prepared"])
    assert "is not kept" in capsys.readouterr().out


def test_hosts_that_another_way_brought_there_are_kept_once(lab: States, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(lab, "_free_gib", lambda: 100.0)
    monkeypatch.setattr(lab, "_keep", lambda snapshot, seconds, boot: kept.append(f"{snapshot.name} {boot}"))
    lab.keep("serving")
    assert kept == [f"{names(lab)['serving']} False"]
    monkeypatch.setattr(lab, "_kept", lambda snapshot: True)
    lab.keep("serving")
    assert len(kept) == 1


def test_hosts_are_not_kept_where_there_is_no_space(
    lab: States, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # All that was put on them since they were bare, in this case: 3 x (0.5 + 2.6 + 0.2) GiB.
    monkeypatch.setattr(lab, "_free_gib", lambda: 14.0)
    monkeypatch.setattr(lab, "prune", lambda: None)
    monkeypatch.setattr(lab, "_keep", lambda *_: pytest.fail("they were kept"))
    lab.keep("serving")
    assert "it takes 9.9 GiB, and 14.0 GiB are free" in capsys.readouterr().out


def test_the_offline_guide_takes_the_way_of_the_states() -> None:
    page = docs_commands.ROOT / "docs/guides/offline.md"
    made = [name for state in ("prepared", "loaded") for name in STATES[state].playbooks]
    lines = "".join(f'ansible-playbook playbooks/{name}.yml -i "$INVENTORY"\n' for name in made)
    assert lines in [block.text for block in docs_commands.blocks(page)]


def test_an_unknown_state_is_answered_with_those_there_are() -> None:
    done = subprocess.run([sys.executable, "-m", "lab", "state", "restore", "nothing"], capture_output=True, text=True)
    assert done.returncode == 2
    for name in STATES:
        assert f"'{name}'" in done.stderr


def test_the_lab_of_another_run_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(locks, "LOCKS", tmp_path)
    monkeypatch.setattr(locks, "OWNER", tmp_path / "lab.owner")
    with subprocess.Popen(["sleep", "60"]) as other:
        record = {"pid": other.pid, "start": locks._start(other.pid), "what": "molecule test", "since": 0}
        locks.OWNER.write_text(json.dumps(record))
        with pytest.raises(LabError, match=rf"in use: molecule test \(process {other.pid}"):
            locks.claim()
        other.kill()
    locks.claim()  # its process has ended
    assert json.loads(locks.OWNER.read_text())["pid"] in {pid for pid, _ in locks._ancestors()}
    locks.claim()  # mine already
    assert os.getpid() in {pid for pid, _ in locks._ancestors()}
