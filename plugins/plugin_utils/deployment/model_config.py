# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a model's config.json is found: named by a variable, in the bundle, in a folder, in the catalogue, at a hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting, variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text, message, problem, shown
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language

# The setting of an engine that names the file.
NAMED = "model_config"


@dataclass(frozen=True)
class Found:
    """A model's config.json and where it comes from, or each place that was looked at and why it has none."""

    config: Mapping[str, object] | None
    # For the reasons of a plan; none where the inventory or the bundle names the file.
    origin: Text | None = None
    tried: Sequence[Text] = ()


def find_config(
    path: str | None,
    head: Mapping[str, object],
    bundle: str,
    read: Callable[[str], Mapping[str, object]],
    search: Callable[[str], Found],
) -> Found:
    """The config.json that ``path`` names (absolute, or relative to the bundle), else what is found for the head's model.

    ``read`` raises OSError or ValueError for a file that cannot be read.
    """
    if path:
        full = path if path.startswith(("/", "~")) else f"{bundle}/{path}"
        return _read(full, read)
    model = str(setting(head, "model") or "")
    if not model.startswith(("/", "~")):
        return search(model)
    found = _read(f"{model.rstrip('/')}/config.json", read)
    return Found(found.config, Text("config_from_folder", path=model) if found.config else None, found.tried)


def _read(path: str, read: Callable[[str], Mapping[str, object]]) -> Found:
    try:
        return Found(dict(read(path)))
    except OSError as error:
        why: Text | str = error.strerror or type(error).__name__
    except (ValueError, TypeError):
        why = Text("config_no_json")
    return Found(None, tried=[Text("config_place", place=path, reason=why)])


def config_problem(name: str, head: Mapping[str, object], found: Found, language: str) -> dict[str, str]:
    """A deployment without its model's config.json: every place that was looked at, and what to do."""
    lang = known_language(language)
    model = str(setting(head, "model") or "")
    tried = list(found.tried) or [Text("config_place", place=variable_of(head, NAMED), reason=Text("fetch_not_tried"))]
    return problem(
        "model_config_missing",
        lang,
        value=shown(model, lang),
        where=message("where_group", lang, group=name),
        deployment=name,
        model=model,
        variable=variable_of(head, "model"),
        tried=tried,
    )
