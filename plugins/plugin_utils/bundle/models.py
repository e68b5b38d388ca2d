# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The models of a bundle: only whole ones go in, and only their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record
from ansible_collections.baremetal.llm.plugins.module_utils._model_check import (
    WEIGHTS,
    ModelError,
    require_model,
    unfinished,
)
from ansible_collections.baremetal.llm.plugins.module_utils._model_files import listed
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import Asked, File, Item
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import needed_model_files, split_source
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import text


def local_model(item: Item) -> dict[str, str]:
    """The files of a model in a folder of this machine, by what they are called in the bundle; nothing where the folder is missing.

    ModelError if the model is not whole.
    """
    source = os.path.expanduser(split_source(item["source"])[1].removeprefix("//"))
    called, needs = text((item.get("fields") or {}).get("model")), item.get("needs") or {}
    if os.path.isfile(source):
        require_model(os.path.dirname(source), [os.path.basename(source)], False, False, called, source)
        return {item["path"]: source}
    left = unfinished(source)
    names = needed_model_files((name for name in listed(source) if name not in left), item.get("wanted") or ())
    _require(source, names, needs, called)
    return {f"{item['path']}/{name}": os.path.abspath(os.path.join(source, name)) for name in names}


def fetched_problems(bundle: str, plan: Iterable[Asked], here: Callable[[File], bool]) -> list[ModelError]:
    """What is wrong with the models of a plan that were fetched into a folder; ``here`` says whether a file is there or only known by name."""
    found = []
    for one in plan:
        item = one["item"]
        if item["kind"] != "model":
            continue
        names = {file["path"][len(item["path"]) + 1 :]: file for file in one.get("files", [])}
        elsewhere = [name for name, file in names.items() if not here(file)]
        try:
            _require(os.path.join(bundle, item["path"]), names, item.get("needs") or {}, item["source"], elsewhere)
        except ModelError as error:
            found.append(error)
    return found


def incomplete_models(folder: str, records: Iterable[Record]) -> list[ModelError]:
    """What is wrong with the models that a manifest names, as far as all their files lie below a folder."""
    models: dict[str, list[str]] = {}
    called: dict[str, str] = {}
    for record in records:
        parts = str(record["path"]).split("/")
        if record.get("kind") == "model" and not record.get("urls") and len(parts) > 2:
            path = "/".join(parts[:2])
            models.setdefault(path, []).append("/".join(parts[2:]))
            called.setdefault(path, str(record.get("origin") or record.get("model") or ""))
    found = []
    for path, names in models.items():
        full = os.path.join(folder, path)
        if all(os.path.isfile(os.path.join(full, name)) for name in names):
            try:
                _require(full, names, {}, called[path])
            except ModelError as error:
                found.append(error)
    return found


def _require(
    folder: str, names: Iterable[str], needs: Mapping[str, bool], called: str, elsewhere: Sequence[str] = ()
) -> None:
    # What people put together themselves may be a part of a model.
    names = list(names)
    weights = needs.get("weights", any(name.endswith(WEIGHTS) for name in names))
    require_model(folder, names, weights, needs.get("tokenizer", False), called, elsewhere=elsewhere)
