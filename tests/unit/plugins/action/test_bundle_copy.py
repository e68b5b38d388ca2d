"""Copying out of the bundle by ansible-playbook onto this machine: real files, killed in the middle, continued."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.action.bundle_copy import LARGE_BYTES, PACKED_BYTES, batches
from ansible_collections.baremetal.llm.plugins.module_utils import _rehash
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import make_record
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import PACKED, incoming_name

from tests.support.playbooks import ROOT, playbook

# In the order of the manifest. Two files hold the same, as those of two models often do.
CONTENT = {
    "large.safetensors": b"\x00" * LARGE_BYTES,
    "one.safetensors": b"1" * PACKED_BYTES,
    "same.safetensors": b"1" * PACKED_BYTES,
    "late.json": b"2" * 5000,
    "last.json": b"3" * 70,
}
PLAYBOOK = """
- name: Copy
  hosts: node
  gather_facts: false
  tasks:
    - name: Copy
      baremetal.llm.bundle_copy:
        {bundle: "{{ bundle }}", kind: model, dest: "{{ dest }}", strip: 1, content: "{{ content | default(false) }}"}
      register: __copied
    - name: Show
      ansible.builtin.debug: {msg: "RESULT {{ __copied | to_json }}"}
"""


@dataclass
class Site:
    """A bundle, a folder that stands for a host, and what was sent to it."""

    folder: Path

    @property
    def host(self) -> Path:
        return self.folder / "host" / "models"

    @property
    def log(self) -> Path:
        return self.folder / "sent"

    def sent(self) -> dict[str, int]:
        """Per file how many bytes of it were sent since this was asked last."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return {Path(path).name: int(size) for size, path in (line.split(maxsplit=1) for line in lines)}

    def names(self) -> list[str]:
        """What lies on the host under its name."""
        return sorted(path.name for path in (self.host / "m").glob("*")) if self.host.exists() else []

    def start(self, last: int = 1000, *more: str) -> subprocess.CompletedProcess[str]:
        play = self.folder / "copy.yml"
        play.write_text(PLAYBOOK)
        variables = {
            "bundle": str(self.folder / "bundle"),
            "dest": str(self.host),
            "ansible_connection": "counting",
            "ansible_remote_tmp": str(self.folder / "tmp"),
            "ansible_python_interpreter": sys.executable,
        }
        environment = {
            "ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "tests/support/connections"),
            "COUNTING_LOG": str(self.log),
            "COUNTING_LAST": str(last),
        }
        return playbook("-i", "node,", play, "-e", json.dumps(variables), *more, environment=environment)

    def copy(self, *more: str) -> dict[str, Any]:
        done = self.start(1000, *more)
        assert done.returncode == 0, done.stdout + done.stderr
        line = next(line for line in done.stdout.splitlines() if "RESULT " in line)
        text = json.loads("{" + line.strip().rstrip(",") + "}")["msg"].partition("RESULT ")[2]
        return {**json.loads(text), "said": done.stdout, "warned": " ".join(done.stderr.split())}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    bundle = tmp_path / "bundle"
    (bundle / "models/m").mkdir(parents=True)
    for name, content in CONTENT.items():
        (bundle / "models/m" / name).write_bytes(content)
    records = [make_record(str(bundle), f"models/m/{name}", "model", {}) for name in CONTENT]
    (bundle / "manifest.yml").write_text(yaml.safe_dump({"schema": 1, "files": records}))
    return Site(tmp_path)


def incoming(site: Site) -> list[Path]:
    return sorted((site.host / ".incoming").iterdir())


@pytest.mark.slow
def test_a_killed_run_loses_no_more_than_the_file_under_way(site: Site) -> None:
    killed = site.start(last=3)
    assert killed.returncode == -9, killed.stdout + killed.stderr
    whole = {"one.safetensors": PACKED_BYTES, "same.safetensors": PACKED_BYTES}
    assert site.sent() == {"large.safetensors": LARGE_BYTES, **whole}
    assert site.names() == ["large.safetensors"], "a large file has its name when it has arrived"
    left = {path.name: path.stat().st_size for path in incoming(site)}
    assert 0 < left.pop(PACKED) < PACKED_BYTES
    assert list(left.values()) == [PACKED_BYTES, PACKED_BYTES]

    second = site.copy()
    assert list(site.sent()) == [PACKED], "the small ones together"
    assert second["bytes"] == 5070
    assert second["taken"] == ["m/one.safetensors", "m/same.safetensors"]
    assert second["copied"] == ["m/one.safetensors", "m/same.safetensors", "m/late.json", "m/last.json"]
    assert "node: 2 files (2.0 MiB) had arrived in an interrupted run" in second["said"]
    assert {name: (site.host / "m" / name).read_bytes() for name in CONTENT} == CONTENT
    assert incoming(site) == []

    third = site.copy()
    assert (third["changed"], third["copied"], third["bytes"], site.sent()) == (False, [], 0, {})


@pytest.mark.slow
def test_what_was_left_is_read_before_it_gets_a_name(site: Site) -> None:
    record = {
        "path": "m/one.safetensors",
        "sha256": make_record(str(site.folder), "bundle/models/m/one.safetensors", "", {})["sha256"],
    }
    left = site.host / ".incoming" / incoming_name(record)
    left.parent.mkdir(parents=True)
    left.write_bytes(b"x" * PACKED_BYTES)
    elsewhere = site.folder / "elsewhere"
    elsewhere.write_bytes(CONTENT["one.safetensors"])
    (left.parent / incoming_name({**record, "path": "m/same.safetensors"})).symlink_to(elsewhere)
    found = site.copy()
    assert found["taken"] == []
    assert set(site.sent()) == {"large.safetensors", "one.safetensors", "same.safetensors", PACKED}
    assert not (site.host / "m/same.safetensors").is_symlink()
    assert {name: (site.host / "m" / name).read_bytes() for name in CONTENT} == CONTENT


@pytest.mark.slow
def test_check_mode_touches_nothing_that_was_left(site: Site) -> None:
    site.start(last=3)
    site.sent()
    before = [(path, path.stat().st_mtime_ns) for path in incoming(site)]
    found = site.copy("--check", "--diff")
    assert found["copied"] == ["m/one.safetensors", "m/same.safetensors", "m/late.json", "m/last.json"]
    assert [(path, path.stat().st_mtime_ns) for path in incoming(site)] == before
    assert site.sent() == {}


def test_a_file_that_changed_on_the_way_is_named_and_the_others_stay(site: Site) -> None:
    (site.folder / "bundle/models/m/large.safetensors").write_bytes(b"\x01" * LARGE_BYTES)
    done = site.start()
    assert done.returncode == 2, done.stdout + done.stderr
    assert "m/large.safetensors: SHA-256" in done.stdout
    assert "m/one.safetensors: SHA-256" not in done.stdout
    assert site.names() == sorted(set(CONTENT) - {"large.safetensors"})
    assert incoming(site) == []


def rot(path: Path) -> None:
    """One byte, as a failing disk does it: size and modification time stay."""
    before = path.stat()
    with path.open("r+b") as stream:
        stream.seek(before.st_size // 2)
        stream.write(b"~")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.slow
def test_a_file_that_rots_is_found_on_request_and_fetched_again(site: Site) -> None:
    site.copy()
    site.sent()
    late = site.host / "m/late.json"
    with late.open("rb") as used:
        rot(late)
        assert site.copy()["copied"] == [], "to look at size and time is cheap, and all that is done unasked"
        assert site.copy("-e", "content=true", "--check")["rotten"] == ["m/late.json"]
        found = site.copy("-e", "content=true")
        assert found["copied"] == found["rotten"] == ["m/late.json"]
        assert "node: the content of m/late.json is not what it was" in found["warned"]
        assert site.sent() == {"late.json": 5000}
        assert late.read_bytes() == CONTENT["late.json"]
        assert b"~" in used.read(), "who has the old file open keeps it"
    found = site.copy("-e", "content=true")
    assert (found["changed"], found["rotten"]) == (False, [])


@pytest.mark.slow
def test_what_the_timer_found_is_fetched_again_unasked(site: Site) -> None:
    site.copy()
    site.sent()
    rot(site.host / "m/last.json")
    program = [sys.executable, "-I", _rehash.__file__, str(site.host), str(site.folder / "models-verify.json")]
    assert subprocess.run(program, capture_output=True, timeout=60).returncode == 1
    assert json.loads((site.folder / "models-verify.json").read_text())["bad"] == ["m/last.json"]
    found = site.copy()
    assert found["rotten"] == found["copied"] == ["m/last.json"]
    assert site.sent() == {"last.json": 70}
    assert subprocess.run(program, capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ([], []),
        ([1, 2], [[1, 2]]),
        ([LARGE_BYTES, 1, LARGE_BYTES, 2], [[LARGE_BYTES], [1, LARGE_BYTES], [2]]),
        ([LARGE_BYTES // 2] * 3, [[LARGE_BYTES // 2] * 2, [LARGE_BYTES // 2]]),
    ],
)
def test_what_is_committed_together(sizes: list[int], together: list[list[int]]) -> None:
    found = batches([{"size": size} for size in sizes])
    assert [[file["size"] for file in batch] for batch in found] == together
