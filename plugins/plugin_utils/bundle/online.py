# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What deployments without a bundle get from registries and hubs, decided before a host is touched: which image by which digest, which files with
which SHA-256 from which addresses.

It is written down like a bundle, in a folder of the controller with a manifest and a model's small files, so that everything that asks a bundle's
manifest finds the same here. The weights are not there: hosts fetch them from the addresses (``urls``) of their records.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import yaml
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    MANIFEST_NAME,
    SCHEMA,
    STATE_DIR,
    Record,
    fingerprint,
    sha256_of,
)
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_object, read_yaml
from ansible_collections.baremetal.llm.plugins.module_utils._model_check import WEIGHTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import fanout, registry
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.download import remote_size
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.fetch import PARALLEL, Fetching
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.files import write_text
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import Asked, File, Item
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.models import fetched_problems, local_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import (
    image_items,
    images_beside,
    model_items,
    split_source,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.sources import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import needed_models, source_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import is_online
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, message, reason

# What the controller keeps of a model: what planning reads, and whatever has no published checksum.
SMALL_BYTES = 16 << 20
IMAGES_NAME = "images.json"

Say = Callable[[str], None]


class OnlineError(Refused):
    """What registries and hubs do not have; the text has all of it."""


class Wanted(TypedDict):
    """What deployments need that have no bundle."""

    # Each with its ``reference`` and what is known of it.
    images: list[dict[str, object]]
    models: list[Item]
    wheels: NotRequired[list[Item]]
    problems: list[str]


def online_wanted(
    deployments: Mapping[str, DeploymentHosts],
    hostvars: Mapping[str, Mapping[str, object]],
    hub: str,
    sources: Mapping[str, str],
    lang: str = "en",
) -> Wanted:
    """``{images, models, wheels, problems}`` of the deployments that have no bundle: images as ``{reference}``, the others as items of a bundle."""
    mine = {name: one for name, one in deployments.items() if is_online(hostvars[one["head"]])}
    heads = [hostvars[one["head"]] for one in mine.values()]
    hosts = {host: hostvars[host] for one in mine.values() for host in one["hosts"]}
    problems: list[str] = []
    origins = {model: source_of(head, model) for head in heads for model in needed_models(head)}
    own = {model: origin.path for model, origin in origins.items() if origin.scheme == "controller"}
    items = model_items(heads, (), hub, {**sources, **own}, problems, lang)
    # A folder on the hosts, and what a program of theirs fetches, is nothing to ask for here.
    models = [item for item in items if origins[str(item["fields"]["model"])].scheme in ("", "controller")]
    images = [one for one in image_items(heads, (), images_beside(hosts, hostvars)) if one["reference"]] if mine else []
    # Of an image of the site's own, what it serves is known from here until a host has read it.
    said = {str(image["reference"]): image for head in heads for image in mappings(head.get("bundle_images"))}
    images = [{**one, **said.get(str(one["reference"]), {})} for one in images]
    passed_on = len(hosts) > 1 and any(
        one.get("llm_distribution", fanout.FANOUT) == fanout.FANOUT for one in hosts.values()
    )
    wheels = fanout.wheel_items() if passed_on else []
    return {"images": images, "models": models, "wheels": wheels, "problems": list(dict.fromkeys(problems))}


@dataclass(frozen=True)
class Registries:
    """Where images come from: mirrors by registry, and by registry who asks (``username``, ``password``)."""

    mirrors: Mapping[str, Sequence[str]]
    credentials: Mapping[str, Mapping[str, str]]


def learn(
    folder: str,
    wanted: Wanted,
    settings: Settings,
    registries: Registries,
    say: Say,
    update: bool = False,
    lang: str = "en",
) -> list[Record]:
    """Ask registries and hubs for what an earlier run did not find out, write the manifest, and return its records.

    OnlineError names everything that cannot be had: no image under this name, no model, files that a mirror lists and does not have.
    """
    problems: list[str | CodedError] = [*wanted["problems"]]
    known = {} if update else _read_images(folder)
    images: dict[str, dict[str, object]] = {}
    for one in wanted["images"]:
        reference = str(one["reference"])
        try:
            found = known.get(reference) or registry.resolve(
                reference, settings.opener, registries.mirrors, registries.credentials
            )
            images[reference] = {**one, **found}
        except CodedError as error:
            problems.append(error)
    fetching = Fetching(folder, settings, {}, say, lang)
    local: list[Record] = []
    for item in wanted["models"]:
        try:
            if split_source(item["source"])[0] == "":
                local += _local(item)
                continue
            fetching.ask([item], update)
            asked = [one for one in fetching.plan.values() if one["item"] == dict(item)]
            problems += _lacking(asked[0]["files"], settings) if asked and not asked[0].get("complete") else []
        except CodedError as error:
            problems.append(error)
        except OSError as error:
            problems.append(OnlineError("source_folder", source=item["source"], reason=error.strerror or error))
    if problems:
        raise OnlineError(
            "online_problems",
            problems="\n".join(reason(one, lang) if isinstance(one, CodedError) else one for one in problems),
        )
    fetching.lacking = [file for file in fetching.lacking if _is_kept(file)]
    fetching.bring()
    broken = fetched_problems(folder, fetching.plan.values(), _is_kept)
    if broken:
        raise OnlineError("online_problems", problems="\n".join(reason(error, lang) for error in broken))
    for each in fetching.plan.values():
        each["complete"] = True
    fetching.write_plan()
    records = [
        *_wheels(folder, wanted.get("wheels", ()), settings, say, lang),
        *(_image_record(reference, image) for reference, image in images.items()),
        *(_model_record(one, file) for one in fetching.plan.values() for file in one["files"]),
        *local,
    ]
    _write_images(folder, {**_read_images(folder), **images})
    write_text(os.path.join(folder, MANIFEST_NAME), _manifest(records))
    return records


def _wheels(folder: str, items: Sequence[Item], settings: Settings, say: Say, lang: str) -> list[Record]:
    """The records of what hosts pass files on with, fetched to this machine. Without an index of packages there are none, and hosts get copies."""
    fetching = Fetching(folder, settings, {}, say, lang)
    fetching.plan_path = os.path.join(folder, STATE_DIR, "wheels.json")
    try:
        fetching.ask(items, False)
        fetching.bring()
    except CodedError as error:
        say(message("online_no_wheels", lang, reason=reason(error, lang)))
        return []
    fetching.write_plan()
    return [
        {
            "path": file["path"],
            "kind": "python",
            "size": file["size"],
            "sha256": file["sha256"],
            **one["item"]["fields"],
        }
        for one in fetching.plan.values()
        for file in one["files"]
    ]


def add_contents(folder: str, images: Iterable[Mapping[str, object]]) -> None:
    """Note what was read in images on a host that pulled them: later plans know it from the start."""
    found = {str(image["reference"]): dict(image) for image in images}
    _write_images(folder, {**_read_images(folder), **found})
    path = os.path.join(folder, MANIFEST_NAME)
    with open(path, encoding="utf-8") as stream:
        records = read_yaml(stream.read())["files"]
    for record in records:
        if record["kind"] == "image":
            record["images"] = [found.get(image["reference"], image) for image in record["images"]]
    write_text(path, _manifest(records))


def _is_kept(file: File) -> bool:
    is_read = not file["path"].endswith(WEIGHTS) and (file.get("size") or 0) <= SMALL_BYTES
    return is_read or not file.get("sha256")


def _lacking(files: Sequence[File], settings: Settings) -> list[CodedError]:
    """The files that no address has, although it lists them. The small ones are fetched anyway."""

    def look(file: File) -> CodedError | None:
        wrong: CodedError | None = None
        for url in file["urls"]:
            try:
                size = remote_size(url, settings.opener)
            except CodedError as error:
                wrong = OnlineError("online_lacks", answer=error)
                continue
            if size in (None, file.get("size")):
                return None
            wrong = OnlineError("online_other_size", url=url, found=size, wanted=file.get("size"))
        return wrong

    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        return [error for error in pool.map(look, (file for file in files if not _is_kept(file))) if error]


def _local(item: Item) -> list[Record]:
    """The records of a model in a folder of the controller, from which it is copied."""
    source = os.path.expanduser(item["source"])
    files = local_model(item) if os.path.exists(source) else {}
    if not files:
        raise OnlineError("source_no_model", source=source, files="-")
    return [
        {
            "path": path,
            "kind": "model",
            "size": os.path.getsize(full),
            "sha256": _digest(os.path.realpath(full)),
            **item["fields"],
            "local": full,
        }
        for path, full in files.items()
    ]


_DIGESTS: dict[str, tuple[list[int], str]] = {}


def _digest(path: str) -> str:
    mark = fingerprint(path)
    if path not in _DIGESTS or _DIGESTS[path][0] != mark:
        _DIGESTS[path] = (mark, sha256_of(path))
    return _DIGESTS[path][1]


def _image_record(reference: str, image: Mapping[str, object]) -> Record:
    return {
        "path": f"images/{reference}",
        "kind": "image",
        "size": image["size"],
        "sha256": str(image["digest"]).removeprefix("sha256:"),
        # In the order in which they are read again.
        "images": [dict(sorted(image.items()))],
    }


def _model_record(one: Asked, file: File) -> Record:
    arrived = file.get("arrived")
    return {
        "path": file["path"],
        "kind": "model",
        "size": arrived["size"] if arrived else file["size"],
        "sha256": arrived["sha256"] if arrived else file["sha256"],
        **one["item"]["fields"],
        **one.get("fields", {}),
        "urls": list(file["urls"]),
        "auth": file.get("auth") or "",
    }


def _manifest(records: Sequence[Mapping[str, object]]) -> str:
    # What Ansible hands over are kinds of text of its own, which YAML does not know.
    plain = json.loads(json.dumps(list(records)))
    text: str = yaml.safe_dump({"schema": SCHEMA, "files": plain}, sort_keys=False, allow_unicode=True)
    return text


def _read_images(folder: str) -> dict[str, dict[str, object]]:
    return read_object(os.path.join(folder, STATE_DIR, IMAGES_NAME))


def _write_images(folder: str, images: Mapping[str, object]) -> None:
    write_text(os.path.join(folder, STATE_DIR, IMAGES_NAME), json.dumps(images, indent=1, sort_keys=True))
