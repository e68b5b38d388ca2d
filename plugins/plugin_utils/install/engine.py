# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why Docker Engine or the container toolkit cannot be installed on a host as asked. Pure: what was found in, refusals out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem, shown


def install_problems(found: Mapping[str, Any], lang: str = "en") -> list[dict[str, str]]:
    """All of them at once.

    ``found`` says what is asked for - ``prefix`` of the role's variables, ``host``, ``system``, ``method``, ``wanted`` (a version),
    ``bundle``, ``bundled`` (versions in it), ``offline``, ``repository`` (whether the publisher has one for the system) - and, for
    the engine, what is there: ``other_kind`` (an engine of the other kind), ``old_root``, ``new_root``, ``held`` (how much lies
    below the old one), ``flags`` (files that put runtimes on the command line), with ``switch_enabled`` and
    ``root_change_enabled``.
    """
    prefix, method, host = str(found["prefix"]), str(found["method"]), found["host"]
    everybody = message("where_group", lang, group="all")
    problems: list[dict[str, str]] = []

    def add(code: str, variable: str, value: Any, **values: Any) -> None:
        said = "{0}{1}: {2}".format(prefix, variable, shown(value, lang))
        problems.append(problem(code, lang, value=said, where=everybody, host=host, prefix=prefix, **values))

    if method in ("static", "bundle") and not found["wanted"]:
        bundled = names(list(found["bundled"]), lang)
        add("install_version_open", "version", None, bundle=found["bundle"], bundled=bundled)
    if method == "repository" and found["offline"]:
        add("install_repository_offline", "method", method)
    if method == "repository" and not found["repository"]:
        add("install_no_repository", "method", method, system=found["system"])
    if found.get("other_kind") and not found.get("switch_enabled"):
        add("engine_other_kind_static" if method == "static" else "engine_other_kind_package", "method", method)
    if found.get("held") and found["new_root"] != found["old_root"] and not found.get("root_change_enabled"):
        add("engine_root_moves", "data_root", found["new_root"], old=found["old_root"], new=found["new_root"])
    for path in found.get("flags") or ():
        entry = problem("engine_runtime_flags", lang, value="--add-runtime", where=str(path), host=host, path=path)
        problems.append(entry)
    return problems
