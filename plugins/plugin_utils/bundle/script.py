# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the script of the lists has fetched, where nobody could run Ansible: made into the content of a bundle."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    KINDS,
    BundleError,
    Record,
    inside,
    safe_path,
    sha256_of,
    shown,
    walk,
)
from ansible_collections.baremetal.llm.plugins.module_utils._content import is_integer, load_json
from ansible_collections.baremetal.llm.plugins.module_utils._image_archive import complete, read_archive
from ansible_collections.baremetal.llm.plugins.module_utils._image_layers import ArchiveError
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.files import write_text
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import Artefact, Asked, File
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.lists import PLAN_NAME, target_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.toolkit import repack
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, message

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Listed(TypedDict, total=False):
    """What the script of the lists was asked to fetch: items by a key of their own, and images with what is known of them."""

    plan: dict[str, Asked]
    images: list[dict[str, object]]


def read_plan(folders: Sequence[str]) -> Listed:
    """What the script left beside what it fetched. Nothing if no folder has it."""
    for folder in folders:
        path = os.path.join(folder, PLAN_NAME)
        if not os.path.exists(path):
            continue
        try:
            with open(path, encoding="utf-8") as stream:
                found = load_json(stream)
            for one in found["plan"].values():
                _check_item(one)
            _check_images(found.setdefault("images", []))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BundleError("transfer_no_plan", path=path, reason=error) from error
        return Listed(plan=found["plan"], images=found["images"])
    return {}


def _check_item(one: Mapping[str, Any]) -> None:
    """Refuse what nobody could have fetched by: everything after this takes the plan as the script of the lists has it."""
    item = one["item"]
    safe_path(item["path"])
    if item["kind"] not in KINDS:
        raise ValueError(f"kind {shown(item['kind'])}")
    for fields in (item.get("fields", {}), one.get("fields", {})):
        if not isinstance(fields, dict):
            raise ValueError(f"fields {shown(fields)}")
    for file in _list(one.get("files", []), "files"):
        safe_path(file["path"])
        size, digest, content = file.get("size"), file.get("sha256"), file.get("content", "")
        if size is not None and (not is_integer(size) or size < 0):
            raise ValueError(f"size {shown(size)}")
        if digest is not None and not (isinstance(digest, str) and _SHA256.fullmatch(digest)):
            raise ValueError(f"sha256 {shown(digest)}")
        if not isinstance(content, str) or content != content.encode(errors="replace").decode():
            raise ValueError(f"content {shown(content)}")
        for url in _list(file.get("urls") or [], "urls"):
            if not isinstance(url, str):
                raise ValueError(f"urls {shown(url)}")


def _check_images(images: object) -> None:
    for image in _list(images, "images"):
        if not isinstance(image, dict) or not isinstance(image.get("reference"), str):
            raise ValueError(f"images {shown(image)}")


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} {shown(value)}")
    return value


def fetched_records(folders: Sequence[str], plan: Listed) -> list[Record]:
    """A record of each file that the script had to fetch. Where nobody published a checksum, the one that it has."""
    records = []
    for one in plan["plan"].values():
        for file in one.get("files", []):
            if not file.get("urls"):
                continue
            path, size, digest = target_of(file), file.get("size"), file.get("sha256")
            full = next(filter(None, (inside(folder, path) for folder in folders)), None)
            if full and os.path.isfile(full):
                size = os.path.getsize(full) if size is None else size
                digest = digest or sha256_of(full)
            records.append({"path": path, "size": size or 0, "sha256": digest})
    return records


def fetched_images(folders: Sequence[str], plan: Listed) -> list[Artefact]:
    """The archives of images that the script has saved, each with its images as a manifest records them: what they hold included.

    Refused names the images that the plan wants and no archive holds.
    """
    said = {str(image["reference"]): image for image in plan["images"]}
    found: list[Artefact] = []
    there: set[str] = set()
    for folder in folders:
        images = os.path.join(folder, "images")
        for full, below in walk(images) if os.path.isdir(images) else []:
            if not below.endswith(".tar"):
                continue
            try:
                with open(full, "rb") as stream:
                    inside_it = read_archive(stream)
            except ArchiveError as error:
                raise Refused("transfer_archive", path=full, reason=error) from error
            records = [
                {**said.get(reference, {}), "reference": reference, "id": image["id"]}
                for image in inside_it
                for reference in image["references"]
            ]
            images_here = complete(records, inside_it)
            there |= {str(image["reference"]) for image in images_here}
            fields: dict[str, object] = {"images": images_here}
            found.append({"source": full, "path": f"images/{below}", "kind": "image", "fields": fields})
    if set(said) - there:
        raise Refused("transfer_no_images", images=", ".join(sorted(set(said) - there)), folders=", ".join(folders))
    return found


def adopt(
    folders: Sequence[str],
    plan: Listed,
    bundle: str,
    warn: Callable[[str], None],
    lang: str = "en",
    check: bool = False,
) -> list[Artefact]:
    """Finish what was brought in: texts, what has to be packed anew, packages, images. Returns the artefacts of the bundle."""
    artefacts: list[Artefact] = []
    for one in plan["plan"].values():
        item = one["item"]
        kind, fields = item["kind"], {**item.get("fields", {}), **one.get("fields", {})}
        files = one.get("files", [])
        for file in files:
            _finish(file, os.path.join(bundle, file["path"]), check)
            artefacts.append({"path": file["path"], "kind": kind, "fields": fields})
        if not files:
            source = _folder_of_packages(folders, item["path"])
            if source:
                artefacts.append({"source": source, "path": item["path"], "kind": kind, "fields": fields})
            else:
                warn(message("transfer_not_fetched", lang, path=item["path"], folders=", ".join(folders)))
    return artefacts + fetched_images(folders, plan)


def _finish(file: File, full: str, check: bool) -> None:
    if "content" in file:
        write_text(full, file["content"], check)
    elif file.get("repack") and not check:
        repack(target_of({**file, "path": full}), full)


def _folder_of_packages(folders: Sequence[str], path: str) -> str:
    """What the script's package manager has filled; nothing if it has not."""
    sources = (os.path.join(folder, path) for folder in folders)
    return next((source for source in sources if os.path.isdir(source) and walk(source)), "")
