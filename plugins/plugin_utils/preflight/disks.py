# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bundle puts on a host's disks. The host measures it, in ``module_utils/_disks.py``."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._disks import DOCKER_ROOT
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings

# What the engine needs below its data root to load an archive: it unpacks the archive there before it registers the layers.
_LOAD_FACTOR = 2
_LOAD_FACTOR_COMPRESSED = 4
_COMPRESSED = (".gz", ".tgz", ".zst", ".xz", ".bz2")
# Where an engine notes an image that it has: with its own store, and with containerd's.
_IMAGE_MARKS = (
    "{docker_root}/image/overlay2/imagedb/content/sha256/{digest}",
    "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/{digest}",
)
_PREPARE_KINDS = ("docker", "driver", "nvidia_container_toolkit", "os_packages")
# What a host without an engine does without.
_OF_AN_ENGINE = ("docker", "image", "nvidia_container_toolkit")


def _marks(images: Sequence[Mapping[str, object]]) -> list[list[str]]:
    """For each image the paths of which one exists where it is loaded; nothing if an image cannot be recognised."""
    digests = [str(image.get("id") or "").replace("sha256:", "") for image in images]
    if not all(digests):
        return []
    return [[mark.format(docker_root=DOCKER_ROOT, digest=digest) for mark in _IMAGE_MARKS] for digest in digests]


def disk_needs(
    records: Sequence[Mapping[str, object]],
    models: Collection[str] = (),
    host_dir: str = "/opt/llm",
    environment: Mapping[str, object] | None = None,
    engine: bool = True,
) -> list[dict[str, object]]:
    """What the records of a manifest put on a host that needs these models, as ``measure_disks`` takes it. ``engine`` says whether it needs one.

    ``environment`` is the Python environment that the host makes of wheels: its ``name``, the ``bytes`` that it will have, and the ``mark``
    that is there when it was made.
    """
    needs: list[dict[str, object]] = []
    for record in records:
        kind, size = str(record["kind"]), whole(record["size"])
        name = posixpath.basename(str(record["path"]))
        marks: list[list[str]] = []
        if kind in _OF_AN_ENGINE and not engine:
            continue
        if kind == "image":
            marks = _marks(mappings(record.get("images")))
            factor = _LOAD_FACTOR_COMPRESSED if name.endswith(_COMPRESSED) else _LOAD_FACTOR
            needs.append({"directory": DOCKER_ROOT, "name": "", "bytes": size * factor, "marks": marks})
        elif kind == "model":
            if record.get("model") not in models:
                continue
        elif kind == "python":
            if not environment or record.get("environment") != environment["name"]:
                continue
        elif kind not in _PREPARE_KINDS:
            continue
        needs.append({"directory": host_dir, "name": name, "bytes": size, "marks": marks})
    if environment:
        marks = [[str(environment["mark"])]]
        needs.append({"directory": host_dir, "name": "", "bytes": whole(environment["bytes"]), "marks": marks})
    return [need for need in needs if need["bytes"]]
