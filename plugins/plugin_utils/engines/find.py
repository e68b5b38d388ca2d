# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which engines there are, and which of them serves a deployment.

An engine is a folder of one of the packages below that has an engine.py, which holds ``ENGINE``. It is imported when somebody asks for it, so
that what an engine is made of may import what asks.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true

# Where engines are looked for.
PACKAGES = ["ansible_collections.baremetal.llm.plugins.plugin_utils.engines"]
# The variable that names the engine of a deployment, and what counts where nobody sets one.
VARIABLE, DEFAULT = "llm_engine", "vllm"
FILE = "engine.py"
_FOLDERS: dict[str, dict[str, str]] = {}


def engine_names() -> list[str]:
    """All engines, the default first."""
    return sorted(_packages(), key=lambda name: (name != DEFAULT, name))


def engine(name: str) -> Engine:
    """An engine by its name. KeyError for one that there is not."""
    found: Engine = importlib.import_module(f"{_packages()[name]}.{name}.engine").ENGINE
    return found


def name_of(variables: Mapping[str, object]) -> str:
    """The name of the engine that serves a host's deployment."""
    return str(variables.get(VARIABLE) or DEFAULT)


def engine_of(variables: Mapping[str, object]) -> Engine:
    """The engine that serves a host's deployment."""
    return engine(name_of(variables))


def variable_of(variables: Mapping[str, object], setting: str) -> str:
    """What a setting of an engine is called in the inventory: ``port`` is vllm_port."""
    return f"{name_of(variables)}_{setting}"


def setting(variables: Mapping[str, object], name: str, default: object = None) -> object:
    """A deployment's setting of its engine: ``port`` is the value of vllm_port. The default where there is no such variable."""
    return variables.get(variable_of(variables, name), default)


def settings_of(variables: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    """Those of a deployment's settings of its engine that the inventory has."""
    return {name: setting(variables, name) for name in names if setting(variables, name) is not None}


def is_open(variables: Mapping[str, object]) -> bool:
    """Whether a server asks for no key."""
    return not is_true(setting(variables, "api_key_enabled", True))


def _packages() -> dict[str, str]:
    """The package of each engine."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        if package not in _FOLDERS:
            folders = [Path(path) for path in importlib.import_module(package).__path__]
            files = [file for folder in folders for file in folder.glob(f"*/{FILE}")]
            _FOLDERS[package] = {file.parent.name: package for file in files}
        found |= _FOLDERS[package]
    return found
