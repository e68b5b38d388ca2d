"""Which run this is, and whether another one is over."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.lock import (
    collection_version,
    held_problem,
    is_over,
    this_run,
)


def test_a_run_of_this_machine_is_over_when_its_process_has_ended() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        run = this_run(process.pid)
        assert not is_over(run)
        process.kill()
        process.wait()
    assert is_over(run)


def test_another_process_with_the_same_number_is_another_run() -> None:
    run = this_run(os.getpid())
    assert not is_over(run)
    assert is_over({**run, "run": {**run["run"], "started": "1"}})


def test_a_run_says_who_began_it_and_with_which_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "mei")
    asked = {"args": ["playbooks/site.yml"], "subset": "gpu01", "tags": ["docker", "vllm"]}
    run = this_run(os.getpid(), asked, collection_version())
    assert run["who"].startswith("mei")
    assert [run[name] for name in ("playbook", "limit", "tags")] == ["site.yml", "gpu01", "docker,vllm"]
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", run["collection"])
    assert this_run(os.getpid(), {"args": ["x.yml"], "tags": ["all"]})["tags"] == ""


def test_the_version_of_an_installed_collection_is_its_manifests(tmp_path: Path) -> None:
    assert collection_version(tmp_path) == ""
    (tmp_path / "galaxy.yml").write_text("namespace: baremetal\nversion: 1.2.3\n")
    assert collection_version(tmp_path) == "1.2.3"
    (tmp_path / "MANIFEST.json").write_text('{"collection_info": {"name": "llm", "version": "1.2.4"}}')
    assert collection_version(tmp_path) == "1.2.4"


def test_of_a_run_elsewhere_nobody_knows() -> None:
    run = this_run(os.getpid())
    for machine in ("another boot", "", None):
        assert not is_over({**run, "run": {**run["run"], "machine": machine, "started": "1"}})
    assert not is_over({"run": None})


def test_a_refusal_names_host_holder_and_age() -> None:
    holder = {**this_run(os.getpid()), "who": "ops@laptop", "since": time.time() - 754}
    found = held_problem("gpu01", holder, "/opt/llm/lock.json")
    assert "gpu01 is being changed by another run, of ops@laptop" in found["what"]
    assert found["value"] == "ops@laptop, since 12 minutes"
    assert found["where"] == "gpu01:/opt/llm/lock.json"
    assert "llm_take_over=true" in found["allowed"]
    assert "ops@laptop" in held_problem("gpu01", holder, "/x", "zh")["what"]
    assert "since this one looked" in held_problem("gpu01", None, "/opt/llm/lock.json")["what"]
