# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts lack of a bundle's images, as a bundle of its own: archives without images that no host wants and without layers that every host has.

An upgrade then sends the layers that are new, and a host that lacks Grafana does not get an engine along with it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    MANIFEST_NAME,
    SCHEMA,
    STATE_DIR,
    Record,
    inside,
    sha256_of,
)
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._image_layers import (
    Image,
    chains,
    read_images,
    size_of,
    write,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.files import require_room, write_text
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings

PREFIX = "excerpt-"
# Where less than this share is saved, the archive travels as it is.
LEAST_SAVED = 0.1
# What a run left that was killed goes after a day: another run may use it until then.
KEPT_SECONDS = 86400.0


class Lacking(TypedDict):
    """A host that lacks images."""

    references: list[str]
    # Of each image that its engine has the SHA-256 of its layers, the lowest first; none where the engine needs whole images.
    layers: list[list[str]]


@dataclass(frozen=True)
class Cut:
    """An archive to be written: of which record, what of it, and about how large it gets."""

    record: Record
    source: str
    images: Sequence[Image]
    there: frozenset[str]
    size: int


Parts = Sequence[Record | Cut]


def there_everywhere(hosts: Sequence[Lacking]) -> frozenset[str]:
    """The layers, with all below them, that every host has."""
    each = [{chain for layers in host["layers"] for chain in chains(layers)} for host in hosts]
    return frozenset(set.intersection(*each)) if each else frozenset()


def parts(bundle: str, records: Sequence[Record], hosts: Sequence[Lacking]) -> Parts:
    """The bundle's files of images, as far as a host lacks one of the images: as they are, or to be cut."""
    lacked = {reference for host in hosts for reference in host["references"]}
    there = there_everywhere(hosts)
    found: list[Record | Cut] = []
    for record in records:
        wanted = {str(image["reference"]) for image in mappings(record.get("images"))} & lacked
        if record["kind"] == "image" and wanted:
            found.append(_part(bundle, record, wanted, there))
    return found


def size_on_disk(found: Parts) -> int:
    """Bytes that archives need which have to be written."""
    return sum(one.size for one in found if isinstance(one, Cut))


def make(bundle: str, records: Sequence[Record], found: Parts, tell: Callable[[int], None]) -> str:
    """Write the bundle of these parts and of the wheels with which hosts pass files on, and return its folder. Refused where there is no room."""
    state = os.path.join(bundle, STATE_DIR)
    os.makedirs(state, exist_ok=True)
    sweep(bundle)
    require_room(state, size_on_disk(found), "llm_bundle_dir")
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=state)
    try:
        files = [_write(one, folder, tell) if isinstance(one, Cut) else _at_home(bundle, one) for one in found]
        files += [_at_home(bundle, record) for record in records if record.get("fanout_python")]
        # JSON is YAML.
        write_text(os.path.join(folder, MANIFEST_NAME), json.dumps({"schema": SCHEMA, "files": files}))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def remove(bundle: str, folder: str) -> None:
    """Remove what ``make`` has written; no other folder."""
    state, name = os.path.split(folder)
    if name.startswith(PREFIX) and os.path.realpath(state) == os.path.realpath(os.path.join(bundle, STATE_DIR)):
        shutil.rmtree(folder, ignore_errors=True)


def sweep(bundle: str) -> None:
    """Remove what earlier runs left."""
    state = os.path.join(bundle, STATE_DIR)
    for name in os.listdir(state):
        full = os.path.join(state, name)
        if name.startswith(PREFIX) and time.time() - os.stat(full).st_mtime > KEPT_SECONDS:
            shutil.rmtree(full, ignore_errors=True)


def _part(bundle: str, record: Record, wanted: set[str], there: frozenset[str]) -> Record | Cut:
    source = str(record.get("local") or inside(bundle, record["path"]) or "")
    try:
        images = [image for image in read_images(source) if wanted.intersection(image.references)]
        size = size_of(images, there)
    except (CodedError, OSError):
        # Compressed as a whole, or of another form: an engine knows what to do with it.
        return record
    named = {reference for image in images for reference in image.references}
    if not wanted <= named or size > record["size"] * (1 - LEAST_SAVED):
        return record
    return Cut(record, source, images, there, size)


def _write(cut: Cut, folder: str, tell: Callable[[int], None]) -> Record:
    target = os.path.join(folder, os.path.basename(cut.record["path"]))
    write(cut.source, target, cut.images, cut.there, tell=tell)
    named = {reference for image in cut.images for reference in image.references}
    images = [image for image in mappings(cut.record["images"]) if image["reference"] in named]
    digest = sha256_of(target, tell)
    return {**cut.record, "images": images, "size": os.path.getsize(target), "sha256": digest, "local": target}


def _at_home(bundle: str, record: Record) -> Record:
    return {**record, "local": record.get("local") or inside(bundle, record["path"])}
