# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/reference/variables.md and docs/zh/reference/variables.md: the variables of all roles, by topic. `benchmarks/pages.py` writes them.

Names, values, defaults and the English meaning are those of the roles' argument specs; topics, the first ten and the Chinese meaning are in variables.yml.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables

DATA = yaml.safe_load(Path(__file__).with_suffix(".yml").read_text(encoding="utf-8"))
# A long default is left to ansible-doc.
LONGEST_DEFAULT = 48
HEADS = {
    "en": ("## The ten that people change first", "| Variable | Value | Default | Meaning |"),
    "zh": ("## 最先修改的十个", "| 变量 | 取值 | 默认值 | 含义 |"),
}
# Ansible's markup: V(value), C(code), E(environment), O(option) with its owner or `ignore:` before the name, and so on.
MARKUP = re.compile(r"\b[OVCEIBMP]\(((?:[^()\\]|\\.)*)\)")


def variables() -> dict[str, dict[str, Any]]:
    """Every variable that people may set, with its spec."""
    return {name: spec for name, spec in sorted(known_variables().items()) if name not in DATA["internal"]}


def topic_of(name: str) -> int:
    """The index of the topic of a variable. Raises ValueError if no pattern matches it."""
    patterns = [
        (pattern == name, len(pattern), index)
        for index, topic in enumerate(DATA["topics"])
        for pattern in topic["variables"]
        if fnmatch.fnmatchcase(name, pattern)
    ]
    if not patterns:
        raise ValueError(f"benchmarks/variables.yml has no topic for {name}")
    return max(patterns)[2]


def page(language: str) -> str:
    """The tables in this language, "en" or "zh"."""
    every = variables()
    title, head = HEADS[language]
    parts = [title + "\n\n" + _table(head, DATA["first"], every, language)]
    for index, topic in enumerate(DATA["topics"]):
        names = [name for name in every if topic_of(name) == index]
        if names:
            parts.append(f"## {topic[language]}\n\n" + _table(head, names, every, language))
    return "\n\n".join(parts)


def _table(head: str, names: Sequence[str], every: Mapping[str, Mapping[str, Any]], language: str) -> str:
    rows = [
        f"| `{name}` | {_value(every[name])} | {_default(every[name])} | {_meaning(name, every[name], language)} |"
        for name in names
    ]
    return "\n".join([head, "| --- " * 4 + "|", *rows])


def _value(spec: Mapping[str, Any]) -> str:
    """As `[str]`, `zh` or `en`, or a mapping with its keys."""
    if spec.get("choices"):
        return ", ".join(f"`{_spelled(choice)}`" for choice in spec["choices"])
    kind = str(spec.get("type", "str"))
    if kind == "list":
        kind = f"list of {spec.get('elements', 'any')}"
    keys = ", ".join(f"`{key}`" for key in spec.get("options") or {})
    return f"{kind}: {keys}" if keys else kind


def _default(spec: Mapping[str, Any]) -> str:
    if spec.get("default") is None:
        return ""
    said = _spelled(spec["default"])
    # Where it lies follows from the inventory.
    said = re.sub(r"\{\{.*?\}\}(?=/)", "INVENTORY", said)
    return f"`{_cell(said)}`" if len(said) <= LONGEST_DEFAULT else "..."


def _spelled(value: object) -> str:
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, ensure_ascii=False)


def _meaning(name: str, spec: Mapping[str, Any], language: str) -> str:
    if language != "en":
        # A variable that is new has the English text until somebody translates it; a test asks for that.
        found = DATA[language].get(name)
        if found:
            return _cell(str(found))
    description = spec.get("description") or ""
    first = description if isinstance(description, str) else description[0]
    return _cell(MARKUP.sub(lambda found: f"`{_bare(found[1])}`", str(first)))


def _bare(text: str) -> str:
    """An option without its owner: `baremetal.llm.docker#role:main:docker_version` is docker_version."""
    return re.sub(r"^(?:ignore:|[\w.]+#\w+:(?:\w+:)?)", "", text).replace("\\", "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
