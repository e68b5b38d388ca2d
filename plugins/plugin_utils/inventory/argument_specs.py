# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argument specs of the roles: every variable that this collection knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

import yaml

# The parser in C, where there is one: every playbook waits for this.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ROLES = Path(__file__).absolute().parents[3] / "roles"


class Spec(TypedDict, total=False):
    """What is read of an argument spec, and of each part of one."""

    type: str
    # Of a list.
    elements: str
    choices: list[object]
    # Of a mapping, or of the elements of a list.
    options: Mapping[str, Spec] | None
    default: object
    required: bool
    no_log: bool


def known_variables(roles: str | Path = ROLES) -> dict[str, Spec]:
    """The options of every entry point of every role of this collection."""
    known: dict[str, Spec] = {}
    owners: dict[str, str] = {}
    for path in sorted(Path(roles).glob("*/meta/argument_specs.y*ml")):
        role = path.parts[-3]
        content = yaml.load(path.read_bytes(), Loader=_LOADER) or {}
        for entry_point in (content.get("argument_specs") or {}).values():
            for name, spec in ((entry_point or {}).get("options") or {}).items():
                # A role may ask for a variable of another one: the owner's word about it counts.
                if name not in known or (name.startswith(role + "_") and owners[name] != role):
                    known[name] = spec if spec else Spec()
                    owners[name] = role
    return known


def role_options(roles: str | Path = ROLES) -> dict[str, list[str]]:
    """The variables that each role reads, by role."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(roles).glob("*/meta/argument_specs.y*ml")):
        content = yaml.load(path.read_bytes(), Loader=_LOADER) or {}
        entries = (content.get("argument_specs") or {}).values()
        found[path.parts[-3]] = sorted({name for entry in entries for name in (entry or {}).get("options") or {}})
    return found
