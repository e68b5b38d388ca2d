# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bundle_fetch: asks for what the bundle lacks, says how much that is, and brings it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    STATE_DIR,
    BundleError,
    fingerprint,
    human_bytes,
    inside,
    sha256_of,
    walk,
)
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_check import read_checks
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import images as bundle_images
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.download import (
    FetchError,
    download,
    make_opener,
    present,
    summary,
    without_password,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.lists import PLAN_NAME, render
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.packages import PackageError
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import split_source
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import Progress
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.sources import (
    Settings,
    SourceError,
    resolve,
    run_command,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.toolkit import ToolkitError, repack
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import reason

display = Display()
PARALLEL = 4
# Files whose checksum nobody published are taken as they came; from then on they must stay as they were.
Files = list[dict[str, Any]]


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return None


class ActionModule(ActionBase):
    """Everything happens here, on the controller."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            argument_spec={
                "bundle": {"type": "path", "required": True},
                "checks": {"type": "path", "required": True},
                "items": {"type": "list", "elements": "dict", "required": True},
                "images": {"type": "list", "elements": "dict", "default": []},
                "hosts": {"type": "int", "default": 1},
                "network_gbit_per_second": {"type": "float", "default": 10},
                "registry_mirrors": {"type": "dict", "default": {}},
                "url_mirrors": {"type": "dict", "default": {}},
                "os_mirrors": {"type": "dict", "default": {}},
                "os_keyrings": {"type": "dict", "default": {}},
                "huggingface_endpoint": {"type": "str", "default": "https://huggingface.co"},
                "modelscope_endpoint": {"type": "str", "default": "https://modelscope.cn"},
                "update": {"type": "bool", "default": False},
                "lists": {"type": "path"},
                "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
            }
        )
        self.bundle, self.lang = options["bundle"], options["language"]
        self.check = bool(self._task.check_mode)
        self.settings = self._settings(options, task_vars)
        try:
            return {**result, **(self._lists(options) if options["lists"] else self._fetch(options, task_vars))}
        except (SourceError, FetchError, PackageError, ToolkitError, BundleError, OSError) as error:
            # Ansible would add what a cause says, in English.
            raise AnsibleActionFail(reason(error, self.lang)) from None

    def _settings(self, options: Mapping[str, Any], task_vars: Mapping[str, Any]) -> Settings:
        proxy = self._secret(task_vars, "bundle_proxy")
        if proxy:
            # The clients of the hubs read it there, in this process alone.
            os.environ.update(http_proxy=proxy, https_proxy=proxy, HTTP_PROXY=proxy, HTTPS_PROXY=proxy)
        tokens = {hub: self._secret(task_vars, f"bundle_{hub}_token") for hub in ("huggingface", "modelscope")}
        names = ("url_mirrors", "os_mirrors", "os_keyrings", "huggingface_endpoint", "modelscope_endpoint")
        return Settings(
            opener=make_opener(proxy), proxy=proxy, tokens=tokens, **{name: options[name] for name in names}
        )

    def _secret(self, task_vars: Mapping[str, Any], name: str) -> Any:
        """A variable that is no argument of the task, so that neither a log nor a diff can show it."""
        return self._templar.template(task_vars.get(name) or "")

    def _lists(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Write down what would be fetched. What nobody can be asked about from here is left to the script, or said."""
        plan, unresolved = {}, {}
        for item in options["items"]:
            if split_source(str(item["source"]))[0] in ("", "file"):
                unresolved[str(item["path"])] = f"it is a file of this machine, {item['source']}: carry it yourself"
                continue
            try:
                plan[self._key(item)] = {**resolve(item, self.settings), "item": dict(item)}
            except (SourceError, FetchError) as error:
                plan[self._key(item)] = {"item": dict(item)}
                unresolved[str(item["path"])] = reason(error, self.lang)
        texts = render(plan, options["images"], options["registry_mirrors"], unresolved)
        changed = []
        for name, text in texts.items():
            path = os.path.join(options["lists"], name)
            if _read(path) == text:
                continue
            changed.append(path)
            if not self.check:
                os.makedirs(options["lists"], exist_ok=True)
                with open(path, "w", encoding="utf-8") as stream:
                    stream.write(text)
        for path, why in unresolved.items():
            display.warning(f"not in the lists: {path}: {why}")
        return {"changed": bool(changed), "fetched": [], "artefacts": [], "written": changed}

    def _fetch(self, options: dict[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
        self.plan_path = os.path.join(self.bundle, STATE_DIR, PLAN_NAME)
        self.plan = self._read_plan()
        self.seen = read_checks(options["checks"], self.bundle)
        artefacts, resolved = [], {}
        for item in options["items"]:
            if split_source(str(item["source"]))[0] in ("", "file"):
                artefacts.append({**item, "source": str(item["source"]).removeprefix("file://")})
                continue
            key = self._key(item)
            if options["update"] or key not in self.plan:
                display.display(f"bundle: asking for {item['source']}")
                self.plan[key] = {**resolve(item, self.settings), "item": dict(item)}
            resolved[key] = self.plan[key]
        self.plan = resolved
        commands = [one for one in resolved.values() if "command" in one and not self._have(one)]
        lacking = [
            file
            for one in resolved.values()
            if one not in commands
            for file in one.get("files", [])
            if not self._is_present(file)
        ]
        pulls = self._missing_images(options)
        self._say_how_much(options, lacking)
        if not self.check:
            self._write_plan()
            self._bring(lacking)
            for one in commands:
                self._run(one)
            self._pull(pulls, options, task_vars)
            self._write_plan()
        for one in resolved.values():
            fields = {**one["item"].get("fields", {}), **one.get("fields", {})}
            artefacts += [
                {"path": file["path"], "kind": one["item"]["kind"], "fields": fields} for file in one.get("files", [])
            ]
        wanted = [self._line(file) for file in lacking]
        wanted += [f"{one['item']['path']}/ by {one['command'][0]}" for one in commands]
        wanted += [f"image {reference}" for reference in pulls]
        result: dict[str, Any] = {"changed": bool(wanted), "fetched": wanted, "artefacts": artefacts}
        if self._task.diff and wanted:
            result["diff"] = {"before": "", "after": "".join(f"{line}\n" for line in wanted)}
        return result

    @staticmethod
    def _line(file: Mapping[str, Any]) -> str:
        size = "unknown size" if file.get("size") is None else human_bytes(file["size"])
        return f"{file['path']} ({size})" + (f" from {without_password(file['urls'][0])}" if file.get("urls") else "")

    @staticmethod
    def _key(item: Mapping[str, Any]) -> str:
        return hashlib.sha256(json.dumps(item, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def _read_plan(self) -> dict[str, Any]:
        try:
            with open(self.plan_path, encoding="utf-8") as stream:
                found = json.load(stream)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write_plan(self) -> None:
        os.makedirs(os.path.dirname(self.plan_path), exist_ok=True)
        with open(self.plan_path + ".new", "w", encoding="utf-8") as stream:
            json.dump(self.plan, stream, indent=1)
        os.replace(self.plan_path + ".new", self.plan_path)

    def _full(self, path: str) -> str:
        full = inside(self.bundle, path)
        if full is None:
            raise FetchError("bundle_link", path=path, bundle=self.bundle)
        return full

    def _is_present(self, file: dict[str, Any]) -> bool:
        full = self._full(file["path"])
        mark = fingerprint(full) if os.path.isfile(full) else None
        if "content" in file:
            with_content = file["content"].encode()
            file["size"], file["sha256"] = len(with_content), hashlib.sha256(with_content).hexdigest()
        return present({**file, **file.get("arrived", {})}, full, self.seen.get(file["path"]), mark)

    def _have(self, one: dict[str, Any]) -> bool:
        """Whether what a program fetched is still there, all of it."""
        return bool(one.get("files")) and all(self._is_present(file) for file in one["files"])

    def _missing_images(self, options: Mapping[str, Any]) -> list[str]:
        if not options["images"]:
            return []
        references = [str(image["reference"]) for image in options["images"]]
        return bundle_images.missing(bundle_images.engine(), references)

    def _say_how_much(self, options: Mapping[str, Any], lacking: Files) -> None:
        sizes = [file.get("size") for one in self.plan.values() for file in one.get("files", [])]
        fetch = sum(file.get("size") or 0 for file in lacking)
        if not sizes:
            return
        display.display("bundle: " + summary(sizes, fetch, options["hosts"], options["network_gbit_per_second"]))
        folder = self.bundle
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        status = os.statvfs(folder)
        free = status.f_bavail * status.f_frsize
        started = sum(
            os.path.getsize(path) for file in lacking if os.path.exists(path := self._full(file["path"]) + ".part")
        )
        if fetch - started > free:
            needed = human_bytes(fetch - started)
            raise FetchError(
                "no_room", folder=self.bundle, variable="llm_bundle_dir", free=human_bytes(free), needed=needed
            )

    def _bring(self, lacking: Files) -> None:
        progress = Progress("fetch", sum(file.get("size") or 0 for file in lacking), display.display)
        with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
            failed = [error for error in pool.map(lambda file: self._bring_one(file, progress), lacking) if error]
        if failed:
            raise FetchError("fetch_incomplete", failures="\n".join(failed))

    def _bring_one(self, file: dict[str, Any], progress: Progress) -> str:
        full = self._full(file["path"])
        os.makedirs(os.path.dirname(full), exist_ok=True)
        try:
            if "content" in file:
                with open(full + ".new", "w", encoding="utf-8") as stream:
                    stream.write(file["content"])
                os.replace(full + ".new", full)
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

    def _run(self, one: dict[str, Any]) -> None:
        """A program fills a folder of its own, which takes the place of the old one when it is complete."""
        folder = str(one["folder"])
        full = self._full(folder)
        part = os.path.join(os.path.realpath(self.bundle), STATE_DIR, "commands", folder)
        os.makedirs(part, exist_ok=True)
        display.display(f"bundle: {one['item']['source']} by {one['command'][0]}")
        run_command(one, part, self.settings, str(one["item"]["source"]))
        shutil.rmtree(full, ignore_errors=True)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        os.rename(part, full)
        one["files"] = [
            {"path": f"{folder}/{below}", "size": os.path.getsize(path), "sha256": sha256_of(path)}
            for path, below in walk(full)
        ]

    def _pull(self, references: list[str], options: Mapping[str, Any], task_vars: Mapping[str, Any]) -> None:
        credentials = self._secret(task_vars, "bundle_registry_credentials") or {}
        client = bundle_images.engine() if references else None
        for reference in references:
            bundle_images.pull(client, reference, options["registry_mirrors"], credentials, display.display)
