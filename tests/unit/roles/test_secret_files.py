"""Tasks that write a secret to a host say nothing of it: neither where they fail nor where they show what is another."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.playbooks import playbook
from tests.support.roles import ROLES, tasks_of

SECRET = "of-the-vault-0123456789"
# By file: the task that writes it, and what it is called in the task.
WRITTEN = {
    "ray/tasks/node.yml": ("Node | Install the token", "ray_token", {"_ray_token": SECRET}),
    "vllm/tasks/server.yml": ("Server | Install the API key", "vllm_api_key", {"_vllm_api_key": SECRET}),
    "common/tasks/engine_server.yml": (
        "Engine server | Install the keys",
        "llama_cpp_api_key",
        {"_common_server_key_files": [{"path": "{{ _llm.vllm.key_file }}", "content": SECRET, "mode": "0640"}]},
    ),
    "monitoring/tasks/grafana.yml": (
        "Grafana | Write the administrator's password",
        "admin_password",
        {"monitoring_grafana_admin_password": SECRET},
    ),
    "web_ui/tasks/main.yml": (
        "Web UI | Write the secrets",
        "web_ui_admin_password",
        {
            "_web_ui_password": SECRET,
            "_web_ui_secrets_written": ["web_ui_admin_password"],
            "_web_ui": {"sso": {"secrets": []}},
        },
    ),
    "common/tasks/unit.yml": ("Unit | Write the environment of the unit", "llm-vllm.env", {}),
    "gateway/tasks/head.yml": ("Head | Let the gateway in", "vllm_api_key.gateway", {}),
}


def write(folder: Path, file: str) -> tuple[int, str]:
    """The exit status and everything that Ansible says of the task, with a folder for the secrets or without one."""
    name, written, known = WRITTEN[file]
    (task,) = (task for task in tasks_of(ROLES / file) if task["name"] == name)
    task = {key: value for key, value in task.items() if key not in ("when", "notify")}
    (folder / "of_gateway").write_text(SECRET)
    place = folder / "secrets" / written
    unit = {"environment_file": str(place), "environment": {"VLLM_A": "b"}, "closed": ["HF_TOKEN"]}
    templates = (ROLES / file).parents[1] / "templates"
    if templates.is_dir():
        shutil.copytree(templates, folder / "templates", dirs_exist_ok=True)
    variables: dict[str, Any] = {
        **known,
        "llm_host_dir": str(folder),
        "_llm": {
            "vllm": {"key_file": str(place)},
            "names": {"folder": str(folder)},
            "secrets": {"group": str(os.getgid())},
        },
        "common_unit": unit,
        "_common_unit_closed": {"HF_TOKEN": SECRET},
        "_gateway_head_key_file": str(place),
        "_gateway_replica_key_file": str(folder / "of_gateway"),
        "_monitoring_grafana_dir": str(place.parent),
        "_web_ui_dir": str(folder),
        "_web_ui_owner": str(os.getgid()),
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    (folder / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [task]}])
    )
    done = playbook(folder / "play.yml", "-i", "localhost,", "-c", "local", "-vvv", "--diff")
    return done.returncode, done.stdout + done.stderr


# Each is a playbook in a process. The quick tests try one, which stands for all of them: what hides a secret is the same keyword.
EACH = [
    file if file == "vllm/tasks/server.yml" else pytest.param(file, marks=pytest.mark.slow) for file in sorted(WRITTEN)
]


def written_for_root(file: str) -> bool:
    """systemd reads it, before it becomes the server's user."""
    return file == "common/tasks/unit.yml"


@pytest.mark.parametrize("file", EACH)
def test_a_secret_that_cannot_be_written_is_not_shown(tmp_path: Path, file: str) -> None:
    status, said = write(tmp_path, file)
    assert status == 2
    assert "no_log" in said, "it is the task itself that failed, and hides why"
    assert SECRET not in said


@pytest.mark.parametrize("file", EACH)
def test_a_secret_that_is_another_one_is_not_shown(tmp_path: Path, file: str) -> None:
    place = tmp_path / "secrets" / WRITTEN[file][1]
    place.parent.mkdir()
    place.write_text("the-former-one")
    status, said = write(tmp_path, file)
    assert status == 0, said
    assert "changed=1" in said
    assert SECRET not in said
    assert "the-former-one" not in said
    # The environment of a unit has a heading, and a line for each variable, of which the first is none of these.
    lines = place.read_text().splitlines()[2:] if written_for_root(file) else [place.read_text().strip()]
    assert lines == [f'HF_TOKEN="{SECRET}"' if written_for_root(file) else SECRET]
    assert place.stat().st_mode & 0o777 == (0o600 if written_for_root(file) else 0o640)


@pytest.mark.slow
def test_a_head_waits_for_a_key_of_the_gateway_that_is_not_made_yet(tmp_path: Path) -> None:
    """A run with --limit to a deployment may come before the first one that reaches a gateway."""
    variables = {
        "_gateway_head_key_file": str(tmp_path / "secrets/vllm_api_key.gateway"),
        "_llm": {"secrets": {"group": str(os.getgid()), "mode": "0750"}},
        "_gateway_replica_key_file": str(tmp_path / "gateway_replica_key"),
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    tasks = list(tasks_of(ROLES / "gateway/tasks/head.yml"))
    play = [{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(play))
    for kept, written in ((None, []), (SECRET, [f"{SECRET}\n"])):
        if kept:
            (tmp_path / "gateway_replica_key").write_text(f"{kept}\n")
        done = playbook(tmp_path / "play.yml", "-i", "localhost,", "-c", "local")
        assert done.returncode == 0, done.stdout
        assert [path.read_text() for path in (tmp_path / "secrets").iterdir()] == written
        assert SECRET not in done.stdout + done.stderr


def former(key: Path, blocks: str = "unlimited") -> subprocess.CompletedProcess[str]:
    """What lets a key work for longer, on a disk that takes files of so many blocks of 512 bytes."""
    (task,) = tasks_of(ROLES / "common/tasks/former_key.yml")
    script = f"ulimit -f {blocks}\n{task['ansible.builtin.shell']['cmd']}"
    variables = {**os.environ, "KEY": str(key)}
    return subprocess.run(["sh", "-c", script], env=variables, capture_output=True, text=True, timeout=60, check=False)


def test_former_keys_are_kept_once_each_and_for_few_eyes(tmp_path: Path) -> None:
    key, previous = tmp_path / "key", tmp_path / "key.previous"
    assert (former(key).returncode, previous.exists()) == (0, False), "there was none"
    for value, kept, said in (("one", "one\n", "kept\n"), ("one", "one\n", ""), ("two", "one\ntwo\n", "kept\n")):
        key.write_text(value)
        done = former(key)
        assert (done.returncode, done.stdout, previous.read_text()) == (0, said, kept), done.stderr
    assert previous.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "key.previous"]


def test_a_full_disk_leaves_no_half_key(tmp_path: Path) -> None:
    """The first letters of a key in a line of their own would be a key."""
    key, previous = tmp_path / "key", tmp_path / "key.previous"
    before = "x" * 507 + "\n"
    previous.write_text(before)
    key.write_text(SECRET)
    assert former(key, "1").returncode != 0
    assert previous.read_text() == before
    assert former(key).returncode == 0
    assert previous.read_text() == f"{before}{SECRET}\n"


def test_every_task_that_hides_its_result_is_tried_or_asks_only() -> None:
    """One that is added writes a secret as well, and has to be tried here."""
    hiding = {
        f"{path.relative_to(ROLES)}: {task['name']}"
        for path in sorted(ROLES.glob("*/tasks/*.yml"))
        for task in tasks_of(path)
        if task.get("no_log")
    }
    tried = {f"{file}: {name}" for file, (name, _written, _known) in WRITTEN.items()}
    assert tried < hiding
    assert {one.partition(":")[0] for one in hiding - tried} == {
        "common/tasks/environment_file.yml",
        "docker/tasks/environment.yml",
        "gateway/tasks/configure.yml",
        "images/tasks/pull.yml",
        "monitoring/tasks/grafana_password.yml",
        "monitoring/tasks/journal.yml",
        "monitoring/tasks/main.yml",
        "preflight/tasks/host.yml",
        "common/tasks/go_back.yml",
        "web_ui/tasks/main.yml",
    }
