"""What tests on hosts of the lab do as a user does: commands without what pytest and molecule have set, and a client that asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import testinfra

from lab.config import CHECKOUT, STATE, load

# What molecule and pytest leave to their children would not be in a user's shell.
NOT_A_USERS = ("ANSIBLE_", "MOLECULE_", "PYTEST_")
ANSWERS = CHECKOUT / "molecule/shared/files/answers.py"


def users_environment(**more: str) -> dict[str, str]:
    """What a user's shell has, and ``more``."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith(NOT_A_USERS)}, **more}


def connect(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def run(*command: str, status: int = 0, **environment: str) -> str:
    """What a program says; it has to end with this status."""
    kept = users_environment(**environment)
    done = subprocess.run(command, cwd=CHECKOUT, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == status, done.stdout[-6000:]
    return done.stdout


def play(*arguments: str, status: int = 0, **environment: str) -> str:
    """What a playbook says to the lab's inventory."""
    return run("ansible-playbook", "-i", "inventories/lab", *arguments, status=status, **environment)


def page(path: str, first: int, last: int, **variables: str) -> str:
    """What the blocks of a runbook say, word by word, from the first of these to the last."""
    sets = [word for name, value in variables.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "tests/support/docs_commands.py", "day_two", path, *sets]
    return run(*command, "--blocks", str(last), "--from", str(first))


@contextmanager
def answering(name: str) -> Iterator[None]:
    """Somebody asks the server of a host all the time, and never waits for an answer in vain."""
    node = connect(name)
    ssh = ["ssh", "-F", str(STATE / "ssh/config"), name, "cat > /root/answers.py"]
    subprocess.run(ssh, input=ANSWERS.read_bytes(), check=True)
    node.check_output("rm -f /root/answers.stop /root/answers.out")
    asked = f"http://{load().nodes[name].data}:8000/v1/completions /opt/llm/secrets/vllm_api_key /root/answers.stop"
    node.check_output(f"nohup python3 /root/answers.py {asked} > /root/answers.out 2>&1 &")
    yield
    node.check_output(
        "touch /root/answers.stop; for n in $(seq 60); do test -s /root/answers.out && break; sleep 1; done"
    )
    assert json.loads(node.check_output("cat /root/answers.out")) == []
