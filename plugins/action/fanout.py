# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of fanout: decides who takes part, and hands over what no host has."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ansible import constants as C
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes, inside, select
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING
from ansible_collections.baremetal.llm.plugins.module_utils._content import load_json
from ansible_collections.baremetal.llm.plugins.module_utils._fanout import Status, slice_name
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import fanout
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import known_records, load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.pieces import described
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import Progress, human_seconds
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars, explained
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, message, names, reason

display = Display()
PLAN = "plan.json"
CLAIMS = "claims"
TOLD_SECONDS = 60.0
# What the host is asked once a few seconds takes it a while on a machine that is busy.
POLL_SECONDS = 4.0
# After how long the program on a host ends by itself when nobody asks for it and nothing moves.
IDLE_SECONDS = 300
OFFERED = "__fanout_offered"
LOOKED = "__fanout_looked"
DESCRIBED = "__fanout_described"
STARTED = "__fanout_started"
MET = "__fanout_met"
BROUGHT = "__fanout_brought"


class Member(TypedDict):
    """A host that takes part: where it is reached, where its files lie, its Python, and the paths of what it lacks and has."""

    address: str
    dest: str
    python: str
    missing: list[str]
    have: list[str]


class Plan(TypedDict):
    """What all phases of a run know."""

    name: str
    # Known to its hosts alone.
    secret: str
    # Seconds since 1970.
    began: float
    # 0 for as much as there is.
    limit_mbps: int
    # As plugin_utils/bundle/fanout.py puts them into sessions.
    files: list[fanout.File]
    hosts: dict[str, Member]


class ActionModule(ActionBase):
    """One phase after the other, each for all hosts."""

    TRANSFERS_FILES = True

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        phases = {
            "name": self._name,
            "offer": self._offer,
            "look": self._look,
            "describe": self._describe,
            "plan": self._plan,
            "start": self._start,
            "meet": self._meet,
            "bring": self._bring,
            "end": self._end,
            "figures": self._figures,
            "left": self._left,
        }
        _checked, options = self.validate_argument_spec(
            argument_spec={
                "phase": {"type": "str", "required": True, "choices": list(phases)},
                "name": {"type": "str"},
                "mode": {"type": "str", "choices": list(fanout.MODES), "default": fanout.FANOUT},
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
                "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
            }
        )
        self.options, self.lang, self.task_vars = options, options["language"], task_vars
        # It may be a host outside of the play, too.
        self.host = str(self._task.delegate_to or task_vars["inventory_hostname"])
        try:
            return {**result, "of": options["name"], **phases[options["phase"]]()}
        except Refused as error:
            raise AnsibleActionFail(reason(error, self.lang)) from None

    # -- before anything moves

    def _name(self) -> dict[str, object]:
        return {"changed": False, "name": secrets.token_hex(6)}

    def _offer(self) -> dict[str, object]:
        if not self.options["offers"]:
            return {"changed": False, "files": []}
        answer = self._ask(dest=self.options["dest"], offers=self.options["offers"])
        # The others write under these names.
        files = [file for file in answer.get("files") or [] if fanout.is_below(file["path"], self.options["offers"])]
        return {**answer, "changed": False, "files": files}

    def _look(self) -> dict[str, object]:
        files = [*self._bundled(), *self._offered()]
        if self.options["wants"] is not None:
            files = [file for file in files if file["path"] in self.options["wants"]]
        # What serves outside of this run gets nothing.
        outside = self.host not in self._playing()
        answer = self._ask(
            mode=fanout.EXISTS if outside else self.options["mode"],
            dest=self.options["dest"],
            files=[{name: file[name] for name in ("path", "size", "sha256")} for file in files],
            addresses=self._addresses(),
        )
        if answer.get("failed"):
            return answer
        wanted = [file["path"] for file in files]
        if outside:
            wanted, answer["missing"] = [path for path in wanted if path not in answer["missing"]], []
        if self.options["mode"] == fanout.EXISTS and answer["missing"]:
            raise Refused(
                "fanout_not_there",
                host=self.host,
                folder=self.options["dest"],
                files=names(answer["missing"], self.lang),
            )
        if not answer["unfit"] and not self._has_wheel(answer["python"]):
            answer["unfit"] = "fanout_no_wheel"
        return {**answer, "changed": False, "wanted": wanted, "dest": self.options["dest"]}

    def _describe(self) -> dict[str, object]:
        mine = (self._said(OFFERED).get(self.host) or {}).get("files") or []
        lacked = {path for one in self._said(LOOKED).values() for path in one["missing"]}
        files = [file for file in mine if file["path"] in lacked]
        if not files or self._task.check_mode:
            return {"changed": False, "files": []}
        size = human_bytes(sum(file["size"] for file in files))
        display.display(message("fanout_describing", self.lang, host=self.host, size=size))
        answer = self._ask(dest=self.options["dest"], files=files)
        known = {file["path"]: file["sha256"] for file in files}
        # What the disk has changed is nothing for others.
        right = [file for file in answer.get("files") or [] if file["sha256"] == known[file["path"]]]
        return {**answer, "changed": False, "files": right}

    def _plan(self) -> dict[str, object]:
        looked = self._said(LOOKED)
        offered: list[fanout.File] = [file for one in self._said(DESCRIBED).values() for file in one.get("files") or []]
        described_there: list[fanout.File] = [{**file, "source": file.get("source", "")} for file in offered]
        bundled = [file for file in self._bundled() if file["source"] and file["size"] >= fanout.SMALLEST_BYTES]
        files = list({file["path"]: file for file in [*bundled, *described_there]}.values())
        large = {file["path"] for file in files}
        asked = {
            host: fanout.Looked([path for path in one["missing"] if path in large], one["address"], one["unfit"])
            for host, one in looked.items()
        }
        wanted = {host: [path for path in one["wanted"] if path in large] for host, one in looked.items()}
        hosts = fanout.participants(asked, wanted)
        nothing: dict[str, object] = {"changed": False, "run": "", "hosts": [], "unfit": []}
        if self.options["mode"] != fanout.FANOUT or self._task.check_mode or not hosts:
            return nothing
        lacked = {path for host in hosts for path in asked[host].missing}
        had = {path for host in hosts for path in wanted[host] if path not in asked[host].missing}
        files = [file for file in files if file["path"] in lacked and (file["source"] or file["path"] in had)]
        if not files:
            return nothing
        total = sum(file["size"] for file in files)
        progress = Progress(message("fanout_reading", self.lang), total, display.display, self.lang)
        files = fanout.in_sessions(described(file, self.options["bundle"] or "", progress.add) for file in files)
        paths = {file["path"] for file in files}
        plan: Plan = {
            "name": self.options["name"],
            "secret": secrets.token_hex(16),
            "began": time.time(),
            "limit_mbps": self.options["limit_mbps"],
            "files": files,
            "hosts": {
                host: {
                    "address": looked[host]["address"],
                    "dest": looked[host]["dest"],
                    "python": looked[host]["python"],
                    "missing": [path for path in asked[host].missing if path in paths],
                    "have": [path for path in wanted[host] if path in paths and path not in asked[host].missing],
                }
                for host in hosts
            },
        }
        folder = tempfile.mkdtemp(
            prefix="fanout", dir=C.DEFAULT_LOCAL_TMP if os.path.isdir(C.DEFAULT_LOCAL_TMP) else None
        )
        os.mkdir(os.path.join(folder, CLAIMS), 0o700)
        with open(
            os.path.join(folder, PLAN), "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)
        ) as stream:
            json.dump(plan, stream)
        unfit = [host for host, one in asked.items() if host not in hosts and one.missing]
        for host in unfit:
            display.warning(message(asked[host].unfit or "fanout_no_address", self.lang, host=host))
        takers = sum(1 for host in hosts if paths.intersection(asked[host].missing))
        begins = "fanout_begins" if any(file["source"] for file in files) else "fanout_begins_there"
        display.display(message(begins, self.lang, size=human_bytes(total), count=len(files), hosts=takers))
        return {"changed": False, "run": folder, "hosts": hosts, "unfit": unfit}

    # -- the program on each host

    def _start(self) -> dict[str, object]:
        plan = self._read_plan()
        mine = plan["hosts"][self.host]
        try:
            wheel = self._bring_wheel(mine["python"])
        except AnsibleActionFail as error:
            display.warning(message("fanout_without", self.lang, host=self.host, reason=error.message))
            return {"changed": False, "ports": []}
        files = [{name: value for name, value in file.items() if name != "source"} for file in plan["files"]]
        wanted = {*mine["missing"], *mine["have"]}
        job = {
            "dest": mine["dest"],
            "address": mine["address"],
            "sessions": fanout.session_count(plan["files"]),
            "limit_bytes": plan["limit_mbps"] * 125000,
            "writers": self.options["writers"],
            "idle_seconds": IDLE_SECONDS,
            "files": [file for file in files if file["path"] in wanted],
            "have": mine["have"],
        }
        answer = self._ask(
            run=plan["name"],
            secret=plan["secret"],
            job=job,
            lib=self._lib(),
            wheel=wheel,
            dest=mine["dest"],
        )
        if answer.get("failed"):
            display.warning(message("fanout_without", self.lang, host=self.host, reason=answer["msg"]))
            return {"changed": False, "ports": []}
        return {"changed": True, "ports": answer["ports"]}

    def _meet(self) -> dict[str, object]:
        plan = self._read_plan()
        started = self._started()
        if self.host not in started:
            return {"changed": False, "status": {}}
        hosts = list(started)
        peers = [
            [plan["hosts"][one]["address"], started[one]] for one in fanout.neighbours(hosts, hosts.index(self.host))
        ]
        answer = self._ask(run=plan["name"], peers=peers)
        if answer.get("failed"):
            display.warning(message("fanout_without", self.lang, host=self.host, reason=answer["msg"]))
            return {"changed": False, "status": {}}
        return {**answer, "changed": False}

    def _bring(self) -> dict[str, object]:
        plan = self._read_plan()
        mine = plan["hosts"][self.host]
        met = {host: found["status"] for host, found in self._said(MET).items() if found.get("status")}
        nothing = {"changed": False, "status": {}, "came": []}
        if self.host not in met:
            return nothing
        have = [{path: one["have"] for path, one in status["files"].items()} for status in met.values()]
        # A host hands nothing on before it has it: what only the controller has is handed over in the order of the files.
        sourced = [file for file in plan["files"] if file["source"]]
        fresh = fanout.segments(sourced, have, len(met))
        segments = [*fresh, *(one for one in fanout.segments(sourced, [], len(met)) if one not in fresh)]
        sizes = {file["path"]: file["size"] for file in plan["files"]}
        files = {file["path"]: file for file in plan["files"]}
        claims = fanout.Claims(os.path.join(self._folder(), CLAIMS), len(fresh))
        progress = Progress(
            message("fanout_progress", self.lang, host=self.host),
            sum(sizes[path] for path in mine["missing"]),
            display.display,
            self.lang,
            TOLD_SECONDS,
        )

        def put(segment: fanout.Segment) -> None:
            began = time.monotonic()
            self._put(files[segment.path], segment, mine["dest"])
            if plan["limit_mbps"]:
                time.sleep(max(began + segment.size * 8 / (plan["limit_mbps"] * 1e6) - time.monotonic(), 0))

        def ask() -> Status:
            answer = self._ask(phase="report", run=plan["name"])
            if answer.get("failed"):
                raise OSError(answer.get("msg", ""))
            status: Status = answer["status"]
            return status

        def tell(status: Status) -> None:
            progress.add(max(min(status["received"] + status["slices"], progress.total) - progress.done, 0))

        ways = fanout.Ways(put=put, ask=ask, tell=tell, poll_seconds=POLL_SECONDS)
        try:
            found = fanout.hand_on(segments, claims, sizes, mine["missing"], ways)
        except (OSError, AnsibleError) as error:
            display.warning(
                message("fanout_without", self.lang, host=self.host, reason=getattr(error, "message", error))
            )
            return nothing
        status = {name: value for name, value in found.items() if name not in ("files", "left")}
        return {
            "changed": bool(mine["missing"]),
            "status": {**status, "took": time.time() - plan["began"]},
            "came": [path for path in mine["missing"] if path not in found["left"]],
        }

    def _end(self) -> dict[str, object]:
        plan = self._read_plan()
        mine = plan["hosts"][self.host]
        accused = any(mine["address"] in one["liars"] for one in self._brought().values())
        # Others may have got parts of the same pieces from hosts that are right: whose files are wrong is seen on its disk.
        suspects = [*mine["missing"], *mine["have"]] if accused else []
        answer = self._ask(run=plan["name"], dest=mine["dest"], lib=self._lib(), suspects=suspects)
        for path in answer.get("rotten") or []:
            display.warning(message("fanout_liar", self.lang, host=self.host, path=path))
        return {
            "changed": False,
            "failed": False,
            "status": {name: value for name, value in (answer.get("status") or {}).items() if name != "files"},
        }

    def _left(self) -> dict[str, object]:
        """What the host lacks still, and whether it needs nothing more."""
        looked = self._said(LOOKED).get(self.host) or {}
        came = (self._said(BROUGHT).get(self.host) or {}).get("came") or []
        left = [path for path in looked.get("missing") or [] if path not in came]
        there = [path for path in looked.get("wanted") or [] if path not in left]
        return {"changed": False, "left": left, "there": there, "complete": bool(there) and not left}

    def _figures(self) -> dict[str, object]:
        """What it took, and what people have to know of it. The folder on the controller goes."""
        plan = self._read_plan()
        try:
            return self._summed_up(plan)
        finally:
            shutil.rmtree(self._folder(), ignore_errors=True)

    def _summed_up(self, plan: Plan) -> dict[str, object]:
        brought = self._brought()
        for host, one in brought.items():
            for path, arrived in one["wrong"].items():
                display.warning(message("fanout_wrong", self.lang, host=host, path=path, found=arrived))
        hosts = list(self._started())
        peers = {host: fanout.neighbours(hosts, place) for place, host in enumerate(hosts)}
        addresses = {host: one["address"] for host, one in plan["hosts"].items()}
        for first, second in fanout.apart(
            {host: status["reached"] for host, status in brought.items()}, addresses, peers
        ):
            values = {"host": first, "other": second, "address": addresses[first], "to": addresses[second]}
            display.warning(message("fanout_apart", self.lang, **values))
        size = sum(file["size"] for file in plan["files"])
        took = {host: one["took"] for host, one in brought.items() if plan["hosts"][host]["missing"]}
        said = fanout.figures(brought, size, max(took.values(), default=0))
        seconds = ", ".join(f"{host} {human_seconds(value)}" for host, value in took.items())
        if took:
            display.display(
                message(
                    "fanout_done",
                    self.lang,
                    size=human_bytes(size),
                    seconds=seconds,
                    handed=human_bytes(said["handed"]),
                    copies=said["copies"],
                    rate=said["mib_per_second"],
                    cpu=said["cpu_seconds_per_gib"],
                )
            )
        return {"changed": False, **said}

    # -- what these need

    def _bundled(self) -> list[fanout.File]:
        """path below dest, size, sha256; source: where the controller has the file, empty where it has not."""
        bundle = self.options["bundle"]
        found: list[fanout.File] = []
        if not self.options["kind"]:
            return found
        records = load_records(bundle, self.lang)
        for match in self.options["matches"] or [{}]:
            for record in select(records, self.options["kind"], match):
                path = "/".join(record["path"].split("/")[self.options["strip"] :])
                source = record["local"] if record.get("local") else inside(bundle, record["path"])
                there = source if source and os.path.isfile(source) else ""
                found.append({"path": path, "size": record["size"], "sha256": record["sha256"], "source": there})
        return list({file["path"]: file for file in found}.values())

    def _offered(self) -> list[fanout.File]:
        """path, size and sha256 of what hosts offer that the bundle does not name."""
        known = {file["path"] for file in self._bundled()}
        offers = [file for one in self._said(OFFERED).values() for file in one.get("files") or []]
        return list({file["path"]: file for file in offers if file["path"] not in known}.values())

    def _has_wheel(self, python: str) -> bool:
        records = known_records(self.options["bundle"], self.lang) if self.options["bundle"] else []
        return bool(select(records, "python", {"fanout_python": python}))

    def _bring_wheel(self, python: str) -> str:
        """Where the host has the wheel of libtorrent for its Python, copied where it lacks it."""
        task = self._task.copy()
        task.args = {
            "bundle": self.options["bundle"],
            "kind": "python",
            "match": {"fanout_python": python},
            "dest": self._lib(),
            "language": self.lang,
        }
        action = self._shared_loader_obj.action_loader.get(
            "baremetal.llm.bundle_copy",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        copied = action.run(task_vars=self.task_vars)
        if copied.get("failed"):
            raise AnsibleActionFail(copied["msg"])
        return str(copied["files"][0]["path"])

    def _lib(self) -> str:
        """The folder on the host for what the program needs."""
        return str(Fleet(self._loader, self.task_vars)[self.host]["llm_host_dir"]) + "/fanout"

    def _addresses(self) -> list[str]:
        """Under which addresses the others may reach the host, that of the cluster's network first."""
        variables = Fleet(self._loader, self.task_vars)[self.host]
        named = [(variables.get("llm_interface") or {}).get("address"), variables.get("ansible_host") or self.host]
        return list(dict.fromkeys(str(address) for address in named if address))

    def _put(self, file: fanout.File, segment: fanout.Segment, dest: str) -> None:
        target = os.path.join(dest, INCOMING, slice_name(file, segment.start, segment.size))
        with tempfile.NamedTemporaryFile(dir=self._folder()) as part:
            with open(file["source"], "rb") as stream:
                stream.seek(segment.start)
                left = segment.size
                while left and (piece := stream.read(min(left, 1 << 20))):
                    part.write(piece)
                    left -= len(piece)
            part.flush()
            self._connection.put_file(part.name, target)

    def _folder(self) -> str:
        return str(self.options["run"])

    def _read_plan(self) -> Plan:
        with open(os.path.join(self._folder(), PLAN), encoding="utf-8") as stream:
            plan: Plan = load_json(stream)
        return plan

    def _playing(self) -> list[str]:
        return [str(host) for host in self.task_vars.get("ansible_play_hosts") or []]

    def _said(self, name: str) -> dict[str, Mapping[str, Any]]:
        """What an earlier phase of this run has returned, by host. Of a host that did not answer, nothing."""
        found: dict[str, Mapping[str, Any]] = {}
        for host in self._playing():
            registered = self.task_vars["hostvars"][host].get(name)
            for one in registered.get("results") or [] if isinstance(registered, Mapping) else []:
                if one.get("of") == self.options["name"] and not one.get("failed"):
                    found[str(one["item"]["host"])] = one
        return found

    def _brought(self) -> dict[str, fanout.Brought]:
        return {host: found["status"] for host, found in self._said(BROUGHT).items() if found.get("status")}

    def _started(self) -> dict[str, Sequence[int]]:
        return {host: found["ports"] for host, found in self._said(STARTED).items() if found.get("ports")}

    def _ask(self, **more: object) -> dict[str, Any]:
        arguments = {"phase": self.options["phase"], "language": self.lang, **more}
        answer = self._execute_module(
            module_name="baremetal.llm.fanout", module_args=arguments, task_vars=self.task_vars
        )
        answer.pop("invocation", None)
        return explained(answer, self.lang)
