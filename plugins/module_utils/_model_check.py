# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a folder holds a whole model, as far as its files tell themselves: no checksum is needed, and of weights only their headers are read.

Whoever makes a bundle asks this before a byte is copied, and so does a host where a model lies already. Formats:
https://huggingface.co/docs/safetensors/index#format, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md,
https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md (pointers), and the cache of huggingface_hub
(https://huggingface.co/docs/huggingface_hub/guides/manage-cache).
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
from typing import BinaryIO, Callable, Container, Iterable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._coded import Coded, CodedError, coded
from ansible_collections.baremetal.llm.plugins.module_utils._content import load_json, read_json
from ansible_collections.baremetal.llm.plugins.module_utils._gguf import (
    GgufError,
    Header,
    file_problem,
    read_header,
    set_problems,
)

WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth")
# One of these says what the weights are; the last one that of an adapter.
ADAPTER = "adapter_config.json"
CONFIGS = ("config.json", "params.json", ADAPTER)
INDEX = ".safetensors.index.json"
_INDEXES = (INDEX, ".bin.index.json")
# What a model is made of; the rest of a repository is for people.
_MATTERS = (*WEIGHTS, ".json", ".jinja", ".model", ".txt", ".tiktoken", ".spm", ".py")
# Of these an empty one means nothing.
_MAY_BE_EMPTY = (".py", ".txt", ".jinja")

# The largest header is set by the reader of safetensors.
_LARGEST_HEADER = 100_000_000
_SMALL_JSON = 4 << 20
_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?size (\d+)")
_PAGE = re.compile(rb"\s*<(!doctype|html|\?xml|head|body)\b", re.I)
_NUMBERED = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.(?:safetensors|bin|gguf|pt))")
_VOCABULARY = re.compile(
    r"(^|/)(tokenizer[-_.](?!config\.json$)[^/]*|[^/]*vocab[^/]*|[^/]*\.(model|tiktoken|spm)|tekken\.json)$"
)
# The names that programs give to what they have not finished: huggingface_hub, aria2, browsers and wget, rclone, rsync.
_UNFINISHED = re.compile(
    r"\.?(.+?)(?:\.[0-9a-f]{8})?\.(?:incomplete|aria2|part|partial|crdownload|download|tmp|filepart)$"
)
_RSYNC = re.compile(r"\.(.+)\.[A-Za-z0-9]{6}$")
# modelscope puts what it fetches here first.
_MODELSCOPE = "._____temp/"


class ModelError(CodedError):
    """A model that cannot be used."""


def is_part(name: str) -> bool:
    """Whether a file serves a model. Mistral's tokenizers have a version at the end of their names: tokenizer.model.v3."""
    return name.endswith(_MATTERS) or os.path.basename(name).startswith("tokenizer.")


def model_problems(
    folder: str,
    names: Iterable[str],
    weights: bool = True,
    tokenizer: bool = False,
    leftovers: Sequence[str] = (),
    elsewhere: Container[str] = (),
) -> list[Coded]:
    """What is wrong with the files of a model, all of it: coded messages, none for a whole model.

    ``names`` are its files below the folder; ``weights`` and ``tokenizer`` say whether it has to have some, ``leftovers`` what ``unfinished``
    found beside them, and ``elsewhere`` which of the files are not on this machine yet.
    """
    there = {name for name in names if is_part(name)}
    snapshots = os.path.join(folder, "snapshots")
    if os.path.isdir(snapshots) and os.path.isdir(os.path.join(folder, "blobs")):
        return [coded("model_cache", path=folder, snapshot=_snapshot(folder, snapshots))]
    # Where weights are there as safetensors, others are not read.
    is_safe = any(name.endswith(".safetensors") for name in there)
    read = {
        name
        for name in there
        if not is_safe or name.endswith(".safetensors") or not name.endswith((*WEIGHTS, ".bin.index.json"))
    }
    on_disk = sorted(name for name in read if name not in elsewhere)
    found = _lacking(read, {**numbered(read), **_indexed(folder, on_disk)})
    for name in on_disk:
        wrong = _file_problem(os.path.join(folder, name), name)
        found += [wrong] if wrong else []
    found += [] if found else _gguf_problems(folder, on_disk)
    if weights and not any(name.endswith(WEIGHTS) for name in there):
        found.append(coded("model_no_weights", path=folder))
    elif weights and there.isdisjoint(CONFIGS) and not any(name.endswith(".gguf") for name in there):
        found.append(coded("model_no_config", path=folder))
    own = any(name.endswith(".gguf") for name in there) or ADAPTER in there or any(map(_VOCABULARY.search, there))
    if tokenizer and not own:
        found.append(coded("model_no_tokenizer", path=folder))
    return found + _unfinished_problems(there, leftovers, bool(found))


def require_model(
    folder: str,
    names: Iterable[str],
    weights: bool,
    tokenizer: bool,
    name: str = "",
    said: str = "",
    elsewhere: Container[str] = (),
) -> None:
    """Refuse a model in a folder that is not whole: ModelError with every file that is wrong, why, and from where it is fetched. ``name`` is what
    the model is called, and ``said`` how people named the folder."""
    names = set(names)
    left = [] if os.path.isfile(said) else unfinished(folder)
    problems = model_problems(folder, names, weights, tokenizer, left, elsewhere)
    if problems:
        source = origin_of(folder) or name or coded("model_origin_unknown")
        raise ModelError("model_not_whole", path=said or folder, problems=problems, source=source)


def origin_of(folder: str) -> str:
    """From where a folder was filled, as a clone or a hub's cache tells; empty if nothing does. No user or password of an address."""
    cached = re.search(r"/models--([^/]+)--([^/]+)(/|$)", folder)
    if cached:
        return "{0}/{1}".format(*cached.groups())
    try:
        with open(os.path.join(folder, ".git/config"), encoding="utf-8", errors="replace") as stream:
            url = re.search(r"^\s*url\s*=\s*(\S+)", stream.read(1 << 16), re.MULTILINE)
    except OSError:
        return ""
    return re.sub(r"//[^/@]*@", "//", url.group(1)) if url else ""


def unfinished(folder: str) -> list[str]:
    """Files below a folder that programs leave while they fetch, hidden ones included; paths below the folder."""
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one != ".git"]
        below = os.path.relpath(root, folder)
        for name in names:
            path = name if below == "." else below + "/" + name
            if _MODELSCOPE in path or _UNFINISHED.match(name) or _RSYNC.match(name):
                found.append(path)
    return sorted(found)


def _unfinished_problems(there: set[str], leftovers: Iterable[str], is_broken: bool) -> list[Coded]:
    """Of what is left over that of which the model lacks the file. What nobody can tell is only named beside other problems."""
    found = []
    for path in leftovers:
        if _MODELSCOPE in path:
            target = path.partition(_MODELSCOPE)[2]
        else:
            head, name = os.path.split(path)
            match = _UNFINISHED.match(name) or _RSYNC.match(name)
            target = os.path.join(head, match.group(1)) if match else ""
        # A file of aria2 says of the one beside it that parts of it are missing.
        is_lacking = is_part(target) and (target not in there or path.endswith(".aria2"))
        if is_lacking or (is_broken and path.startswith(".") and target not in there):
            found.append(coded("model_unfinished", path=path))
    return found


def _snapshot(folder: str, snapshots: str) -> str:
    """The folder of a hub's cache that is meant: of what 'main' was when it was fetched, else all that there are."""
    try:
        with open(os.path.join(folder, "refs/main"), encoding="utf-8") as stream:
            revision = stream.read(100).strip()
        if revision and os.path.isdir(os.path.join(snapshots, revision)):
            return os.path.join(snapshots, revision)
    except (OSError, ValueError):
        pass
    return ", ".join(os.path.join(snapshots, name) for name in sorted(os.listdir(snapshots))) or "-"


def numbered(names: Iterable[str]) -> dict[str, str]:
    """The files that others name by their numbers, with one that does: of a-00001-of-00002.safetensors there are two."""
    named: dict[str, str] = {}
    for name in sorted(names):
        match = _NUMBERED.fullmatch(name)
        if match:
            prefix, _number, total, suffix = match.groups()
            for number in range(1, min(int(total), 10_000) + 1):
                named.setdefault("{0}-{1:05}-of-{2}{3}".format(prefix, number, total, suffix), name)
    return named


def _indexed(folder: str, names: Iterable[str]) -> dict[str, str]:
    """The files that indexes name, with the index that does."""
    named: dict[str, str] = {}
    for name in names:
        if name.endswith(_INDEXES):
            try:
                shards = shards_of(os.path.join(folder, name))
            except (OSError, ValueError):
                continue  # the file's own problem
            named.update({os.path.join(os.path.dirname(name), shard): name for shard in shards})
    return named


def _lacking(there: Container[str], named: Mapping[str, str]) -> list[Coded]:
    lacking: dict[str, list[str]] = {}
    for shard, by in sorted(named.items()):
        if shard not in there:
            lacking.setdefault(by, []).append(shard)
    return [coded("model_lacks", path=by, files=", ".join(shards)) for by, shards in sorted(lacking.items())]


def gaps(names: Iterable[str]) -> list[Coded]:
    """The same by names alone, before anything is fetched: which files a numbering leaves out."""
    there = set(names)
    return _lacking(there, numbered(there))


def shards_of(index: str) -> set[str]:
    """The files that an index names. OSError where it cannot be read, ValueError where it is none."""
    try:
        with open(index, encoding="utf-8") as stream:
            return {str(name) for name in load_json(stream)["weight_map"].values()}
    except (KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(index) from error


def _file_problem(full: str, name: str) -> Coded | None:
    """What is wrong with one file; None for nothing."""
    try:
        size = os.path.getsize(full)
        with open(full, "rb") as stream:
            start = stream.read(1024)
            if not start:
                return None if name.endswith(_MAY_BE_EMPTY) else coded("model_empty", path=name)
            pointer = _POINTER.match(start)
            if pointer:
                return coded("model_pointer", path=name, found=size, wanted=int(pointer.group(1)))
            if _PAGE.match(start) and not name.endswith(_MAY_BE_EMPTY):
                return coded("model_page", path=name, found=size)
            stream.seek(0)
            check = next((check for ending, check in _CHECKS if name.endswith(ending)), None)
            return check(stream, name, size) if check else None
    except FileNotFoundError:
        target = os.readlink(full) if os.path.islink(full) else full
        return coded("model_link", path=name, target=target)
    except OSError as error:
        return coded("model_unreadable", path=name, reason=error.strerror or error)


def _length(name: str, found: int, wanted: int) -> Coded | None:
    return None if found == wanted else coded("model_cut_off", path=name, found=found, wanted=wanted)


def _json_problem(stream: BinaryIO, name: str, size: int) -> Coded | None:
    try:
        if name.endswith(_INDEXES):
            shards_of(stream.name)
        elif size <= _SMALL_JSON:
            read_json(stream.read().decode("utf-8-sig"))
        else:
            # A vocabulary of many megabytes: one that is cut off does not end like this.
            stream.seek(size - 64)
            if not stream.read().rstrip().endswith((b"}", b"]")):
                raise ValueError(name)
    except ValueError:
        is_index = name.endswith(_INDEXES)
        return coded("model_no_index", path=name) if is_index else coded("model_no_json", path=name, found=size)
    return None


def _safetensors_problem(stream: BinaryIO, name: str, size: int) -> Coded | None:
    try:
        [length] = struct.unpack("<Q", stream.read(8))
        if length > _LARGEST_HEADER:
            raise ValueError(length)
        if 8 + length > size:
            return coded("model_cut_off", path=name, found=size, wanted=8 + length)
        header = read_json(stream.read(length))
        end = max((entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"), default=0)
        return _length(name, size, 8 + length + end)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error, RecursionError):
        return coded("model_no_safetensors", path=name)


def _torch_problem(stream: BinaryIO, name: str, size: int) -> Coded | None:
    """What torch writes is a zip archive, whose list is at its end."""
    if stream.read(4) != b"PK\x03\x04" or zipfile.is_zipfile(stream):
        return None
    return coded("model_no_end", path=name, found=size)


def _gguf_problems(folder: str, names: Iterable[str]) -> list[Coded]:
    """What is wrong between GGUF files that are parts of one model, each of which is whole."""
    models: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match and match.group(4) == ".gguf":
            prefix, number, count, _ending = match.groups()
            models.setdefault((prefix, count), {})[name] = (int(number), int(count))
    found = []
    for numbers in models.values():
        try:
            found += set_problems({name: _gguf_header(folder, name) for name in numbers}, numbers)
        except (OSError, GgufError):
            continue  # changed since it was looked at a moment ago
    return found


def _gguf_header(folder: str, name: str) -> Header:
    full = os.path.join(folder, name)
    with open(full, "rb") as stream:
        return read_header(stream, os.path.getsize(full), name)


_CHECKS: tuple[tuple[str, Callable[[BinaryIO, str, int], Coded | None]], ...] = (
    (".safetensors", _safetensors_problem),
    (".gguf", file_problem),
    (".json", _json_problem),
    (".bin", _torch_problem),
    (".pt", _torch_problem),
    (".pth", _torch_problem),
)
