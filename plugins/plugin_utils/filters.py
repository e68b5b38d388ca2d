# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What several filters do around the pure functions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ansible.errors import AnsibleFilterError
from ansible.plugins.loader import filter_loader, lookup_loader
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, reason
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

Result = TypeVar("Result")
# The last one by name.
LAST_FILTER = "vllm_arguments"


def preload() -> None:
    """Read all filters and the lookup, and what they import, for the processes that are forked from this one.

    A process is forked for every task on every host. The first filter of a collection that it asks for makes Ansible read the files of its
    filters in the order of their names, and compile all that they import: no bytecode of collections is kept.
    """
    with contextlib.suppress(KeyError):  # where no playbook runs, Ansible does not know the collection
        filter_loader.get(f"baremetal.llm.{LAST_FILTER}")
        lookup_loader.get("baremetal.llm.bundle_files")


def plain(value: object) -> Any:
    """A copy in which Ansible's own mappings and lists are ordinary ones."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def refusing(function: Callable[..., Result]) -> Callable[..., Result]:
    """The function as a filter: what the planner cannot read becomes an error that Ansible shows."""

    @functools.wraps(function)
    def asked(*arguments: object, **named: object) -> Result:
        try:
            return function(*arguments, **named)
        except InputError as error:
            said = reason(error, language(named.get("language")))
            raise AnsibleFilterError(f"{function.__name__}: {said}") from error

    return asked
