# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which run this is, whether another one is over, and why hosts that it holds are not touched."""

from __future__ import annotations

import getpass
import os
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, number, texts, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, problem

ROOT = Path(__file__).resolve().parents[3]
# Of /proc/PID/stat, counted behind the name: proc(5).
START = 19


def collection_version(root: Path = ROOT) -> str:
    """The version of this collection, as an installed one or a checkout says; empty where neither does."""
    for name, pattern in (("MANIFEST.json", r'"version": *"([^"]+)"'), ("galaxy.yml", r"(?m)^version: *(\S+)")):
        try:
            found = re.search(pattern, (root / name).read_text(encoding="utf-8"))
        except OSError:
            continue
        if found:
            return found.group(1)
    return ""


def started(pid: int, proc: Path = Path("/proc")) -> str:
    """When a process started, in ticks since boot; empty where there is none."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[START]


def machine(proc: Path = Path("/proc")) -> str:
    """What the number of a process belongs to: this machine since it was started, and this container of it."""
    boot = (proc / "sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    return f"{boot} {os.readlink(proc / 'self/ns/pid')}"


def this_run(pid: int, asked: Mapping[str, object] | None = None, collection: str = "") -> dict[str, object]:
    """Who this run is: of the process ``pid``, which is ansible-playbook itself, with the options ``asked`` and this version of the ``collection``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    run = {"machine": machine(), "pid": pid, "started": started(pid)}
    asked = asked or {}
    # Who became root to run Ansible is still who did it.
    behind = os.environ.get("SUDO_USER") or user
    who = user if behind == user else f"{behind} ({user})"
    return {
        "run": run,
        "who": f"{who}@{socket.gethostname()}",
        "since": int(time.time()),
        "playbook": " ".join(Path(each).name for each in texts(asked.get("args"))),
        "collection": collection,
        "limit": str(asked.get("subset") or ""),
        "tags": ",".join(each for each in texts(asked.get("tags")) if each != "all"),
    }


def is_over(holder: Mapping[str, object]) -> bool:
    """Whether a holder is a run of this machine whose process has ended. Of runs on other machines nobody here knows."""
    run = mapping(holder.get("run"))
    return run.get("machine") == machine() and started(whole(run.get("pid") or 0)) != run.get("started")


def held_problem(host: str, holder: Mapping[str, object] | None, path: str, lang: str = "en") -> dict[str, str]:
    """Why a host is not touched: another run holds it, or did until a moment ago."""
    if holder is None:
        return problem("host_changed_meanwhile", lang, value=host, where=f"{host}:{path}", host=host)
    minutes = max(int(time.time() - number(holder.get("since") or 0)) // 60, 0)
    return problem(
        "host_held",
        lang,
        value=message("host_held_since", lang, who=holder.get("who"), minutes=minutes),
        where=f"{host}:{path}",
        host=host,
        who=holder.get("who"),
    )
