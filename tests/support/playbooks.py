"""ansible-playbook, started as often as tests want it, for little more than what its tasks cost.

Most of a start is the import of Ansible, and a module has to be packed before it can run. So there is a process for each environment that
has imported Ansible and nothing more, and each run is a fork of it, with the arguments, the working directory, the standard output and the
exit status of a program of its own. What is packed is kept for the next run.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What Ansible reads while it is imported.
READ_AT_ONCE = ("ANSIBLE_", "PYTHON", "LC_", "LANG", "COLUMNS", "HOME", "NO_COLOR")
LIMIT_SECONDS = 300
ENVIRONMENT = {"NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
# What every run would import by itself, besides the plugins of these kinds.
IMPORTS = ("ansible.cli.playbook", "ansible.executor.task_executor", "ansible_collections.ansible.builtin")
KINDS = ("inventory", "callback", "filter", "test")

STARTED: dict[str, subprocess.Popen[str]] = {}


def playbook(
    *arguments: str | Path, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What ansible-playbook says with these arguments and these variables, besides those of the tests that are not Ansible's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    variables = {**kept, **ENVIRONMENT, **(environment or {})}
    process = _started(cwd, variables)
    command = ["ansible-playbook", *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/stdout", f"{folder}/stderr"]
        request = {"command": command, "environment": variables, "files": files}
        if process.stdin is None or process.stdout is None:
            raise ValueError("it is started with pipes")
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        if not (status := process.stdout.readline()):
            raise RuntimeError("who starts the playbooks has ended")
        stdout, stderr = (Path(file).read_text() for file in files)
    return subprocess.CompletedProcess(command, int(status), stdout, stderr)


def _started(cwd: Path, variables: Mapping[str, str]) -> subprocess.Popen[str]:
    """The process that has imported Ansible in this folder, whose ansible.cfg counts, and with these variables."""
    read = {name: value for name, value in sorted(variables.items()) if name.startswith(READ_AT_ONCE)}
    key = json.dumps([str(cwd), read])
    if key not in STARTED:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        STARTED[key] = subprocess.Popen([sys.executable, __file__], cwd=cwd, env=variables, text=True, **pipes)
    return STARTED[key]


@atexit.register
def end() -> None:
    """Each ends where its standard input does, and removes its temporary files."""
    for process in STARTED.values():
        process.communicate()
    STARTED.clear()


def main() -> None:
    import importlib

    # The folder of this file is no place to import from.
    sys.path.pop(0)
    from ansible.plugins import loader

    loader.init_plugin_loader()
    for name in IMPORTS:
        importlib.import_module(name)
    for kind in KINDS:
        list(getattr(loader, f"{kind}_loader").all(class_only=True))
    # A run would do so once more.
    warnings.filterwarnings("ignore", "AnsibleCollectionFinder has already been configured")
    for line in sys.stdin:
        if not (child := os.fork()):
            play(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def play(command: list[str], environment: dict[str, str], files: list[str]) -> None:
    from ansible.cli.playbook import PlaybookCLI
    from ansible.utils.path import cleanup_tmp_file

    # Its folder of temporary files, in which modules are packed, is that of all runs.
    atexit.unregister(cleanup_tmp_file)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = command
    for descriptor, file in enumerate((os.devnull, *files)):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), descriptor)
    signal.alarm(LIMIT_SECONDS)
    PlaybookCLI.cli_executor(command)


if __name__ == "__main__":
    main()
