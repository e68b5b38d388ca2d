"""Files and answers that somebody damaged, or made to do harm: each reader of the collection makes a value, or a refusal in words, of all of them.

Whoever adds a reader adds it here: what is read from a host, a disk, a hub or a report of an earlier run.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Any, cast

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.action import deployment_members
from ansible_collections.baremetal.llm.plugins.module_utils import (
    _accept,
    _before,
    _bundle,
    _bundle_check,
    _connectivity,
    _content,
    _daemon_json,
    _engine,
    _environment,
    _evidence,
    _image_archive,
    _journal,
    _live,
    _lock,
    _rehash,
    _served,
)
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.modules import gather
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import (
    hub,
    online,
    pieces,
    registry,
    script,
    transfer,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import records_in
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory import backup
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.bundle import read_manifest
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.figures import plan_metrics
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.observations import read_observation
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.benchmark import benchmark_lines, latest_benchmarks
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.start_history import first_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.status import asked
from hypothesis import given
from hypothesis import strategies as st

from tests.support import programs
from tests.support.examples import examples
from tests.support.junk import DAMAGED, JUNK, ODD, YAML_JUNK, places, replaced, without
from tests.support.run_figures import FIGURES

SHA256 = "ab" * 32


class Silent:
    """A host whose programs say what a test says."""

    def __init__(self, said: str = "") -> None:
        self.said = said

    def path(self, _name: str) -> str:
        return "/bin/true"

    def run(self, _command: list[str], must_succeed: bool = False) -> tuple[int, str, str]:
        return 0, self.said, ""

    def answer(self, *_words: str) -> str:
        return self.said


class Answers:
    """What opens an address, and gets this."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def open(self, *_request: Any, **_options: Any) -> Any:
        answer = io.BytesIO(self.content)
        cast(Any, answer).headers = {}
        return answer


def placed(folder: Path, name: str, content: bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)
    return str(path)


def text_of(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def served_of(folder: Path, content: bytes) -> Any:
    path = placed(folder, "host/served.json", content)
    return _served.summary(_served.read_served(path)), _served.pins(str(folder / "host"))


def verified(folder: Path, content: bytes) -> Any:
    placed(folder, "host/records/vllm.json", content)
    host = _evidence.Host(cast(Any, Silent()), {"gpus": [], "driver": {}})
    return _evidence.verify_records(str(folder / "host/records"), host), _evidence.recorded_names(str(folder / "host"))


def arrived(folder: Path, content: bytes) -> Any:
    placed(folder, "models/.bundle-state.json", content)
    top = str(folder / "models")
    _rehash.distrust(top, ["a"])
    placed(folder, "models/.bundle-state.json", content)
    return _rehash.reread(top), _live.models(top), _evidence.distrusted([top], cast(Any, None), {})


def checks(folder: Path, content: bytes) -> Any:
    path = placed(folder, "checks.json", content)
    found = _bundle_check.read_checks(path, "/bundle")
    _bundle_check.write_checks(path, "/bundle", {})
    return found


def backed_up(folder: Path, content: bytes) -> Any:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        backup._add(archive, backup.ABOUT, content, 0o600)
    return backup.unpack(stream.getvalue(), folder / "restored")


def started(folder: Path, content: bytes) -> Any:
    path = Path(placed(folder, "starts.json", content))
    return first_start(path, "gpu01", "cache", 1.0), first_start(path, "gpu01", "cache", 2.0)


def benchmarks(folder: Path, content: bytes) -> Any:
    placed(folder, "benchmarks/1.json", content)
    return benchmark_lines(latest_benchmarks(folder / "benchmarks"), {})


def observed(folder: Path, content: bytes) -> Any:
    found = read_observation(Path(placed(folder, "observations/a.json", content)))
    return found and plan_metrics(found)


def imported(folder: Path, content: bytes) -> Any:
    placed(folder, f"disk/{script.PLAN_NAME}", content)
    return script.read_plan([str(folder / "disk")])


def in_parts(folder: Path, content: bytes) -> Any:
    placed(folder, f"disk/{transfer.PARTS_NAME}", content)
    return transfer.read_parts([str(folder / "disk")])


def of_archive(_folder: Path, content: bytes) -> Any:
    return _image_archive.read_archive(archived({"manifest.json": content}))


def archived(files: Mapping[str, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            backup._add(archive, name, content, 0o600)
    stream.seek(0)
    return stream


READERS: dict[str, Callable[[Path, bytes], Any]] = {
    "record": verified,
    "served.json": served_of,
    "lock.json": lambda _folder, content: _lock.understood(text_of(content)),
    "journal.jsonl": lambda folder, content: _journal.read(placed(folder, "journal.jsonl", content)),
    "network.json": lambda folder, content: gather.network_state(placed(folder, "network.json", content)),
    "state of the probe": lambda folder, content: gather.probe_state(placed(folder, "state.json", content)),
    "words of the probe": lambda folder, content: _live.probe_words(placed(folder, "state.json", content)),
    "evidence of the probe": lambda folder, content: _evidence.probes(
        [placed(folder, "state.json", content)], cast(Any, None), {}
    ),
    "base Python": lambda _folder, content: gather.base_python("/bin/true", cast(Any, Silent(text_of(content)))),
    "settings": lambda folder, content: _evidence.settings(
        {placed(folder, "x.json", content): {"a": {"b": {}}}}, cast(Any, None), {}
    ),
    "daemon.json": lambda _folder, content: _daemon_json.parse(text_of(content), "/etc/docker/daemon.json"),
    "before.json": lambda folder, content: (
        placed(folder, "before.json", content),
        _before.read_picture(str(folder)),
    ),
    "note of an environment": lambda folder, content: (
        placed(folder, "env/llm-environment.json", content),
        _environment.is_whole(str(folder / "env")),
    ),
    "files that arrived": arrived,
    "checks of a bundle": checks,
    "word of a connectivity check": lambda _folder, content: _connectivity._object(content),
    "DCGM": lambda _folder, content: _accept.dcgm_results("lines before " + text_of(content)),
    "burn-in": lambda _folder, content: _accept.burnt(text_of(content)),
    "any object of JSON": lambda folder, content: _content.read_object(placed(folder, "object.json", content)),
    "looks.json": lambda folder, content: (placed(folder, asked.LOOKS, content), asked.read_looks(str(folder))),
    "members.json": lambda folder, content: deployment_members._read(placed(folder, "members.json", content)),
    "starts.json": started,
    "benchmarks": benchmarks,
    "observations": observed,
    "plan.json": imported,
    "list of parts": in_parts,
    "hash tree": lambda folder, content: pieces._read(placed(folder, "tree.json", content), [1]),
    "images.json": lambda folder, content: (
        placed(folder, ".state/images.json", content),
        online._read_images(str(folder)),
    ),
    "hub": lambda _folder, content: hub.ask("a/b", [hub.Hub("https://hub", "/{model}")], cast(Any, Answers(content))),
    "registry": lambda _folder, content: registry.resolve("h.example/a:1", cast(Any, Answers(content)), {}, {}),
    "image archive": of_archive,
    "backup": backed_up,
    "manifest": lambda _folder, content: records_in(content),
    "manifest of an inventory": lambda folder, content: (
        placed(folder, "manifest.yml", content),
        read_manifest(str(folder)),
    ),
    "figures of monitoring": lambda folder, content: programs.load("monitoring/files/llm-textfile.py").loaded(
        placed(folder, "state.json", content)
    ),
    "senders of journals": lambda folder, content: programs.load("monitoring/files/llm-journal-gate.py").Senders(
        placed(folder, "senders.json", content), ["gpu01"]
    ),
    "robot": lambda _folder, content: programs.load("monitoring/files/llm-alert-relay.py").refused("wecom", content),
    "probe": lambda folder, content: programs.load("common/files/llm-probe.py").load(
        placed(folder, "state.json", content)
    ),
}


def outcome(reader: Callable[[Path, bytes], Any], folder: Path, content: bytes) -> str:
    """``value``, ``refused``, or the error that nobody would understand."""
    try:
        found = reader(folder, content)
    except CodedError as error:
        for lang in ("en", "zh"):
            said = message(error.code, lang, **error.values)
            if len(said) > 2000:
                return f"a refusal of {len(said)} letters"
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"
    if isinstance(found, (dict, list)):
        json.dumps(found)
    return "value"


@pytest.mark.parametrize("name", READERS)
def test_no_damaged_file_ends_in_a_raw_error(name: str, tmp_path: Path) -> None:
    wrong = {}
    for number, (kind, content) in enumerate(DAMAGED.items()):
        said = outcome(READERS[name], tmp_path / str(number), content)
        if said not in ("value", "refused"):
            wrong[kind] = said
    assert wrong == {}


# -- what is nearly right ---------------------------------------------------------------------------------------------
STATE = {
    "version": "b",
    "vllm_version": "0.8.5",
    "since": "2026-01-01T00:00:00Z",
    "section": {},
    "plan": {},
    "image": {"reference": "image:1", "id": "sha256:aa", "pinned": True},
    "models": [{"model": "m", "folder": "/models/m", "revision": "1", "kept": "/models/.kept/m-1"}],
}
SIDE = {"kv_cache_tokens": 100, "ranks": [{"kv_cache_gib": 1.5, "weights_gib": 1.0}]}
RIGHT: dict[str, Any] = {
    "served.json": {
        "format": _evidence.FORMAT,
        "states": [STATE, STATE],
        "returned": {"version": "a", "image": "x", "at": "y", "reason": ""},
        "begun": {"version": "c", "image": "z", "at": "y"},
    },
    "lock.json": {
        "format": 1,
        "given_back": 3,
        "holder": {"run": {"machine": "m", "pid": 7, "started": "1"}, "since": 5, "who": "a@b"},
    },
    "words of the probe": {"llm-vllm": {"kind": "serving", "now": 5.0, "counters": {"a": 1}}},
    "files that arrived": {"org--a/x": {"sha256": SHA256, "stamp": [1, 2]}},
    "benchmarks": FIGURES,
    "observations": {"prediction": SIDE, "truth": SIDE, "gpu": "Tesla", "vllm_version": "0.8.5", "model": "x"},
    "starts.json": {"gpu01": {"cache": 7.5}},
    "list of parts": {"models/a": [{"path": "a.001", "sha256": SHA256, "size": 5}]},
    "plan.json": {
        "plan": {
            "models/a": {
                "item": {"path": "models/a", "kind": "model", "source": "hf:a/b", "fields": {"model": "a/b"}},
                "fields": {"revision": "1"},
                "files": [{"path": "models/a/x", "size": 5, "sha256": SHA256, "urls": ["https://h/x"], "content": "x"}],
            }
        },
        "images": [{"reference": "a:1"}],
    },
    "image archive": [{"Config": "c.json", "RepoTags": ["a:1"], "Layers": []}],
    "backup": {"format": backup.FORMAT, "elsewhere": {"llm_secrets_dir": "/x"}, "made": 5, "who": "a@b"},
    "figures of monitoring": {"llm-vllm": {"kind": "serving", "now": 5.0, "counters": {"a": 1}}},
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_read(name: str, tmp_path: Path) -> None:
    if name != "image archive":
        assert outcome(READERS[name], tmp_path, json.dumps(RIGHT[name]).encode()) == "value"


@given(st.data())
@examples(200)
def test_nothing_in_the_place_of_something_else_ends_in_a_raw_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(RIGHT)))
    place = data.draw(st.sampled_from(list(places(RIGHT[name]))))
    leave_out = bool(place) and data.draw(st.booleans())
    wrong = without(RIGHT[name], place) if leave_out else replaced(RIGHT[name], place, data.draw(JUNK))
    said = outcome(READERS[name], tmp_path_factory.mktemp("damaged"), json.dumps(wrong).encode())
    assert said in ("value", "refused"), (name, place)


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_no_odd_value_at_any_place_ends_in_a_raw_error(name: str, tmp_path: Path) -> None:
    wrong = set()
    for number, place in enumerate(places(RIGHT[name])):
        for index, odd in enumerate(ODD):
            content = json.dumps(replaced(RIGHT[name], place, odd)).encode()
            said = outcome(READERS[name], tmp_path / f"{number}-{index}", content)
            if said not in ("value", "refused"):
                wrong.add(f"{place}: {str(odd)[:20]!r}: {said}")
    assert wrong == set()


# -- manifests --------------------------------------------------------------------------------------------------------
RECORD = {"path": "models/a/x", "kind": "model", "size": 5, "sha256": SHA256, "model": "a/b", "revision": "1"}
IMAGE = {
    **RECORD,
    "path": "images/a.tar",
    "kind": "image",
    "images": [
        {"reference": "a:1", "vllm_version": "0.8.5", "contents": {"libraries": {"torch": {"built_for": ["sm_70"]}}}}
    ],
}
MANIFEST = {"schema": 1, "files": [RECORD, IMAGE]}


@given(st.data())
@examples(300)
def test_no_value_at_any_place_of_a_manifest_ends_in_a_raw_error(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(list(places(MANIFEST))))
    wrong = replaced(MANIFEST, place, data.draw(YAML_JUNK))
    try:
        text = yaml.safe_dump(wrong, allow_unicode=True).encode()
    except (UnicodeError, ValueError):  # a surrogate, or a number that Python does not write
        return
    records: list[Any] = []

    def read(_folder: Path, content: bytes) -> None:
        records.extend(records_in(content))

    assert outcome(read, Path("/nowhere"), text) in ("value", "refused")
    for record in records:
        assert os.path.normpath(record["path"]) == record["path"]
        assert not {"\n", "\0", "\x1b"} & set(record["path"])
        assert type(record["size"]) is int
    json.dumps(records, default=str)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"path": ["x"]}, "manifest_path_outside"),
        ({"path": 7}, "manifest_path_outside"),
        ({"path": "a\nb"}, "manifest_path_outside"),
        ({"path": "a\x1b[2J"}, "manifest_path_outside"),
        ({"size": True}, "manifest_size"),
        ({"size": 1 << 70}, "manifest_size"),
        ({"model": ["a"]}, "manifest_word"),
        ({"version": {"a": 1}}, "manifest_word"),
        ({"images": 7}, "manifest_image"),
        ({"images": [{"id": "x"}]}, "manifest_image"),
    ],
)
def test_what_no_record_can_say_is_named(change: dict[str, Any], code: str) -> None:
    with pytest.raises(_bundle.BundleError) as error:
        _bundle.check_manifest({"schema": 1, "files": [{**RECORD, **change}]})
    (problem,) = error.value.values["problems"]
    assert problem.values["reason"].code == code


@pytest.mark.parametrize("files", [7, True, "abc", {"a": 1}])
def test_files_that_are_no_list_are_refused(files: Any) -> None:
    with pytest.raises(_bundle.BundleError) as error:
        _bundle.check_manifest({"schema": 1, "files": files})
    assert error.value.code == "manifest_no_list"


def test_a_refusal_is_no_longer_than_people_read() -> None:
    with pytest.raises(_bundle.BundleError) as error:
        _bundle.check_manifest({"schema": "a" * 10**6})
    assert len(message(error.value.code, "en", **error.value.values)) < 1000


def test_nobody_says_by_other_fields_what_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("content")
    found = _bundle.make_record(str(tmp_path), "x", "model", {"path": "../y", "sha256": "no", "size": 0, "model": "a"})
    assert found == {**found, "path": "x", "size": 7, "kind": "model", "model": "a"}
    assert found["sha256"] == _bundle.sha256_of(str(tmp_path / "x"))


# -- backups ----------------------------------------------------------------------------------------------------------
def packed(*members: tuple[str, bytes], **fields: Any) -> bytes:
    stream = io.BytesIO()
    said = json.dumps({"format": backup.FORMAT, "elsewhere": {}}).encode()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in ((backup.ABOUT, said), *members):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in fields.items() if name != backup.ABOUT else ():
                setattr(member, field, value)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


EVIL = {
    "a way up": packed(("../x", b"1")),
    "a way up within": packed(("a/../../x", b"1")),
    "from the root": packed(("/tmp/x", b"1")),
    "a link": packed(("x", b""), type=tarfile.SYMTYPE, linkname="/etc"),
    "a second name": packed(("x", b""), type=tarfile.LNKTYPE, linkname="/etc/passwd"),
    "a pipe": packed(("x", b""), type=tarfile.FIFOTYPE),
    "a device": packed(("x", b""), type=tarfile.CHRTYPE),
    "a file and a folder": packed(("a", b"1"), ("a/b", b"2")),
    "a folder and a file": packed(("a/b", b"1"), ("a", b"2")),
    "a name twice": packed(("a", b"1"), ("a", b"2")),
    "a name twice, written otherwise": packed(("./a", b"1"), ("a", b"2")),
    "no name": packed(("", b"1")),
    "a size that no file of a backup has": packed(("a", bytes(backup.FILE_BYTES + 1))),
    "cut off": packed(("a", os.urandom(5000)))[:-100],
    "damaged": (lambda data: data[:60] + b"\xff\xff\xff" + data[63:])(packed(("a", os.urandom(5000)))),
}


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in EVIL.items()])
def test_an_evil_backup_is_refused_before_anything_is_written(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(backup.BackupError) as error:
        backup.unpack(data, tmp_path / "restored")
    assert error.value.code == "backup_unreadable"
    assert list(tmp_path.iterdir()) == []


def test_a_backup_sets_no_variable_but_those_of_its_folders(tmp_path: Path) -> None:
    about = {"format": backup.FORMAT, "elsewhere": {"ansible_connection": "local"}}
    with pytest.raises(backup.BackupError):
        backed_up(tmp_path, json.dumps(about).encode())


# -- a Docker engine that lies ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in DAMAGED.items()])
def test_an_engine_that_lies_is_one_that_does_not_answer(content: bytes, tmp_path: Path) -> None:
    class Lies(StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)

    path = str(tmp_path / "docker.sock")
    with ThreadingUnixStreamServer(path, Lies) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            nothing = {"containers": [], "images": []}
            assert _engine.read_engine(path) in (None, nothing)
            found = _engine.ask_engine("/info", path)
            assert found is None or isinstance(found, dict)
            assert isinstance(_live.own_containers(path) or [], list)
        finally:
            server.shutdown()
