# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bundle lacks: asked for, announced with its size, and brought. Or written down as lists, for others to bring."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NotRequired, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    STATE_DIR,
    fingerprint,
    human_bytes,
    inside,
    sha256_of,
    walk,
)
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_check import read_checks
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_object
from ansible_collections.baremetal.llm.plugins.module_utils._download import without_password
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import images, registry
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.download import (
    FetchError,
    download,
    present,
    summary,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.files import require_room, write_text
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import Artefact, Asked, File, Item
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.lists import PLAN_NAME, render
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.models import fetched_problems, local_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import split_source
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import Progress
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.sources import (
    Settings,
    SourceError,
    resolve,
    run_command,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.toolkit import ToolkitError, repack
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.wheels import WheelError
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, reason

PARALLEL = 4

Say = Callable[[str], None]
# Who asks (``username``, ``password``), by registry.
Credentials = Mapping[str, Mapping[str, str]]


class Wishes(TypedDict):
    """What is asked of a bundle: what it has to hold, for how many hosts, and with ``lists`` the folder of the lists."""

    bundle: str
    checks: str
    items: Sequence[Item]
    images: Sequence[Mapping[str, object]]
    hosts: int
    network_gbit_per_second: float
    # By registry those that are asked instead.
    registry_mirrors: Mapping[str, Sequence[str]]
    update: bool
    lists: str
    language: str


class Fetched(TypedDict):
    """A line for each thing that was fetched, files for the manifest, and the lists that were written."""

    changed: bool
    fetched: list[str]
    artefacts: list[Artefact]
    written: NotRequired[list[str]]


def write_lists(options: Wishes, settings: Settings, warn: Say, check: bool) -> Fetched:
    """Write down what would be fetched. What nobody can be asked about from here is left to the script, or said."""
    plan: dict[str, Asked] = {}
    unresolved = {}
    lang = options["language"]
    for item in options["items"]:
        path = item["path"]
        if _is_local(item):
            unresolved[path] = message("bundle_own_file", lang, source=item["source"])
            continue
        try:
            plan[_key(item)] = {**resolve(item, settings), "item": Item(**item)}
        except (SourceError, WheelError, FetchError) as error:
            plan[_key(item)] = {"item": Item(**item)}
            unresolved[path] = reason(error, lang)
    written = []
    for name, text in render(plan, options["images"], options["registry_mirrors"], unresolved).items():
        path = os.path.join(options["lists"], name)
        if write_text(path, text, check):
            written.append(path)
    for path, why in unresolved.items():
        warn(message("bundle_not_in_lists", lang, path=path, reason=why))
    return {"changed": bool(written), "fetched": [], "artefacts": [], "written": written}


def fetch(options: Wishes, settings: Settings, credentials: Credentials, say: Say, check: bool) -> Fetched:
    """Bring what the bundle lacks of its items, and the images that this machine's engine lacks."""
    bundle, mirrors = options["bundle"], options["registry_mirrors"]
    fetching = Fetching(bundle, settings, read_checks(options["checks"], bundle), say, options["language"])
    problems = fetching.ask_all(options["items"], options["update"])
    local, wrong = _local_artefacts(options["items"])
    problems += wrong
    references = [str(image["reference"]) for image in options["images"]]
    pulls = images.missing(images.engine(), references) if references else []
    unanswered = unanswered_images(pulls, settings, mirrors, credentials)
    if problems:
        texts = [reason(one, options["language"]) for one in [*problems, *unanswered.values()]]
        failures = "\n".join("- " + text.replace("\n", "\n  ") for text in texts)
        raise FetchError("bundle_unreachable", count=len(problems) + len(unanswered), failures=failures)
    fetching.announce(options["hosts"], options["network_gbit_per_second"])
    if not check:
        fetching.write_plan()
        client = images.engine() if pulls else None
        # The engine may have a proxy or mirrors of its own. Whether they help shows before anything large is fetched.
        for reference in unanswered:
            images.pull(client, reference, mirrors, credentials, say, options["language"])
        fetching.bring()
        fetching.require_models()
        for reference in [each for each in pulls if each not in unanswered]:
            images.pull(client, reference, mirrors, credentials, say, options["language"])
        fetching.write_plan()
    fetched = [*fetching.lines(), *(f"image {reference}" for reference in pulls)]
    return {"changed": bool(fetched), "fetched": fetched, "artefacts": local + fetching.artefacts()}


def unanswered_images(
    references: Sequence[str], settings: Settings, mirrors: Mapping[str, Sequence[str]], credentials: Credentials
) -> dict[str, CodedError]:
    """The images that no registry and no mirror gives to this machine, and why."""

    def ask(reference: str) -> CodedError | None:
        try:
            registry.resolve(reference, settings.opener, mirrors, credentials)
        except CodedError as error:
            return error
        return None

    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        return {image: error for image, error in zip(references, pool.map(ask, references), strict=True) if error}


def _is_local(item: Item) -> bool:
    return split_source(item["source"])[0] in ("", "file")


def _local_artefacts(items: Sequence[Item]) -> tuple[list[Artefact], list[CodedError]]:
    """What lies on this machine, models file by file, and why models cannot be taken."""
    found: list[Artefact] = []
    problems: list[CodedError] = []
    for item in items:
        if not _is_local(item):
            continue
        source = item["source"].removeprefix("file://")
        said = Artefact(path=item["path"], kind=item["kind"], source=source)
        if "fields" in item:
            said["fields"] = item["fields"]
        files: Mapping[str, str] = {}
        if item["kind"] == "model" and os.path.exists(os.path.expanduser(source)):
            try:
                files = local_model(item)
            except CodedError as error:
                problems.append(error)
                continue
        below: list[Artefact] = [{**said, "path": path, "source": full} for path, full in files.items()]
        found += below or [said]
    return found, problems


def _key(item: Item) -> str:
    # What a model has to have changes nothing about where it is.
    asked = {name: value for name, value in item.items() if name != "needs"}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Fetching:
    """One bundle: the plan of its files, and which of them it lacks.

    A file whose checksum nobody published is taken as it came; what it was then is noted in the plan as ``arrived``, and so it must stay.
    """

    def __init__(
        self, bundle: str, settings: Settings, seen: Mapping[str, Mapping[str, object]], say: Say, lang: str
    ) -> None:
        self.bundle, self.settings, self.seen, self.say, self.lang = bundle, settings, seen, say, lang
        self.plan_path = os.path.join(bundle, STATE_DIR, PLAN_NAME)
        # what was asked, by the item: the answer of ``resolve``, and the item
        self.plan: dict[str, Asked] = {}
        # the answers that only a program can fetch, and has to
        self.commands: list[Asked] = []
        self.lacking: list[File] = []

    def ask(self, items: Sequence[Item], update: bool) -> None:
        """Learn what the items are, from the last plan as far as it knows them, and see what is lacking."""
        known = {} if update else read_object(self.plan_path)
        for item in items:
            self._ask(item, known)
        self._compare()

    def ask_all(self, items: Sequence[Item], update: bool) -> list[CodedError]:
        """The same, and of all items why they cannot be had, so that one run names every address that this machine does not reach."""
        known = {} if update else read_object(self.plan_path)
        problems = []
        for item in items:
            try:
                self._ask(item, known)
            except CodedError as error:
                problems.append(error)
        self._compare()
        return problems

    def _ask(self, item: Item, known: dict[str, Asked]) -> None:
        key = _key(item)
        if _is_local(item):
            return
        if key not in known:
            self.say(message("bundle_asking", self.lang, source=item["source"]))
            known[key] = {**resolve(item, self.settings), "item": Item(**item)}
        self.plan[key] = {**known[key], "item": Item(**item)}

    def _compare(self) -> None:
        """See what is lacking."""
        self.commands = [one for one in self.plan.values() if "command" in one and not self._has_all(one)]
        self.lacking = [
            file
            for one in self.plan.values()
            if one not in self.commands
            for file in one.get("files", [])
            if not self._has(file)
        ]

    def announce(self, hosts: int, gbit_per_second: float) -> None:
        """Say how much it is. Refused if the disk has no room for it."""
        sizes = [file.get("size") for one in self.plan.values() for file in one.get("files", [])]
        if not sizes:
            return
        size = sum(file.get("size") or 0 for file in self.lacking)
        self.say(summary(sizes, size, hosts, gbit_per_second, self.lang))
        started = [self._full(file["path"]) + ".part" for file in self.lacking]
        there = sum(os.path.getsize(path) for path in started if os.path.exists(path))
        require_room(self.bundle, size - there, "llm_bundle_dir")

    def bring(self) -> None:
        total = sum(file.get("size") or 0 for file in self.lacking)
        progress = Progress(message("progress_fetch", self.lang), total, self.say, self.lang)
        with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
            failed = [error for error in pool.map(lambda file: self._bring_one(file, progress), self.lacking) if error]
        if failed:
            raise FetchError("fetch_incomplete", failures="\n".join(failed))
        for one in self.commands:
            self._run(one)

    def require_models(self) -> None:
        """Refuse models that came and are not whole, all of them at once: a mirror may have web pages or pointers in place of files."""
        found = fetched_problems(self.bundle, self.plan.values(), lambda file: True)
        wrong = [reason(error, self.lang) for error in found]
        if wrong:
            raise FetchError("fetch_incomplete", failures="\n".join(wrong))

    def artefacts(self) -> list[Artefact]:
        """Each file with what the manifest will say about it."""
        return [
            {
                "path": file["path"],
                "kind": one["item"]["kind"],
                "fields": {**one["item"].get("fields", {}), **one.get("fields", {})},
            }
            for one in self.plan.values()
            for file in one.get("files", [])
        ]

    def lines(self) -> list[str]:
        """What is lacking, for people."""
        found = []
        for file in self.lacking:
            size = "unknown size" if (known := file.get("size")) is None else human_bytes(known)
            origin = f" from {without_password(file['urls'][0])}" if file.get("urls") else ""
            found.append(f"{file['path']} ({size}){origin}")
        return found + [f"{one['item']['path']}/ by {one['command'][0]}" for one in self.commands]

    def write_plan(self) -> None:
        write_text(self.plan_path, json.dumps(self.plan, indent=1))

    def _full(self, path: str) -> str:
        full = inside(self.bundle, path)
        if full is None:
            raise FetchError("bundle_link", path=path, bundle=self.bundle)
        return full

    def _has(self, file: File) -> bool:
        full = self._full(file["path"])
        mark = fingerprint(full) if os.path.isfile(full) else None
        if "content" in file:
            content = file["content"].encode()
            file["size"], file["sha256"] = len(content), hashlib.sha256(content).hexdigest()
        seen: File = {**file, **file["arrived"]} if "arrived" in file else file
        return present(seen, full, self.seen.get(file["path"]), mark)

    def _has_all(self, one: Asked) -> bool:
        """Whether what a program fetched is still there, all of it."""
        return bool(one.get("files")) and all(self._has(file) for file in one["files"])

    def _bring_one(self, file: File, progress: Progress) -> str:
        """Nothing, or why it failed."""
        full = self._full(file["path"])
        try:
            if "content" in file:
                write_text(full, file["content"])
                return ""
            target = full + ".source" if file.get("repack") else full
            headers = self.settings.headers(file.get("auth"))
            download({**file, "headers": headers}, target, self.settings.opener, progress.add)
            if file.get("repack"):
                repack(target, full)
                os.unlink(target)
        except (FetchError, ToolkitError, OSError) as error:
            return reason(error, self.lang)
        if file.get("repack") or not file.get("sha256"):
            file["arrived"] = {"size": os.path.getsize(full), "sha256": sha256_of(full)}
        return ""

    def _run(self, one: Asked) -> None:
        """A program fills a folder of its own, which takes the place of the old one when it is complete."""
        folder, source = one["folder"], one["item"]["source"]
        full = self._full(folder)
        part = os.path.join(os.path.realpath(self.bundle), STATE_DIR, "commands", folder)
        os.makedirs(part, exist_ok=True)
        self.say(message("bundle_by_program", self.lang, source=source, program=one["command"][0]))
        run_command(one, part, self.settings, source)
        shutil.rmtree(full, ignore_errors=True)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        os.rename(part, full)
        one["files"] = [
            {"path": f"{folder}/{below}", "size": os.path.getsize(path), "sha256": sha256_of(path)}
            for path, below in walk(full)
        ]
