# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment has served with on this host, the newest first, so that it can go back to the version before: offline, from any controller.

One file for each deployment, ``served.json`` in its folder: ``states``, each what the roles of its engine were given when a token came, and
``returned``, from which version the deployment went back to the newest, and why. ``begun`` is a version that a run has begun to bring, until a token
comes. What a state needs besides stays on the host while it is pinned: its
image, its Python environment, and the files of its models, which have a second name (a hard link) each below ``.kept`` beside the models.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
import time
from typing import Any, Callable, Iterator, Mapping, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._evidence import FORMAT, read_record
from ansible_collections.baremetal.llm.plugins.module_utils._private_file import write_private

NAME = "served.json"
KEPT = ".kept"
# The release of the engine, whichever that is, in a state.
RELEASE = "vllm_version"
# What people and the next run want to know of a state; the rest is what the roles are given.
SHOWN = ("version", "since", RELEASE, "image", "models")
# A tree that another deployment of the machine has just made is in no file of its own yet.
YOUNG_SECONDS = 3600


class Image(TypedDict):
    """The image of a state; empty texts where there is none."""

    reference: str
    id: str
    # Whether it stays on the host for a return.
    pinned: bool


class Model(TypedDict):
    """A model of a state."""

    model: str
    folder: str
    # The folder of its second names, empty where there is none.
    kept: str
    revision: str


class State(TypedDict):
    """A version that a deployment has served with."""

    version: str
    vllm_version: str
    # 2026-11-28T12:00:00Z
    since: str
    image: Image
    models: list[Model]
    # What the roles of the engine were given.
    section: dict[str, object]
    plan: dict[str, object]
    # The folder of its Python environment, empty for containers.
    environment: str
    # Digests of secrets that it was given.
    closed: dict[str, object]


class Served(TypedDict):
    """What a deployment has served with."""

    # The newest first.
    states: list[State]
    # When (``at``), from what (``version``, ``image``) and why (``reason``, empty where a person asked for it) it went back to the newest.
    returned: dict[str, str] | None
    # ``version`` and ``image`` that a run has begun to bring, and when (``at``).
    begun: dict[str, str] | None


def read_served(path: str) -> Served:
    """What the file says; no states where there is no such file, or one that somebody else could have written or that is not understood."""
    found = understood(read_record(path), is_state)
    return {"states": found["states"], "returned": found["returned"], "begun": found["begun"]}


def understood(content: object, is_right: Callable[[object], bool]) -> dict[str, Any]:
    """``{states, returned, begun}`` of what somebody else may have written; no states where one of them is not right."""
    content = content if isinstance(content, dict) else {}
    states = content.get("states", [])
    if not isinstance(states, list) or not all(map(is_right, states)):
        return {"states": [], "returned": None, "begun": None}
    returned, begun = content.get("returned"), content.get("begun")
    return {
        "states": states,
        "returned": returned if isinstance(returned, dict) else None,
        "begun": begun if _has(begun, str, "version", "image") else None,
    }


def is_state(state: object) -> bool:
    """Whether everybody who goes back, or frees space, finds in a state what is looked for there."""
    return is_shown(state) and _has(state, dict, "section", "plan")


def is_shown(state: object) -> bool:
    """The same of what the facts of a host say of a state."""
    return (
        isinstance(state, dict)
        and _has(state, str, "version", RELEASE, "since")
        and _has(state, dict, "image")
        and _has(state["image"], str, "reference", "id")
        and _has(state, list, "models")
        and all(_has(model, str, "model", "folder", "kept", "revision") for model in state["models"])
    )


def _has(value: object, kind: type, *names: str) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name in names)


def write_served(path: str, content: Mapping[str, object]) -> bool:
    """Write it in one step, for root only. Returns whether it is another one than before. Names stay in their order, in which files are made of them."""
    text = json.dumps({"format": FORMAT, **content}, indent=1) + "\n"
    if read_record(path) == json.loads(text):
        return False
    write_private(path, text)
    return True


def with_state(content: Served, state: State, images: int, models: int) -> Served:
    """The file's content once a token came from ``state``: of the states before it, ``images`` and ``models`` of them keep these.

    A version that served before is none that came after others.
    """
    states = content["states"]
    place = _place(states, state["version"])
    older = states if place is None else states[place + 1 :]
    newest: State = {**state, "since": states[0]["since"] if place == 0 else state["since"]}
    back = content["returned"] if place == 0 else None
    return {"states": _pinned([newest, *older], images, models), "returned": back, "begun": None}


def gone_back(content: Served, version: str, returned: dict[str, str]) -> Served:
    """The file's content once a token came from a version that served before. What came after it is none to go back to any more."""
    states = content["states"]
    kept = states[_place(states, version) or 0 :]
    return {"states": [{**kept[0], "since": returned["at"]}, *kept[1:]], "returned": returned, "begun": None}


def _place(states: Sequence[State], version: str) -> int | None:
    return next((index for index, each in enumerate(states) if each["version"] == version), None)


def _pinned(states: Sequence[State], images: int, models: int) -> list[State]:
    """As many of the states as are kept, each with what of it stays."""
    return [
        {
            **each,
            "image": {**each["image"], "pinned": index <= images},
            "models": [{**model, "kept": model["kept"] if index <= models else ""} for model in each["models"]],
        }
        for index, each in enumerate(states[: 1 + max(images, models, 0)])
    ]


def summary(content: Served) -> dict[str, object]:
    """What is no secret of it, and short."""
    states = [{name: state.get(name) for name in SHOWN} for state in content["states"]]
    return {"states": states, "returned": content["returned"], "begun": content["begun"]}


def served_files(host_dir: str) -> list[str]:
    """Those of the machine and of each of its deployments."""
    folder = glob.escape(host_dir)
    return sorted(glob.glob(os.path.join(folder, NAME)) + glob.glob(os.path.join(folder, "deployments", "*", NAME)))


def pins(host_dir: str) -> dict[str, list[str]]:
    """What has to stay for what serves and what may be returned to: ids of ``images``, folders below ``.kept`` (``models``), ``environments``."""
    states = [state for path in served_files(host_dir) for state in read_served(path)["states"]]
    images = {state["image"]["id"] for state in states if state["image"].get("pinned") and state["image"].get("id")}
    models = {model["kept"] for state in states for model in state["models"] if model.get("kept")}
    environments = {str(state.get("environment") or "") for state in states} - {""}
    return {"images": sorted(images), "models": sorted(models), "environments": sorted(environments)}


def _files(folder: str) -> Iterator[str]:
    """The regular files below a folder, by their paths in it."""
    for top, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(top, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, folder)


def _key(folder: str) -> str:
    """A digest of which files a folder holds: another revision has others in their places."""
    found = hashlib.sha256()
    for path in _files(folder):
        status = os.lstat(os.path.join(folder, path))
        found.update(
            "{0}\0{1}\0{2}\0{3}\n".format(path, status.st_ino, status.st_size, status.st_mtime_ns).encode(
                "utf-8", "surrogateescape"
            )
        )
    return found.hexdigest()[:12]


def keep_model(models_dir: str, folder: str) -> str:
    """Give every file of a model a second name below ``.kept``, which takes no space; the folder of these. Empty for a model that lies elsewhere
    (somebody else's), or on a disk that knows no second names."""
    if os.path.dirname(os.path.normpath(folder)) != os.path.normpath(models_dir) or not os.path.isdir(folder):
        return ""
    kept = os.path.join(models_dir, KEPT, "{0}-{1}".format(os.path.basename(folder), _key(folder)))
    if os.path.isdir(kept):
        return kept
    half = kept + ".half"
    shutil.rmtree(half, ignore_errors=True)
    try:
        for path in _files(folder):
            os.makedirs(os.path.dirname(os.path.join(half, path)), mode=0o755, exist_ok=True)
            os.link(os.path.join(folder, path), os.path.join(half, path))
        os.makedirs(half, mode=0o755, exist_ok=True)
        os.rename(half, kept)
    except OSError:
        shutil.rmtree(half, ignore_errors=True)
        return ""
    return kept


def put_back(kept: str, folder: str, dry: bool = False) -> bool:
    """Give the files of a model that were kept their names again, each in one step, and take the others away. Returns whether anything is another now."""
    wanted, there = list(_files(kept)), set(_files(folder))
    other = [
        path
        for path in wanted
        if path not in there or not os.path.samefile(os.path.join(kept, path), os.path.join(folder, path))
    ]
    gone = sorted(there - set(wanted))
    if not dry:
        for path in other:
            place = os.path.join(folder, path)
            os.makedirs(os.path.dirname(place), mode=0o755, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place + ".back")
            os.link(os.path.join(kept, path), place + ".back")
            os.replace(place + ".back", place)
        for path in gone:
            os.unlink(os.path.join(folder, path))
    return bool(other or gone)


def remove_unpinned(models_dir: str, pinned: Sequence[str]) -> list[str]:
    """Remove the folders of kept models that no state needs any more."""
    gone = []
    for kept in sorted(glob.glob(os.path.join(glob.escape(models_dir), KEPT, "*"))):
        if kept not in pinned and time.time() - os.lstat(kept).st_ctime > YOUNG_SECONDS:
            shutil.rmtree(kept, ignore_errors=True)
            gone.append(kept)
    return gone
