# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pieces of a bundle's files, which the controller reads once and notes beside the bundle."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import STATE_DIR, fingerprint
from ansible_collections.baremetal.llm.plugins.module_utils._content import load_json
from ansible_collections.baremetal.llm.plugins.module_utils._pieces import describe
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.fanout import File
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused

FOLDER = "pieces"


def described(file: File, bundle: str, add: Callable[[int], None] = lambda size: None) -> File:
    """The file (path, size, sha256, source) with ``root`` and ``layer``. Refused where the source is not what the manifest says."""
    if file.get("root"):
        return file
    source = file["source"]
    noted = os.path.join(bundle, STATE_DIR, FOLDER, f"{file['sha256']}.json")
    mark = fingerprint(source)
    found = _read(noted, mark)
    if found is None:
        found = {**describe(source, add), "mark": mark}
        if found["sha256"] != file["sha256"]:
            raise Refused("fanout_source", path=source, found=found["sha256"], wanted=file["sha256"])
        _note(noted, found)
    return {**file, "root": str(found["root"]), "layer": str(found["layer"])}


def _read(path: str, mark: list[int]) -> dict[str, object] | None:
    try:
        with open(path, encoding="utf-8") as stream:
            found = load_json(stream)
        return dict(found) if found["mark"] == mark else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _note(path: str, found: Mapping[str, object]) -> None:
    """A bundle that cannot be written to is read again by the next run."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _own_files.write(path, json.dumps(found).encode("utf-8"))
    except OSError:
        pass
