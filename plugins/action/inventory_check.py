# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands the inventory over to ``plugin_utils/inventory/check.py`` and prints what that finds.

Runs on the controller and touches no host. What the inventory itself sets is wanted here, without facts and without what
earlier plays did to variables, so the sources are parsed once more with Ansible's Python API. That also tells which group
is a child of which, which templates cannot see.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.inventory.manager import InventoryManager
from ansible.parsing.vault import b_HEADER, is_encrypted
from ansible.plugins.action import ActionBase
from ansible.template import Templar
from ansible.vars.manager import VariableManager
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import preload
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import (
    COMMAND_LINE,
    MANIFEST_NAME,
    ROOT_GROUP,
    SERVICE_GROUPS,
    Unresolved,
    check_inventory,
    is_unresolved,
    prefix_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, message, names, render

try:  # where a value comes from and whether it was encrypted: since ansible-core 2.19, and not promised to stay
    from ansible._internal._datatag._tags import Origin, VaultedValue
except ImportError:
    Origin = VaultedValue = None

# Here, since every playbook begins with this plugin, and Ansible reads it in the process that it forks all tasks from.
preload()

ROLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "roles")
# Ansible's own variables that say which machine a host is.
CONNECTION = ("ansible_host", "ansible_port", "ansible_connection")
# Templates with these can often be evaluated only later; nothing is wrong with them.
LATER = re.compile(r"ansible_facts|ansible_local|hostvars|lookup|query|vars\[|ansible_[a-z]+")


def known_variables(roles: str = ROLES) -> dict[str, dict[str, Any]]:
    """The options of every entry point of every role of this collection."""
    known: dict[str, dict[str, Any]] = {}
    owners: dict[str, str] = {}
    for role in sorted(os.listdir(roles)) if os.path.isdir(roles) else []:
        for ending in ("yml", "yaml"):
            path = os.path.join(roles, role, "meta", "argument_specs." + ending)
            if not os.path.isfile(path):
                continue
            with open(path, encoding="utf-8") as stream:
                content = yaml.safe_load(stream) or {}
            for entry_point in (content.get("argument_specs") or {}).values():
                for name, spec in ((entry_point or {}).get("options") or {}).items():
                    # A role may ask for a variable of another one: the owner's word about it counts.
                    if name not in known or (name.startswith(role + "_") and owners[name] != role):
                        known[name] = spec or {}
                        owners[name] = role
    return known


@functools.cache
def _encrypted_file(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            return bool(is_encrypted(stream.read(len(b_HEADER))))
    except OSError:
        return False


def _encrypted(value: Any) -> bool:
    """Whether a value was encrypted, alone or with the file that holds it: then it must never be printed."""
    if type(value).__name__ in ("EncryptedString", "AnsibleVaultEncryptedUnicode"):
        return True
    if Origin is None:
        return False
    if VaultedValue.is_tagged_on(value):
        return True
    tag = Origin.get_tag(value)
    return tag is not None and bool(tag.path) and _encrypted_file(str(tag.path))


def _plain(value: Any) -> Any:
    """A copy of a value without anything of Ansible's in it, and without secrets."""
    if _encrypted(value):
        return Unresolved("secret")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)  # dates and the like, which YAML makes of some unquoted texts


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class _Inventory:
    """What the inventory says, as plain dicts."""

    def __init__(self, loader: Any, task_vars: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> None:
        self.loader = loader
        self.task_vars = task_vars
        self.known = known
        self.parsed = InventoryManager(loader=loader, sources=self.sources())
        self.manager = VariableManager(loader=loader, inventory=self.parsed)
        self.hosts: dict[str, dict[str, Any]] = {}
        self.origins: dict[str, dict[str, str]] = {}
        # name and reason -> hosts
        self.unresolved: dict[tuple[str, str], list[str]] = {}
        # those of them that nothing explains
        self.doubtful: set[tuple[str, str]] = set()

    def sources(self) -> list[str]:
        found = self.task_vars.get("ansible_inventory_sources") or []
        return [found] if isinstance(found, str) else [str(item) for item in found]

    def groups(self) -> dict[str, dict[str, list[str]]]:
        """Per group all its hosts and its direct children. Groups made at run time (add_host) have no children."""
        found: dict[str, dict[str, list[str]]] = {
            str(group): {"hosts": [str(host) for host in hosts], "children": []}
            for group, hosts in (self.task_vars.get("groups") or {}).items()
        }
        for name, group in self.parsed.groups.items():
            entry = found.setdefault(str(name), {"hosts": [host.name for host in group.get_hosts()], "children": []})
            entry["children"] = [child.name for child in group.child_groups]
        return found

    def read(self, hosts: Iterable[str]) -> None:
        for host in hosts:
            self.read_host(host)

    def variables_of(self, host: str) -> dict[str, Any]:
        """What inventory and command line set for a host, not yet evaluated."""
        entry = self.parsed.get_host(host)
        if entry is None:
            # Made by add_host: only the running play knows it.
            try:
                return dict(self.task_vars["hostvars"].raw_get(host))
            except (AttributeError, KeyError, TypeError):
                return {}
        return dict(self.manager.get_vars(host=entry, include_hostvars=False))

    def read_host(self, host: str) -> None:
        raw = self.variables_of(host)
        facts = raw.get("ansible_facts") or {}
        context = {**raw, "hostvars": self.task_vars.get("hostvars")}
        templar = Templar(loader=self.loader, variables=context)
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for name in raw:
            # Facts of an earlier run, from a cache, are nothing that anybody wrote.
            if name in facts and facts[name] == raw[name]:
                continue
            if name in self.known or name in CONNECTION:
                values[name] = self.evaluate(host, name, raw[name], templar)
            elif prefix_of(name) or not name.startswith("ansible_"):
                values[name] = self.unevaluated(raw[name])
            else:
                continue
            origin = self.origin(name, raw)
            if origin:
                origins[name] = origin
        self.hosts[host] = values
        self.origins[host] = origins

    @staticmethod
    def unevaluated(value: Any) -> Any:
        try:
            return _plain(value)
        except Exception as error:  # whatever a vault or a plugin's value does when it is looked at
            return Unresolved(_short(error))

    def evaluate(self, host: str, name: str, raw: Any, templar: Any) -> Any:
        spec = self.known.get(name, {})
        # A secret is never looked at, so that it can never be printed.
        if spec.get("no_log") or _encrypted(raw):
            return Unresolved("secret")
        try:
            value = _plain(templar.template(raw))
        except Exception as error:  # a template may fail in any way, and in none is that this check's failure
            reason = _short(error)
            key = (name, reason)
            self.unresolved.setdefault(key, []).append(host)
            text = self.unevaluated(raw)
            if not LATER.search(str(text)):
                self.doubtful.add(key)
            return Unresolved(reason, text if isinstance(text, str) else "***")
        return value

    def origin(self, name: str, raw: Mapping[str, Any]) -> str:
        """The file and line that set a variable, where Ansible tells."""
        if name in self.manager.extra_vars:
            return COMMAND_LINE
        if Origin is None:
            return ""
        tag = Origin.get_tag(raw[name])
        if tag is None:
            # Neither true nor an empty value can carry its origin, but the name can.
            tag = next((Origin.get_tag(key) for key in raw if key == name), None)
        if tag is None:
            return ""
        if not tag.path:
            return str(tag.description or "")
        path = str(tag.path)
        inside = os.path.relpath(path)
        if not inside.startswith(os.pardir):
            path = inside
        return f"{path}:{tag.line_num}" if tag.line_num else path

    def warnings(self, lang: str) -> list[str]:
        return [
            message("unresolved", lang, name=name, hosts=names(hosts, lang), reason=reason)
            for (name, reason), hosts in self.unresolved.items()
            if (name, reason) in self.doubtful
        ]


class ActionModule(ActionBase):
    """Checks the inventory without a connection to any host."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, arguments = self.validate_argument_spec(
            argument_spec={"bundle_required": {"type": "bool", "default": True}}
        )
        known = known_variables()
        try:
            inventory = _Inventory(self._loader, task_vars, known)
            groups = inventory.groups()
        except Exception as error:
            lang = language(task_vars.get("llm_language"))
            raise AnsibleActionFail(message("inventory_not_parsed", lang, reason=_short(error))) from error
        ours = [host for group in (ROOT_GROUP, *SERVICE_GROUPS) for host in groups.get(group, {}).get("hosts", [])]
        inventory.read(dict.fromkeys(ours or groups.get("all", {}).get("hosts", [])))
        lang = self.language(inventory, task_vars)
        found = check_inventory(
            inventory.hosts,
            groups,
            known,
            bundles=self.bundles(inventory),
            origins=inventory.origins,
            bundle_required=arguments["bundle_required"],
            lang=lang,
        )
        for warning in inventory.warnings(lang):
            self._display.warning(warning)
        result["changed"] = False
        result["problems"] = [entry["code"] for entry in found["problems"]]
        if found["problems"]:
            raise AnsibleActionFail(render(found["problems"], lang), result=result)
        result["inventory"] = {"deployments": found["deployments"], "hosts": found["hosts"]}
        return result

    @staticmethod
    def language(inventory: _Inventory, task_vars: Mapping[str, Any]) -> str:
        said = [variables.get("llm_language") for variables in inventory.hosts.values()]
        said += [task_vars.get("llm_language"), inventory.known.get("llm_language", {}).get("default")]
        return language(next((item for item in said if isinstance(item, str)), None))

    def bundles(self, inventory: _Inventory) -> dict[str, dict[str, Any]]:
        """The manifests of all bundle directories that the inventory names."""
        default = inventory.known.get("llm_bundle_dir", {}).get("default")
        bundles: dict[str, dict[str, Any]] = {}
        for variables in inventory.hosts.values():
            directory = variables.get("llm_bundle_dir") or default
            if isinstance(directory, str) and directory not in bundles and not is_unresolved(directory):
                bundles[directory] = self.manifest(self._loader.path_dwim(os.path.expanduser(directory)))
        return bundles

    @staticmethod
    def manifest(directory: str) -> dict[str, Any]:
        try:
            with open(os.path.join(directory, MANIFEST_NAME), encoding="utf-8") as stream:
                # An empty file is a broken manifest, not a missing one.
                return {"manifest": yaml.safe_load(stream) or {}, "error": None}
        except (FileNotFoundError, NotADirectoryError):
            return {"manifest": None, "error": None}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            return {"manifest": None, "error": _short(error)}
