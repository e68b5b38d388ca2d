#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fanout
short_description: Pass files on from host to host
version_added: 0.1.0
description:
  - Brings files to several hosts in about the time that one copy takes. The controller hands each part of a file over once, to one of the hosts, and
    the hosts exchange the rest among themselves by BitTorrent v2, which compares each piece with its SHA-256. Each file is compared with the SHA-256 of
    the manifest before it gets its name.
  - Of files that a host has fetched and the controller has not (O(offers)), that host is the source.
  - On each host a program runs for that as a transient unit of systemd, C(baremetal-llm-fanout-RUN.service). It listens at the host's address in the
    cluster's network only, knows its peers by a list of addresses, and talks to nobody who does not know the secret of the run. It ends with
    O(phase=end), and by itself where nobody has asked for it and nothing has moved for five minutes, and after a day.
  - It is one task for each O(phase), in a loop over the host itself and, on the first host of the play, over hosts outside of the play that have
    files. Each item has the host as C(host), to which the task is delegated. What it cannot bring is missing afterwards and has to come another way.
options:
  phase:
    description:
      - C(name) gives the run a name once, which all other phases need.
      - C(offer) says which files a host has of those in O(offers). The result has to be registered as C(__fanout_offered).
      - C(look) asks a host what it lacks, and whether it can take part. The result has to be registered as C(__fanout_looked).
      - C(describe) reads the files that a host offers and another host lacks. The result has to be registered as C(__fanout_described).
      - C(plan) decides once, on the controller, which hosts exchange what.
      - C(start) starts the program. The result has to be registered as C(__fanout_started).
      - C(meet) tells it of the other hosts. The result has to be registered as C(__fanout_met).
      - C(bring) hands parts over, until the host has everything or nothing moves any more.
      - C(end) ends the program.
      - C(figures) says once what it took.
      - C(left) says what a host lacks still.
      - C(report) is internal.
    type: str
    required: true
    choices: [name, offer, look, describe, plan, start, meet, bring, end, figures, left, report]
  name:
    description: What O(phase=name) returned.
    type: str
  mode:
    description: Whether hosts pass files on (V(fanout)), get each a copy (V(copy)), or have the files already (V(exists)).
    type: str
    choices: [fanout, copy, exists]
    default: fanout
  bundle:
    description: Folder of the bundle on the controller.
    type: path
  kind:
    description: Kind of the manifest's files that all hosts shall have. Without it there are none but those that hosts offer.
    type: str
  matches:
    description: Fields of the manifest's records, as O(baremetal.llm.bundle_copy#module:match) has them; a record has to match one of these.
    type: list
    elements: dict
    default: []
  strip:
    description: How many leading folders of the path in the bundle are left away below O(dest).
    type: int
    default: 0
  offers:
    description:
      - Files and folders below O(dest) that the host hands on. A file is left out if it has changed since it came, or if its SHA-256 was not
        noted then.
    type: list
    elements: str
    default: []
  wants:
    description: Of the files that hosts offer, those that this one shall have, as paths below O(dest). Left out, it shall have all of them.
    type: list
    elements: str
  dest:
    description: Folder on the host.
    type: path
  run:
    description: The folder on the controller that O(phase=plan) returned.
    type: path
  limit_mbps:
    description: What a host sends and receives at most, in Mbit/s each; V(0) is no limit.
    type: int
    default: 0
  writers:
    description: How many threads write to the disk at a time.
    type: int
    default: 4
  lib:
    description: Internal. The folder on the host for what the program needs, which is gone afterwards.
    type: path
  wheel:
    description: Internal. The wheel of libtorrent in that folder.
    type: str
  job:
    description: Internal. What the program is told.
    type: dict
  secret:
    description: Internal. What hosts of the run know and nobody else does.
    type: str
  peers:
    description: Internal. The addresses and ports of the other hosts.
    type: list
    elements: raw
  files:
    description: Internal. What the controller's part asks the host's part about.
    type: list
    elements: dict
  suspects:
    description: Internal. Paths of files of which somebody got wrong data.
    type: list
    elements: str
    default: []
  addresses:
    description: Internal. Addresses under which the others may reach the host.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  action:
    description: Has a part that runs on the controller.
    support: full
  async:
    description: Can be run in the background.
    support: none
  check_mode:
    description: Looks, and does nothing else.
    support: full
  diff_mode:
    description: Shows what changed.
    support: none
"""

EXAMPLES = r"""
- name: Fan-out | Ask hosts what they lack
  baremetal.llm.fanout:
    phase: look
    name: "{{ __fanout.name }}"
    bundle: "{{ llm_bundle_dir }}"
    kind: model
    matches: [{model: Qwen/Qwen2.5-14B-Instruct}]
    strip: 1
    dest: /opt/llm/models
  loop: [{host: "{{ inventory_hostname }}"}]
  delegate_to: "{{ item.host }}"
  register: __fanout_looked
"""

RETURN = r"""
name:
  description: The name of the run.
  returned: O(phase=name)
  type: str
files:
  description: The files that the host offers, each with C(path), C(size) and C(sha256), and as described also with C(root) and C(layer).
  returned: O(phase=offer) and O(phase=describe)
  type: list
  elements: dict
missing:
  description: Paths below O(dest) that the host lacks.
  returned: O(phase=look)
  type: list
  elements: str
run:
  description: A folder on the controller for the phases that follow; empty where no two hosts could exchange anything.
  returned: O(phase=plan)
  type: str
hosts:
  description: The hosts that take part.
  returned: O(phase=plan)
  type: list
  elements: str
came:
  description: Paths that came to the host.
  returned: O(phase=bring)
  type: list
  elements: str
left:
  description: Paths that the host lacks still.
  returned: O(phase=left)
  type: list
  elements: str
there:
  description: Paths of files that the host shall have and has.
  returned: O(phase=left)
  type: list
  elements: str
complete:
  description: Whether there were files that the host shall have, and it has all of them.
  returned: O(phase=left)
  type: bool
"""

import inspect
import json
import os
import platform
import shutil
import socket
import sys
import time
import zipfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils import _fanout
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Wanted, stamp
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING, look
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, failure
from ansible_collections.baremetal.llm.plugins.module_utils._content import load_json
from ansible_collections.baremetal.llm.plugins.module_utils._pieces import describe
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import distrust, read_state, sha256_on_disk

PREFIX = "ansible_collections.baremetal.llm.plugins.module_utils."
RUN_DIR = "/run/baremetal-llm-fanout"
UNIT = "baremetal-llm-fanout-{0}"
START_SECONDS = 30.0
READY_SECONDS = 600.0
# How long the program runs at most.
MOST_SECONDS = 86400
# From these the system takes ports of its own. A firewall of this collection closes them to hosts of other deployments, which want models, too.
DYNAMIC = "/proc/sys/net/ipv4/ip_local_port_range"
LOWEST_DYNAMIC = 32768
TRIED_PORTS = 200
# For which releases of Python there are wheels of libtorrent.
PYTHONS = range(8, 14)
PROPERTIES = (
    "RuntimeMaxSec={0}".format(MOST_SECONDS),
    "Nice=10",
    "IOSchedulingClass=idle",
    # One that was killed goes on with what it had, at the same port.
    "Restart=on-failure",
    "RestartSec=1",
    "NoNewPrivileges=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    "CapabilityBoundingSet=CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE CAP_SYS_NICE",
)


def ports(dynamic: str = DYNAMIC) -> list[int]:
    """The ports to listen on, the next where one is in use: those below the dynamic ones."""
    try:
        with open(dynamic, encoding="ascii") as stream:
            first = int(stream.read().split()[0])
    except (OSError, ValueError, IndexError):
        first = LOWEST_DYNAMIC
    return list(range(first - 1, max(first - 1 - TRIED_PORTS, 1023), -1)) or list(range(20100, 20300))


def offered(dest: str, paths: list[str]) -> list[Wanted]:
    """The files below these paths that are as they were noted when they came."""
    return [
        Wanted(path=path, size=now[0], sha256=known["sha256"])
        for path, known in sorted(read_state(dest).items())
        for now in [stamp(os.path.join(dest, path)) if inside_one(path, paths) else None]
        if now and known.get("stamp") == now
    ]


def inside_one(path: str, paths: list[str]) -> bool:
    return any(path == one or path.startswith(one + "/") for one in paths)


def unfit() -> str:
    """Why the program cannot run on this host, as the code of a message; empty if it can."""
    libc = platform.libc_ver()
    if (
        sys.version_info[0] != 3
        or sys.version_info[1] not in PYTHONS
        or platform.machine() != "x86_64"
        or libc[0] != "glibc"
    ):
        return "fanout_no_python"
    if not os.path.isdir("/run/systemd/system") or not shutil.which("systemd-run"):
        return "fanout_no_systemd"
    return ""


def own_address(addresses: list[str]) -> str:
    """The first address that is one of this host; empty if none is."""
    for address in addresses:
        try:
            with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as one:
                one.bind((address, 0))
            return address
        except (OSError, ValueError):
            continue
    return ""


def folder_of(run: str) -> str:
    return os.path.join(RUN_DIR, run)


def read(run: str, name: str) -> Any:
    with open(os.path.join(folder_of(run), name), encoding="utf-8") as stream:
        return load_json(stream)


def write(run: str, name: str, content: str) -> None:
    path = os.path.join(folder_of(run), name)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as stream:
        stream.write(content)
    os.replace(path + ".new", path)


def sources() -> dict[str, str]:
    """The program and all of the collection that it imports, by path: what travelled here with this module is not there any more when it has ended."""
    return {
        name.replace(".", "/") + ".py": inspect.getsource(module)
        for name, module in sorted(sys.modules.items())
        if name.startswith(PREFIX)
    }


def unpacked(wheel: str) -> str:
    """The folder with what is in a wheel, beside it."""
    folder = wheel + ".d"
    if not os.path.isdir(folder):
        shutil.rmtree(folder + ".new", ignore_errors=True)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder + ".new")
        os.rename(folder + ".new", folder)
    return folder


def looked(module: AnsibleModule) -> dict[str, object]:
    """What the host lacks, and whether it can take part. Where there is no room, whatever brings the files otherwise says so."""
    said = module.params
    only_look = module.check_mode or said["mode"] == "exists"
    cannot, files = unfit(), said["files"] or []
    try:
        found = look(said["dest"], files, False, only_look, "llm_host_dir")
    except CodedError as error:
        if error.code != "no_room":
            raise
        cannot, found = "fanout_no_room", look(said["dest"], files, False, True, "llm_host_dir")
    return {
        "missing": [path for path in found["missing"] if path not in found["taken"]],
        "unfit": cannot,
        "address": own_address(said["addresses"]),
        "python": "3.{0}".format(sys.version_info[1]),
    }


def start(module: AnsibleModule) -> dict[str, object]:
    """Start the program and wait until it listens."""
    said, job = module.params, module.params["job"]
    run = said["run"]
    # That of a run that broke off may live still.
    module.run_command(["systemctl", "stop", UNIT.format("*") + ".service"])
    shutil.rmtree(RUN_DIR, ignore_errors=True)
    for path, text in sources().items():
        write(run, "lib/" + path, text)
    write(
        run,
        _fanout.JOB,
        json.dumps({**job, "secret": said["secret"], "ports": ports()}),
    )
    write(run, _fanout.LEASE, "")
    path = "{0}/lib:{1}".format(folder_of(run), unpacked(os.path.join(said["lib"], said["wheel"])))
    command = [
        *(
            "systemd-run",
            "--quiet",
            "--collect",
            "--unit",
            UNIT.format(run),
        ),
        *("--property=" + one for one in PROPERTIES),
        *(
            "--setenv=PYTHONPATH=" + path,
            "--setenv=PYTHONDONTWRITEBYTECODE=1",
            sys.executable,
            "-W",
            "ignore",
            "-m",
            PREFIX + "_fanout",
        ),
        folder_of(run),
    ]
    rc, error = module.run_command(command)[::2]
    if rc:
        raise CodedError("fanout_not_started", reason=error.strip())
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        try:
            return {"ports": read(run, _fanout.STATUS)["ports"]}
        except (OSError, ValueError):
            time.sleep(0.1)
    shown = ["journalctl", "--quiet", "--no-pager", "--output=cat", "-n", "5", "-u", UNIT.format(run)]
    journal = module.run_command(shown)[1]
    end(module)
    raise CodedError("fanout_not_started", reason=journal.strip())


def report(module: AnsibleModule) -> _fanout.Status:
    """What the program says, which lives on for it. OSError or CodedError where it is gone."""
    run = module.params["run"]
    os.utime(os.path.join(folder_of(run), _fanout.LEASE))
    found: _fanout.Status = read(run, _fanout.STATUS)
    if not os.path.isdir("/proc/{0}".format(found["pid"])):
        state = module.run_command(["systemctl", "is-active", UNIT.format(run) + ".service"])[1].strip()
        if state not in ("active", "activating"):
            raise CodedError("fanout_ended")
    return found


def meet(module: AnsibleModule) -> _fanout.Status:
    """Tell the program of its peers, and wait until it has looked at what was here."""
    run = module.params["run"]
    write(run, _fanout.PEERS, json.dumps(module.params["peers"]))
    until = time.monotonic() + READY_SECONDS
    while True:
        found = report(module)
        if found["ready"] or time.monotonic() > until:
            return found
        time.sleep(0.2)


def end(module: AnsibleModule) -> dict[str, object]:
    """End the program and remove what it was told. One that has ended already is as good."""
    run = module.params["run"]
    last: dict[str, object] = {}
    module.run_command(["systemctl", "stop", UNIT.format(run) + ".service"])
    try:
        last = read(run, _fanout.STATUS)
        clear(read(run, _fanout.JOB)["dest"])
    except (OSError, ValueError, KeyError):
        pass
    for folder in (folder_of(run), module.params["lib"]):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        os.rmdir(RUN_DIR)
    except OSError:
        pass
    return last


def clear(dest: str) -> None:
    """Remove what one that was killed has left: slices, and second names of files that are complete."""
    incoming = os.path.join(dest, INCOMING)
    for name in os.listdir(incoming):
        full = os.path.join(incoming, name)
        if _fanout.SLICE.fullmatch(name) or (name.endswith(_fanout.BEGUN) and os.stat(full).st_nlink > 1):
            os.unlink(full)


def rotten(dest: str, paths: list[str]) -> list[str]:
    """Files that are not any more what they were when they came. They are forgotten, so that the copy that follows brings them again."""
    state, found = read_state(dest), []
    for path in paths:
        full = os.path.join(dest, path)
        if path in state and os.path.isfile(full) and sha256_on_disk(full) != state[path]["sha256"]:
            found.append(path)
    if found:
        distrust(dest, found)
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "phase": {
                "type": "str",
                "required": True,
                "choices": [
                    *("name", "offer", "look", "describe", "plan", "start", "meet", "bring", "end", "figures", "left"),
                    "report",
                ],
            },
            "name": {"type": "str"},
            "mode": {"type": "str", "choices": ["fanout", "copy", "exists"], "default": "fanout"},
            "bundle": {"type": "path"},
            "kind": {"type": "str"},
            "matches": {"type": "list", "elements": "dict", "default": []},
            "strip": {"type": "int", "default": 0},
            "offers": {"type": "list", "elements": "str", "default": []},
            "wants": {"type": "list", "elements": "str"},
            "dest": {"type": "path"},
            "run": {"type": "path"},
            "limit_mbps": {"type": "int", "default": 0},
            "writers": {"type": "int", "default": 4},
            "lib": {"type": "path"},
            "wheel": {"type": "str"},
            "job": {"type": "dict"},
            "secret": {"type": "str", "no_log": True},
            "peers": {"type": "list", "elements": "raw"},
            "files": {"type": "list", "elements": "dict"},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "suspects": {"type": "list", "elements": "str", "default": []},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
        # What it is told is long, and nothing for a journal.
        no_log=True,
    )
    os.umask(0o022)
    said = module.params
    try:
        if said["phase"] == "offer":
            module.exit_json(changed=False, files=offered(said["dest"], said["offers"]))
        elif said["phase"] == "look":
            module.exit_json(changed=False, **looked(module))
        elif said["phase"] == "describe":
            described = [{**file, **describe(os.path.join(said["dest"], file["path"]))} for file in said["files"] or []]
            module.exit_json(changed=False, files=described)
        elif said["phase"] == "start":
            module.exit_json(changed=True, **start(module))
        elif said["phase"] == "meet":
            module.exit_json(changed=False, status=meet(module))
        elif said["phase"] == "report":
            module.exit_json(changed=False, status=report(module))
        else:
            status = end(module)
            module.exit_json(changed=False, status=status, rotten=rotten(said["dest"], said["suspects"]))
    except CodedError as error:
        module.fail_json(**failure(error.code, **error.values))
    except OSError as error:
        module.fail_json(
            **failure("not_writable", folder=said["dest"] or RUN_DIR, reason=error, variable="llm_host_dir")
        )


if __name__ == "__main__":
    main()
