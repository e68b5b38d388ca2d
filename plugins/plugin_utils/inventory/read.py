# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory sets, evaluated by Ansible: the part of this folder that talks to Ansible.

What the inventory itself sets is wanted here, without facts and without what earlier plays did to variables, so the sources
are parsed once more with Ansible's Python API. That also tells which group is a child of which, which templates cannot see.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Any

from ansible.inventory.manager import InventoryManager
from ansible.parsing.vault import b_HEADER, is_encrypted
from ansible.template import Templar
from ansible.vars.manager import VariableManager
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.gpus import GPUS, as_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import COMMAND_LINE
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.spelling import prefix_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import Unresolved
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names

try:  # where a value comes from and whether it was encrypted: since ansible-core 2.19, and not promised to stay
    from ansible._internal._datatag._tags import Origin, VaultedValue
except ImportError:
    Origin = VaultedValue = None

# Stands for a secret, which is never looked at, so that it can never be printed.
SECRET = Unresolved("secret")
# Of numbers: more than any program counts to.
_NUMBER_BITS = 1000
# Ansible's own variables that say which machine a host is.
CONNECTION = ("ansible_host", "ansible_port", "ansible_connection")
# Templates with these can often be evaluated only later; nothing is wrong with them.
_LATER = re.compile(r"ansible_facts|ansible_local|hostvars|lookup|query|vars\[|ansible_[a-z]+")


def short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


@functools.cache
def _is_encrypted_file(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            return bool(is_encrypted(stream.read(len(b_HEADER))))
    except OSError:
        return False


def _is_secret(value: object) -> bool:
    """Whether a value was encrypted, alone or with the file that holds it: then it must never be printed."""
    if type(value).__name__ in ("EncryptedString", "AnsibleVaultEncryptedUnicode"):
        return True
    if Origin is None:
        return False
    if VaultedValue.is_tagged_on(value):
        return True
    tag = Origin.get_tag(value)
    return tag is not None and bool(tag.path) and _is_encrypted_file(str(tag.path))


def _plain(value: object) -> object:
    """A copy of a value without anything of Ansible's in it, and without secrets."""
    if _is_secret(value):
        return SECRET
    if isinstance(value, int) and value.bit_length() > _NUMBER_BITS:
        return hex(value)  # which nobody can print otherwise, and no variable takes
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)  # dates and the like, which YAML makes of some unquoted texts


def _unevaluated(value: object) -> object:
    try:
        return _plain(value)
    except Exception as error:  # whatever a vault or a plugin's value does when it is looked at
        return Unresolved(short(error))


def _place(name: str, raw: Mapping[str, object]) -> str:
    """The file and line that set a variable, where Ansible tells."""
    if Origin is None:
        return ""
    # Neither true nor an empty value can carry its origin, but the name can.
    tag = Origin.get_tag(raw[name]) or next((Origin.get_tag(key) for key in raw if key == name), None)
    if tag is None:
        return ""
    if not tag.path:
        return str(tag.description or "")
    path, inside = str(tag.path), os.path.relpath(str(tag.path))
    if not inside.startswith(os.pardir):
        path = inside
    return f"{path}:{tag.line_num}" if tag.line_num else path


class Variables:
    """The variables of the inventory's hosts, as plain values.

    ``of`` gives those that this collection knows, ``others`` what else the inventory sets.
    """

    def __init__(self, loader: Any, task_vars: Mapping[str, Any], known: Mapping[str, Mapping[str, object]]) -> None:
        self.loader = loader
        self.task_vars = task_vars
        self.known = known
        sources = task_vars.get("ansible_inventory_sources") or []
        sources = [sources] if isinstance(sources, str) else [str(item) for item in sources]
        self.parsed = InventoryManager(loader=loader, sources=sources)
        self.manager = VariableManager(loader=loader, inventory=self.parsed)
        # (name, reason) -> the hosts on which the name could not be evaluated, and nothing explains why
        self.doubtful: dict[tuple[str, str], list[str]] = {}
        self._raw: dict[str, dict[str, object]] = {}

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

    def of(self, host: str) -> dict[str, object]:
        """The variables that are known or say which machine a host is, evaluated.

        A secret is ``SECRET``, what cannot be evaluated yet another ``Unresolved``.
        """
        raw = self._raw_of(host)
        templar = Templar(loader=self.loader, variables={**raw, "hostvars": self.task_vars.get("hostvars")})
        mine = [name for name in self._names(host) if self._is_ours(name)]
        found = {name: self._evaluate(host, name, raw[name], templar) for name in mine}
        return {**found, GPUS: as_gpus(found[GPUS])} if GPUS in found else found

    def others(self, host: str) -> dict[str, object]:
        """What else a host has, not evaluated: for whoever looks for misspelled names."""
        raw = self._raw_of(host)
        return {name: _unevaluated(raw[name]) for name in self._names(host) if not self._is_ours(name)}

    def origins(self, host: str) -> dict[str, str]:
        """Where each variable of a host is set, as far as Ansible tells."""
        raw = self._raw_of(host)
        found = {
            name: COMMAND_LINE if name in self.manager.extra_vars else _place(name, raw) for name in self._names(host)
        }
        return {name: place for name, place in found.items() if place}

    def warnings(self, lang: str) -> list[str]:
        return [
            message("unresolved", lang, name=name, hosts=names(hosts, lang), reason=reason)
            for (name, reason), hosts in self.doubtful.items()
        ]

    def _is_ours(self, name: str) -> bool:
        return name in self.known or name in CONNECTION

    def _names(self, host: str) -> list[str]:
        """What people have set: neither Ansible's own variables nor facts of an earlier run, from a cache."""
        raw = self._raw_of(host)
        facts = mapping(raw.get("ansible_facts"))
        return [
            name
            for name in raw
            if not (name in facts and facts[name] == raw[name])
            and (self._is_ours(name) or prefix_of(name) or not name.startswith("ansible_"))
        ]

    def _raw_of(self, host: str) -> dict[str, object]:
        if host not in self._raw:
            self._raw[host] = self._set_for(host)
        return self._raw[host]

    def _set_for(self, host: str) -> dict[str, object]:
        """What inventory and command line set for a host, not yet evaluated."""
        entry = self.parsed.get_host(host)
        if entry is not None:
            return dict(self.manager.get_vars(host=entry, include_hostvars=False))
        # Made by add_host: only the running play knows it.
        try:
            return dict(self.task_vars["hostvars"].raw_get(host))
        except (AttributeError, KeyError, TypeError):
            return {}

    def _evaluate(self, host: str, name: str, raw: object, templar: Templar) -> object:
        if self.known.get(name, {}).get("no_log") or _is_secret(raw):
            return SECRET
        try:
            return _plain(templar.template(raw))
        except Exception as error:  # a template may fail in any way, and in none is that the caller's failure
            reason, text = short(error), _unevaluated(raw)
            if not _LATER.search(str(text)):
                self.doubtful.setdefault((name, reason), []).append(host)
            return Unresolved(reason, text if isinstance(text, str) else "***")
