"""Records of what roles left, written and verified on this machine's files."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _environment, _rehash
from ansible_collections.baremetal.llm.plugins.module_utils import _evidence as evidence

from tests.support.modules import run_module


class NoPrograms:
    def path(self, name: str) -> str:
        return ""

    def answer(self, name: str, *arguments: str) -> str:
        return ""


HOST = evidence.Host(NoPrograms(), {})  # type: ignore[arg-type]


def record(folder: Path, subjects: dict[str, Any]) -> None:
    evidence.write_record(str(folder), "docker", evidence.make_record(subjects, HOST, "asked", "c0de"))


def differs(folder: Path) -> list[str]:
    found: list[str] = evidence.verify_records(str(folder), HOST)["docker"]["differs"]
    return found


def test_a_record_says_what_it_was_made_from(tmp_path: Path) -> None:
    record(tmp_path / "records", {"paths": ["/etc/hostname"]})
    assert evidence.verify_records(str(tmp_path / "records"), HOST) == {
        "docker": {"digest": "asked", "collection": "c0de", "differs": []}
    }
    assert oct((tmp_path / "records").stat().st_mode)[-3:] == "700"
    assert oct((tmp_path / "records/docker.json").stat().st_mode)[-3:] == "600"


def test_what_happens_to_a_file_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "unit"
    file.write_text("one")
    os.utime(file, ns=(5, 5))
    record(tmp_path / "records", {"paths": [str(file)]})
    alterations = {
        "content of the same size and time": lambda: (file.write_text("two"), os.utime(file, ns=(5, 5))),
        "mode": lambda: file.chmod(0o600),
        "removed": lambda: file.unlink(),
        "a link": lambda: (file.unlink(), file.symlink_to("/etc/hostname")),
    }
    for name, alter in alterations.items():
        file.unlink(missing_ok=True)
        file.write_text("one")
        file.chmod(0o644)
        os.utime(file, ns=(9, 9))
        assert differs(tmp_path / "records") == [], f"a file with the same content is the same file, before {name}"
        alter()
        assert differs(tmp_path / "records") == [f"paths {file}"], name


def test_a_large_file_is_read_when_its_time_or_inode_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "READ_ALWAYS_BYTES", 10)
    file = tmp_path / "large"
    file.write_text("x" * 20)
    record(tmp_path / "records", {"trees": [str(tmp_path / "large")], "paths": [str(file)]})
    os.utime(file, ns=(7, 7))
    assert differs(tmp_path / "records") == [], "it was read: the same content"
    file.write_text("x" * 19 + "y")
    assert differs(tmp_path / "records") == [f"paths {file}", f"trees {file}"]


def test_what_is_too_large_to_be_read_differs_by_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "READ_ALWAYS_BYTES", 5)
    monkeypatch.setattr(evidence, "READ_AT_MOST_BYTES", 10)
    file = tmp_path / "weights"
    file.write_text("x" * 20)
    record(tmp_path / "records", {"paths": [str(file)]})
    assert differs(tmp_path / "records") == []
    os.utime(file, ns=(7, 7))
    assert differs(tmp_path / "records") == [f"paths {file}"]


def test_a_tree_has_evidence_of_everything_in_it(tmp_path: Path) -> None:
    tree = tmp_path / "models"
    (tree / "tiny").mkdir(parents=True)
    (tree / "tiny/config.json").write_text("{}")
    record(tmp_path / "records", {"trees": [str(tree)]})
    assert differs(tmp_path / "records") == []
    (tree / "tiny/more").write_text("")
    assert differs(tmp_path / "records") == [f"trees {tree}/tiny/more"]
    (tree / "tiny/more").unlink()
    (tree / "tiny/config.json").unlink()
    assert differs(tmp_path / "records") == [f"trees {tree}/tiny/config.json"]


def test_of_a_shared_file_only_the_keys_of_the_role_count(tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    file.write_text(json.dumps({"log-opts": {"max-size": "1m"}, "mtu": 1500}))
    record(tmp_path / "records", {"settings": {str(file): {"log-opts": {"max-size": "1m"}, "live-restore": True}}})
    file.write_text(json.dumps({"log-opts": {"max-size": "1m", "tag": "x"}, "mtu": 9000}))
    assert differs(tmp_path / "records") == []
    file.write_text(json.dumps({"log-opts": {"max-size": "2m"}}))
    assert differs(tmp_path / "records") == [f"settings {file}"]
    file.write_text("{")
    assert differs(tmp_path / "records") == [f"settings {file}"]


def test_a_file_that_was_read_again_and_is_another_one_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "weights").write_text("right")
    known = {"weights": {"sha256": hashlib.sha256(b"right").hexdigest(), "stamp": [5, 1, 1]}}
    (folder / ".bundle-state.json").write_text(json.dumps(known))
    record(tmp_path / "records", {"distrusted": [str(folder)]})
    program = [sys.executable, "-I", str(_rehash.__file__), str(folder), str(tmp_path / "result.json")]
    assert subprocess.run(program, capture_output=True).returncode == 0
    assert differs(tmp_path / "records") == []
    (folder / "weights").write_text("rotten")
    assert subprocess.run(program, capture_output=True).returncode == 1
    assert differs(tmp_path / "records") == [f"distrusted {folder}"]


def test_links_into_a_folder(tmp_path: Path) -> None:
    (tmp_path / "docker").symlink_to("/opt/engine/docker")
    (tmp_path / "other").symlink_to("/usr/bin/true")
    record(tmp_path / "records", {"links": [f"{tmp_path}/* -> /opt/engine"]})
    (tmp_path / "other").unlink()
    assert differs(tmp_path / "records") == []
    (tmp_path / "docker").unlink()
    assert differs(tmp_path / "records") == [f"links {tmp_path}/docker"]


@pytest.mark.parametrize(
    ("text", "well"),
    [
        ('{"form": 2, "llm-vllm": {"kind": "serving"}, "llm-ray": {"kind": "running"}, "measured": {}}', True),
        ('{"llm-vllm": {"kind": "busy"}}', True),
        ('{"llm-vllm": {"kind": "serving"}, "llm-ray": {"kind": "failed"}}', False),
        ('{"llm-vllm": {"kind": "loading"}}', False),
        ('{"llm-vllm": {"kind": "refused"}}', False),
        ('{"form": 2}', False),
        ("{", False),
        ("[]", False),
        (None, False),
    ],
)
def test_a_service_that_is_not_well_is_not_hidden(tmp_path: Path, text: str | None, well: bool) -> None:
    state = tmp_path / "state.json"
    record(tmp_path / "records", {"probes": [str(state)]})
    if text is not None:
        state.write_text(text)
    assert differs(tmp_path / "records") == ([] if well else [f"probes {state}"])


def test_what_the_probe_saw_before_the_token_is_no_news(tmp_path: Path) -> None:
    """A run that follows at once finds the state that the probe wrote while the server was loading."""
    state, loading = tmp_path / "state.json", '{"llm-vllm": {"kind": "loading"}}'
    state.write_text(loading)
    record(tmp_path / "records", {"probes": [str(state)]})
    assert differs(tmp_path / "records") == []
    # Two looks can fall into one tick of the file system's clock.
    written_ns = state.stat().st_mtime_ns + 1
    state.write_text(loading)
    os.utime(state, ns=(written_ns, written_ns))
    assert differs(tmp_path / "records") == [f"probes {state}"]
    state.write_text('{"llm-vllm": {"kind": "serving"}}')
    assert differs(tmp_path / "records") == []
    state.unlink()
    assert differs(tmp_path / "records") == [f"probes {state}"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "evidence": 3, "subjects": {}}']
)
def test_a_record_that_cannot_be_understood_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "docker.json").write_text(text)
    assert evidence.verify_records(str(tmp_path), HOST) == {}


def test_a_record_that_others_can_write_counts_as_none(tmp_path: Path) -> None:
    record(tmp_path, {})
    (tmp_path / "docker.json").chmod(0o620)
    assert evidence.verify_records(str(tmp_path), HOST) == {}
    (tmp_path / "docker.json").chmod(0o600)
    (tmp_path / "docker.json").rename(tmp_path / "kept")
    (tmp_path / "docker.json").symlink_to(tmp_path / "kept")
    assert evidence.verify_records(str(tmp_path), HOST) == {}


def test_evidence_of_a_kind_that_this_version_does_not_know_makes_a_record_count_as_none(tmp_path: Path) -> None:
    content = {**evidence.make_record({}, HOST, "asked", "c0de"), "subjects": {"moons": []}}
    evidence.write_record(str(tmp_path), "docker", content)
    assert evidence.verify_records(str(tmp_path), HOST) == {}


def test_the_module_writes_a_record_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    arguments = {
        "role": "models",
        "records_dir": str(tmp_path / "records"),
        "subjects": {"paths": [str(file)]},
        "made_from": "asked",
        "collection": "c0de",
    }
    assert run_module("record", tmp_path / "bin", arguments, True)["recorded"] is False
    assert not (tmp_path / "records").exists()
    assert run_module("record", tmp_path / "bin", arguments)["recorded"] is True
    assert run_module("record", tmp_path / "bin", arguments)["recorded"] is False
    found = json.loads((tmp_path / "records/models.json").read_text())
    assert found["evidence"]["paths"][str(file)]["size"] == 1


def test_units_and_packages_are_asked_in_one_go() -> None:
    class Programs(NoPrograms):
        def answer(self, name: str, *arguments: str) -> str:
            if name == "systemctl":
                return "LoadState=loaded\nActiveState=active\n\nLoadState=not-found\nActiveState=inactive\n"
            return "ii \tnftables\t1.0.6\nhi \tnvidia-driver\t535\n" if name == "dpkg-query" else ""

    host = evidence.Host(Programs(), {"driver": {}, "gpus": [], "source": "pci"})  # type: ignore[arg-type]
    found = evidence.collect(
        {"units": ["a.service", "b.timer"], "packages": ["nftables", "ufw"], "driver": ["nvidia"]}, host
    )
    assert found["units"] == {
        "a.service": {"LoadState": "loaded", "ActiveState": "active"},
        "b.timer": {"LoadState": "not-found", "ActiveState": "inactive"},
    }
    assert found["packages"] == {"nftables": "ii 1.0.6", "ufw": None}
    assert found["driver"]["packages"] == {"nvidia-driver": "hi 535"}


def test_of_the_settings_of_a_container_those_count_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker 20.10 says null of Dns when it has made a container, and an empty list after its own restart."""

    def seen(**settings: Any) -> Any:
        said = {"Image": "sha256:a", "State": {"Running": True}, "Config": {"Env": ["A=1"]}, "HostConfig": settings}
        monkeypatch.setattr(evidence, "ask_engine", lambda _path: said)
        return evidence.containers(["llm-vllm"], None, {})  # type: ignore[arg-type]

    made = seen(Dns=None, Privileged=False, PidsLimit=65536, LogConfig={"Config": {}, "Type": "json-file"})
    assert made == seen(Dns=[], Privileged=False, PidsLimit=65536, LogConfig={"Type": "json-file"})
    assert made != seen(Dns=[], Privileged=True, PidsLimit=65536, LogConfig={"Type": "json-file"})
    assert made != seen(Dns=[], Privileged=False, PidsLimit=0, LogConfig={"Type": "json-file"})
    assert made != seen(Dns=["::1"], Privileged=False, PidsLimit=65536, LogConfig={"Type": "json-file"})


def test_since_when_a_process_runs_is_counted_from_the_boot() -> None:
    before = time.monotonic()
    with subprocess.Popen(["sleep", "60"]) as process:
        born = evidence._born(process.pid)
        process.kill()
    assert born is not None
    assert before - 0.02 <= born <= time.monotonic()
    assert evidence._born(process.pid) is None


def test_a_process_that_is_older_than_its_files_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run leaves it that is ended between the file and the restart."""
    booted = time.time() - time.monotonic()
    since = {"llm-vllm": time.time() - 100, "docker.service": time.time() - 100}
    running = True

    def engine(_question: str) -> Any:
        return {"State": {"Running": running, "Pid": 7 if running else 0}}

    class Systemd(NoPrograms):
        def answer(self, name: str, *arguments: str) -> str:
            microseconds = int((since["docker.service"] - booted) * 1e6)
            return f"MainPID={7 if running else 0}\nExecMainStartTimestampMonotonic={microseconds if running else 0}\n"

    monkeypatch.setattr(evidence, "ask_engine", engine)
    monkeypatch.setattr(evidence, "_born", lambda _pid: since["llm-vllm"] - booted)
    host = evidence.Host(Systemd(), {})  # type: ignore[arg-type]
    file, missing = tmp_path / "file", tmp_path / "missing"
    file.touch()
    subjects = {"started": {name: [str(file), str(missing)] for name in since}}
    before = evidence.collect(subjects, host)

    def differ(age: float) -> list[str]:
        os.utime(file, (time.time(), time.time() - age))
        return evidence.differences(before, evidence.collect(subjects, host, before))

    assert differ(101) == []
    assert differ(99) == ["started docker.service", "started llm-vllm"]
    since["llm-vllm"] = time.time() - 10
    assert differ(50) == ["started docker.service"], "the container has read it"
    assert differ(-1000) == [], "the clock was set back: that says nothing"
    running = False
    assert differ(1) == [], "what does not run has read nothing"


def test_what_happens_to_an_environment_is_noticed(tmp_path: Path) -> None:
    top = tmp_path / "venv"
    (top / "bin").mkdir(parents=True)
    (top / "bin/python3").symlink_to(sys.executable)
    (top / "module.py").write_text("one")
    _environment.write_note(str(top), "abc")
    record(tmp_path / "records", {"environments": [str(top)]})
    assert differs(tmp_path / "records") == []
    (top / "module.py").write_text("two")
    assert differs(tmp_path / "records") == [f"environments {top}"]
    _environment.write_note(str(top), "abc")
    assert differs(tmp_path / "records") == []


def test_a_record_of_images_remembers_those_that_it_named_before() -> None:
    first = {"evidence": {"images": {"vllm:1": "sha256:a", "gone:1": None}}}
    assert evidence.brought_before(None) == {}
    assert evidence.brought_before(first) == {"sha256:a": "vllm:1"}
    second = {"earlier": {"sha256:a": "vllm:1"}, "evidence": {"images": {"vllm:2": "sha256:b"}}}
    assert evidence.brought_before(second) == {"sha256:a": "vllm:1", "sha256:b": "vllm:2"}
    many = {"earlier": {f"sha256:{number}": "vllm:0" for number in range(200)}, "evidence": None}
    assert len(evidence.brought_before(many)) == evidence.MOST_EARLIER


def test_a_container_that_is_started_on_request_may_be_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    def runs(state: str, label: str) -> Any:
        labels = {"baremetal.llm.on_request": label}
        said = {"State": {"Running": state == "running", "Status": state}, "Config": {"Labels": labels}}
        monkeypatch.setattr(evidence, "ask_engine", lambda _path: said)
        return evidence.containers(["llm-llama_cpp"], None, {})["llm-llama_cpp"]["runs"]  # type: ignore

    assert [runs(state, "true") for state in ("running", "exited", "created", "dead")] == [True, True, True, False]
    assert [runs(state, "false") for state in ("running", "exited")] == [True, False]
