# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two deployments of one name in a file of the inventory. Ansible takes the last one and only warns: the first and its hosts would be gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import ROOT_GROUP


def named_twice(sources: Iterable[str]) -> dict[str, str]:
    """The names of deployments that a file has more than once, each with the file and its lines."""
    found: dict[str, str] = {}
    for file in _files(sources):
        try:
            root = yaml.compose(file.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            # Not YAML, or none that Ansible would read either: it says so itself.
            continue
        for children in _children(root):
            lines: dict[str, list[int]] = {}
            for key, _value in children.value:
                lines.setdefault(str(key.value), []).append(key.start_mark.line + 1)
            found |= {name: f"{file}: {', '.join(map(str, at))}" for name, at in lines.items() if len(at) > 1}
    return found


def _files(sources: Iterable[str]) -> Iterator[Path]:
    for source in map(Path, sources):
        if source.is_dir():
            yield from sorted(path for path in source.iterdir() if path.suffix in (".yml", ".yaml"))
        elif source.suffix in (".yml", ".yaml"):
            yield source


def _children(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """The children of llm_deployments, wherever that group stands. What an alias names again is looked at once."""
    left: list[yaml.Node | None] = [root]
    seen: set[int] = set()
    while left:
        node = left.pop()
        if not isinstance(node, yaml.MappingNode) or id(node) in seen:
            continue
        seen.add(id(node))
        for key, value in node.value:
            if key.value == ROOT_GROUP and isinstance(value, yaml.MappingNode):
                for inner, below in value.value:
                    if inner.value == "children" and isinstance(below, yaml.MappingNode):
                        yield below
            else:
                left.append(value)
