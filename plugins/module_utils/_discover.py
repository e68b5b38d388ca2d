# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody wants to know of a host that no inventory describes yet: programs, model weights, ways to the internet."""

from __future__ import annotations

import os
import re
import socket
import time
from typing import Iterable, Iterator, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._at_once import confirmed
from ansible_collections.baremetal.llm.plugins.module_utils._model_check import model_problems
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs
from ansible_collections.baremetal.llm.plugins.module_utils._shares import apart

# Folders in which people keep models. Only what is below them is looked at, and what belongs to other file systems as well.
PLACES = (
    *("/data", "/models", "/model", "/mnt", "/srv", "/opt", "/nvme", "/raid", "/home", "/root"),
    *("/root/.cache/huggingface/hub", "/root/.cache/modelscope/hub"),
)
DEPTH = 6
# So long is searched: a folder with millions of files must not hold up a question.
SEARCH_SECONDS = 3.0
MOST_MODELS = 100
# Nothing of this is looked into: the system's, the engine's, and environments.
_IGNORED = re.compile(r"^(proc|sys|dev|run|overlay2|containers|node_modules|site-packages|__pycache__|\..*)$")
# A folder of Hugging Face's cache, and of a snapshot in it.
_CACHED = re.compile(r"/models--([^/]+)--([^/]+)/snapshots/[^/]+$")
_VERSION = re.compile(r"\d+(\.\d+)+")
CONNECT_SECONDS = 3.0


class Model(TypedDict):
    """A model that lies on a host."""

    # The file, or the folder of several.
    path: str
    # As far as the path tells.
    name: str
    bytes: int
    # safetensors, pytorch or gguf
    format: str
    # Whether its files say that none is missing or cut off.
    whole: bool


class Models(TypedDict):
    """Those that were found, and whether all was searched."""

    models: list[Model]
    complete: bool


class Disk(TypedDict):
    """A file system, by the first folder on it."""

    path: str
    available_bytes: int
    total_bytes: int


def versions(programs: Programs) -> dict[str, str]:
    """The releases of Docker's engine and of the container toolkit; empty where there is none."""
    found = {"docker": programs.answer("dockerd", "--version"), "toolkit": programs.answer("nvidia-ctk", "--version")}
    matches = {name: _VERSION.search(text or "") for name, text in found.items()}
    return {name: match.group(0) if match else "" for name, match in matches.items()}


def reached(addresses: Iterable[str], seconds: float = CONNECT_SECONDS) -> list[str]:
    """Which of the addresses (HOST or HOST:PORT, 443 by default) take a connection. All are tried at once, and a name that nobody resolves costs no more."""

    def connects(address: str) -> bool:
        host, _colon, port = address.partition(":")
        try:
            socket.create_connection((host, int(port or 443)), seconds).close()
        except (OSError, ValueError):
            return False
        return True

    return confirmed(addresses, connects, seconds)


def weights(
    places: Iterable[str] = PLACES, seconds: float = SEARCH_SECONDS, shares_silent: Sequence[str] = ()
) -> Models:
    """The models below some folders, searched for a while, and as many as are looked at. Shares that do not answer are passed over."""
    deadline = time.monotonic() + seconds
    models: dict[str, Model] = {}
    for place in places:
        for folder, files in _folders(place, deadline, shares_silent):
            for model in _models_in(folder, files):
                models.setdefault(os.path.realpath(model["path"]), model)
            if len(models) >= MOST_MODELS:
                break
    found = sorted(models.values(), key=lambda model: model["path"])[:MOST_MODELS]
    whole = time.monotonic() < deadline and len(models) < MOST_MODELS and not shares_silent
    return {"models": found, "complete": whole}


def disks(places: Iterable[str] = (*PLACES, "/var/lib/docker", "/"), shares_silent: Sequence[str] = ()) -> list[Disk]:
    """The file systems of these folders, each once."""
    found: dict[int, Disk] = {}
    for place in apart(places, shares_silent):
        try:
            device, space = os.stat(place).st_dev, os.statvfs(place)
        except OSError:
            continue
        free, total = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
        found.setdefault(device, {"path": place, "available_bytes": free, "total_bytes": total})
    return list(found.values())


def _folders(place: str, deadline: float, shares_silent: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The folders below one, to a depth, with the names of their files."""
    # Hidden folders are passed over below a place, but a place may be one.
    below = [(folder, 0) for folder in apart([place], shares_silent)]
    while below and time.monotonic() < deadline:
        folder, depth = below.pop()
        files = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if depth < DEPTH and not _IGNORED.match(entry.name) and entry.path not in shares_silent:
                            below.append((entry.path, depth + 1))
                    else:
                        files.append(entry.name)
        except OSError:
            continue
        yield folder, files


def _models_in(folder: str, files: list[str]) -> Iterator[Model]:
    # One file of a model that is split stands for all.
    for name in files:
        if name.endswith(".gguf") and not re.search(r"-(?!00001)\d{5}-of-\d{5}\.gguf$", name):
            path = os.path.join(folder, name)
            whole = not model_problems(folder, _parts(name, files))
            name = name[: -len(".gguf")]
            yield {"path": path, "name": name, "bytes": _size([path]), "format": "gguf", "whole": whole}
    if "config.json" not in files:
        return
    for ending, kind in ((".safetensors", "safetensors"), (".bin", "pytorch")):
        paths = [os.path.join(folder, name) for name in files if name.endswith(ending)]
        # Small ones are adapters and states of something else.
        if paths and _size(paths) > 1 << 20:
            # Pointers, missing shards and files that are cut off look like a model by their names.
            whole = not model_problems(folder, files)
            yield {"path": folder, "name": _name(folder), "bytes": _size(paths), "format": kind, "whole": whole}
            return


def _parts(name: str, files: list[str]) -> list[str]:
    """The parts of a model that may be split: x-00001-of-00002.gguf."""
    return [one for one in files if (one[:-20], one[-14:]) == (name[:-20], name[-14:])]


def _name(folder: str) -> str:
    """PUBLISHER/NAME, as the last two parts of a path or a folder of a cache say."""
    cached = _CACHED.search(folder)
    if cached:
        return "{0}/{1}".format(*cached.groups())
    # ModelScope writes a dot in a name as three underscores.
    parts = folder.rstrip("/").replace("___", ".").split("/")
    return "/".join(parts[-2:])


def _size(paths: list[str]) -> int:
    total = 0
    for path in paths:
        try:
            total += os.stat(path).st_size
        except OSError:
            continue
    return total
