"""The action plugin inventory_check as Ansible would run it, without a playbook."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ansible import context
from ansible.cli.playbook import PlaybookCLI
from ansible.errors import AnsibleActionFail
from ansible.playbook.play import Play
from ansible.playbook.task import Task
from ansible.utils.display import Display
from ansible.vars.hostvars import HostVars
from ansible_collections.baremetal.llm.plugins.action import inventory_check as plugin

# The exit status, all that a person would see, the inventory, the codes of the problems.
Seen = tuple[int, str, dict[str, Any] | None, list[str]]


def look(folder: Path, known: Mapping[str, Any], *arguments: str, **task: Any) -> Seen:
    """What the plugin says in this folder, with these arguments of ansible-playbook, where a collection knows these variables."""
    # In a process of its own, since Ansible reads command line, passwords and inventory once for a process.
    processes = multiprocessing.get_context("fork")
    receiver, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=lambda: sender.send(_look(folder, known, arguments, task)))
    process.start()
    sender.close()
    try:
        seen: Seen = receiver.recv()
    finally:
        process.join()
    return seen


def _look(folder: Path, known: Mapping[str, Any], arguments: tuple[str, ...], task: dict[str, Any]) -> Seen:
    def known_variables(roles: str = "") -> dict[str, dict[str, Any]]:
        return dict(known)

    os.chdir(folder)
    plugin.known_variables = known_variables
    said: list[str] = []
    Display.display = lambda _display, msg, *_more, **_named: said.append(msg)
    Display.warning = lambda _display, msg, *_more, **_named: said.append(f"[WARNING]: {msg}")
    command = PlaybookCLI(["ansible-playbook", "play.yml", *arguments])
    command.parse()
    loader, inventory, manager = command._play_prereqs()
    HostVars(inventory, manager, loader)  # makes itself known to the manager
    hosts = command.get_host_list(inventory, context.CLIARGS["subset"], "localhost,all")
    play = Play.load({"name": "Validate", "hosts": "localhost,all"}, manager, loader)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=""))
    action = plugin.ActionModule(Task(), connection, None, loader, None)
    action._load_name = "inventory_check"
    action._task.args = task
    status, result = 0, {}
    try:
        result = action.run(task_vars=manager.get_vars(play=play, host=hosts[0]))
    except AnsibleActionFail as error:
        status, result = 2, error._result
        said.append(str(error))
    plain = json.loads(json.dumps(result))
    if plain.get("changed"):
        raise ValueError("it says that it changed something")
    return status, "\n".join([*said, str(plain)]), plain.get("inventory"), plain.get("problems", [])
