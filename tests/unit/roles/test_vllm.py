"""A playbook that waits for the first token, or tries the all-reduce."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment

from tests.support.deployments import host, plan
from tests.support.playbooks import playbook
from tests.support.tasks import ROOT, decision, run_tasks

# Playbooks in processes.
pytestmark = pytest.mark.slow

SLOW = """
echo "$1" >>"$CALLS"
[ "$1" = logs ] && echo "still loading"
[ "$1" = ask ] && sleep 1.5 && echo "no answer" >&2 && exit 1
"""


def test_asking_slowly_does_not_make_the_wait_for_a_token_longer(tmp_path: Path) -> None:
    """A server that hangs takes two minutes to say nothing."""
    known: dict[str, Any] = {
        "vllm_start_seconds": "1",
        "llm_decision": decision("mp"),
    }
    known["llm_decision"]["hosts"]["a"]["vllm"] |= {
        "ask": ["docker", "ask"],
        "probe": {"start": ["sh", "-c", "echo {}"]},
    }
    status, said, calls = run_tasks(tmp_path, "vllm", "token.yml", SLOW, known)
    assert status == 2
    assert calls == ["ask", "logs", "logs"]
    for part in ("pair generated no token in ", "no answer", "still loading"):
        assert part in said
    assert "The last that its log shows: starting; the server has not logged anything yet" in said


LOADING = """
echo "$1" >>"$CALLS"
[ "$1" = logs ] && echo "Loading safetensors checkpoint shards:  60% Completed | 3/5 [01:00<00:40, 20.0s/it]"
[ "$1" = ask ] && [ "$(grep -c ask "$CALLS")" = 1 ] && exit 1
exit 0
"""


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "pair on a: loading weights, 3 of 5 shards, about 40 s left ("),
        ("zh", "a 上的 pair：加载权重，第 3 个分片，共 5 个，约剩 40 s（"),
    ],
)
def test_a_run_says_how_far_a_start_is(language: str, line: str, tmp_path: Path) -> None:
    known: dict[str, Any] = {"llm_decision": decision("mp"), "llm_language": language, "__vllm_container": {}}
    told = {"most_seconds": 60, "reading_seconds": 50.0, "last_seconds": 75}
    section = {"ask": ["docker", "ask"], "probe": {"start": ["sh", "-c", f"echo '{json.dumps(told)}'"]}}
    known["llm_decision"]["hosts"]["a"]["vllm"] |= section
    status, said, calls = run_tasks(tmp_path, "vllm", "token.yml", LOADING, known)
    assert status == 0, said
    assert calls == ["ask", "logs", "ask"]
    (told_of,) = [each for each in said.splitlines() if each.startswith(line)]
    assert "75 s" in told_of
    assert "RETRYING" not in said


def stand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_an_engine_that_hangs_stops_no_clock(tmp_path: Path) -> None:
    """It is asked for the log of a server that does not answer."""
    known: dict[str, Any] = {"vllm_start_seconds": "1", "llm_decision": decision("mp")}
    section = {"ask": ["docker", "ask"], "probe": {"start": ["sh", "-c", "echo {}"]}}
    known["llm_decision"]["hosts"]["a"]["vllm"] |= section
    stand_in(tmp_path, "timeout", f'shift; exec {shutil.which("timeout")} 1 "$@"')
    hangs = '[ "$1" = logs ] && echo "the last words" && exec sleep 600\n[ "$1" = ask ] && sleep 1.5 && exit 1'
    status, said, _calls = run_tasks(tmp_path, "vllm", "token.yml", hangs, known)
    assert status == 2
    assert "pair generated no token in " in said
    assert "the last words" in said


def test_a_cache_that_is_not_counted_in_time_fails_no_start(tmp_path: Path) -> None:
    """As on a disk that hangs. The stand-in of timeout waits one second."""
    known: dict[str, Any] = {"llm_decision": decision("mp"), "__vllm_container": {"changed": True}}
    section = {"ask": ["docker", "ask"], "probe": {"start": ["sh", "-c", """echo '{"most_seconds": 60}'"""]}}
    known["llm_decision"]["hosts"]["a"]["vllm"] |= section
    stand_in(tmp_path, "du", "sleep 600")
    stand_in(tmp_path, "timeout", f'shift; exec {shutil.which("timeout")} 1 "$@"')
    shown = "{{ 'a size' if _vllm_new_start.kept_kib else 'no size' }} is known"
    status, said, _calls = run_tasks(tmp_path, "vllm", "token.yml", "exit 0", known, shown)
    assert status == 0, said
    assert "no size is known" in said


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_all_reduce_is_refused_at_once_where_the_run_lacks_a_rank(language: str, tmp_path: Path) -> None:
    known = {"llm_decision": decision("mp"), "_vllm_collective_again": True, "llm_language": language}
    status, said, calls = run_tasks(tmp_path, "vllm", "collective.yml", SLOW, known)
    assert status == 2
    assert calls == []
    for part in {"en": ("b are not part of this run", "all of a, b"), "zh": ("b 不在本次运行中", "全部 a, b")}[
        language
    ]:
        assert part in said


def test_on_the_way_to_the_service_it_is_left_out(tmp_path: Path) -> None:
    known = {"llm_decision": decision("mp")}
    without_image = 'echo "$1" >>"$CALLS"; [ "$1" != image ]'
    status, said, calls = run_tasks(tmp_path, "vllm", "collective.yml", without_image, known)
    assert status == 0, said
    assert calls == ["container", "image"]
    assert "b are not part of this run" in said


def test_the_file_of_options_says_what_was_decided(tmp_path: Path) -> None:
    """It is one option a line, in the order of the command line, so that a difference shows what changed."""
    written = yaml.safe_load((ROOT / "roles/vllm/vars/main.yml").read_text())["_vllm_option_file"]
    known = {"llm_decision": decision("mp", vllm_version="0.20.0", vllm_served_model_name="yes" + "s" * 100)}
    config = known["llm_decision"]["hosts"]["a"]["vllm"]["config"]
    config["content"] |= {
        "revision": "2026-01-01",
        "compilation-config": '{"a":[1]}',
        "cudagraph-capture-sizes": [1, 2],
    }
    shown = "{{ %s | b64encode }}" % written["content"].strip("{} ")
    status, said, _calls = run_tasks(tmp_path, "common", "lost.yml", "", known, shown)
    assert status == 0, said
    text = base64.b64decode(re.findall(r'"msg": "([^"]+)"', said)[-1]).decode()
    assert yaml.safe_load(text) == config["content"]
    assert [line.partition(":")[0] for line in text.splitlines() if line[0] not in " -"] == list(config["content"])


def write_files(folder: Path, section: dict[str, Any], *options: str) -> tuple[str, str]:
    """What the task that writes files says of a host in this folder: the whole output, and the recap. The programs are left out."""
    tasks = yaml.safe_load((ROOT / "roles/vllm/tasks/server.yml").read_text())
    (found,) = (task for task in tasks if task["name"].startswith("Server | Write programs"))
    variables = yaml.safe_load((ROOT / "roles/vllm/vars/main.yml").read_text())
    (folder / "decision.json").write_text(json.dumps({"vllm": section}))
    # A decision is data, as what a module returns: Ansible fills in nothing of it.
    expression = "{{ lookup('ansible.builtin.file', playbook_dir ~ '/decision.json') | from_json }}"
    known = {"name": "Read what was decided", "ansible.builtin.set_fact": {"_llm": expression}}
    handler = {"name": "Vllm | Files of the server changed", "ansible.builtin.debug": {"msg": "restarted"}}
    variables |= {"ansible_python_interpreter": "{{ ansible_playbook_python }}", "_vllm_program_files": []}
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables}
    play |= {"tasks": [known, found], "handlers": [handler]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    done = playbook(folder / "play.yml", "-i", "localhost,", "-c", "local", *options)
    assert done.returncode == 0, done.stdout
    return done.stdout, done.stdout.splitlines()[-2]


def test_only_a_real_change_restarts_the_server_and_diff_shows_it(tmp_path: Path) -> None:
    (tmp_path / "scripts/files").mkdir(parents=True)

    def section(length: int, template: str) -> dict[str, Any]:
        one = host(1, vllm_version="0.20.0", llm_host_dir=str(tmp_path))
        planned = plan("uni", 1, max_model_len=length)
        made = Deployment("d", "gpu1", ["gpu1"], planned, "image", {"gpu1": one}, {"chat_template.jinja": template})
        found: dict[str, Any] = host_sections(made.of("gpu1"))["vllm"]
        return found

    said, recap = write_files(tmp_path, section(2048, "{{ messages }}{% if x %}{% endif %}"))
    assert "changed=1" in recap
    assert "restarted" in said
    template = tmp_path / "scripts/files/chat_template.jinja"
    assert template.read_text() == "{{ messages }}{% if x %}{% endif %}", "it is not Ansible's to fill in"
    assert yaml.safe_load((tmp_path / "scripts/vllm.yaml").read_text())["max-model-len"] == 2048
    said, recap = write_files(tmp_path, section(2048, "{{ messages }}{% if x %}{% endif %}"))
    assert "changed=0" in recap
    assert "restarted" not in said
    said, recap = write_files(tmp_path, section(4096, ""), "--check", "--diff")
    assert "-max-model-len: 2048\n+max-model-len: 4096\n" in said
    assert template.exists()
    said, recap = write_files(tmp_path, section(4096, ""))
    assert "restarted" in said
    assert not template.exists()


def test_caches_of_former_images_go_after_a_month(tmp_path: Path) -> None:
    caches = tmp_path / "cache"
    month_ago = time.time() - 40 * 24 * 3600
    for name, old in (("now", True), ("before", True), ("yesterday", False)):
        (caches / name / "vllm").mkdir(parents=True)
        if old:
            os.utime(caches / name, (month_ago, month_ago))
    known: dict[str, Any] = {"llm_decision": decision("mp")}
    known["llm_decision"]["hosts"]["a"]["cache"] = str(caches / "now")
    status, said, _calls = run_tasks(tmp_path, "common", "caches.yml", "", known)
    assert status == 0, said
    assert sorted(path.name for path in caches.iterdir()) == ["now", "yesterday"]


def test_its_environment_comes_as_docker_reads_it(tmp_path: Path) -> None:
    tasks = yaml.safe_load((ROOT / "roles/vllm/tasks/collective_run.yml").read_text())
    (stdin,) = (task["ansible.builtin.command"]["stdin"] for task in tasks if "ansible.builtin.command" in task)
    known = {"llm_decision": decision("mp", vllm_environment={"HF_TOKEN": "secret=1"}, llm_nccl_debug="INFO")}
    status, said, _calls = run_tasks(tmp_path, "common", "lost.yml", "", known, stdin)
    assert status == 0, said
    assert "\\nNCCL_DEBUG=INFO\\n" in said
    # The ranks ask no hub, so what only a hub wants is not handed to them.
    assert "secret=1" not in said
