# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bundle is to hold, from what is asked for to the files that are fetched. Sizes are bytes, paths are those below the bundle."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Item(TypedDict):
    """Something that the bundle has to hold: a file, a model, an environment, packages of a system."""

    # One of the manifest's.
    kind: str
    path: str
    # An address, or who is asked for what: huggingface:Qwen/Qwen2.5-14B-Instruct, apt:debian-12.
    source: str
    # What the manifest says of its files besides.
    fields: NotRequired[dict[str, object]]
    size: NotRequired[int]
    sha256: NotRequired[str]
    # As their package manager takes them.
    packages: NotRequired[list[str]]
    # Of a model, the parts that it has to have (weights, tokenizer), and patterns of the weights that are wanted.
    needs: NotRequired[dict[str, bool]]
    wanted: NotRequired[list[str]]
    # Of an environment: where packages are looked for, and the day after which no release counts.
    index_urls: NotRequired[list[str]]
    released_before: NotRequired[str]


class Arrived(TypedDict):
    """What a file was when it came, where nobody had published that."""

    size: int
    sha256: str


class File(TypedDict):
    """A file of the bundle. It has addresses or a content."""

    path: str
    urls: NotRequired[list[str]]
    content: NotRequired[str]
    # None where nobody says.
    size: NotRequired[int | None]
    sha256: NotRequired[str | None]
    # The hub whose token opens it.
    auth: NotRequired[str]
    # In which form it is packed anew.
    repack: NotRequired[str]
    arrived: NotRequired[Arrived]


class Answer(TypedDict):
    """What a source says of an item: its files, or the command that fills a folder with them."""

    files: NotRequired[list[File]]
    fields: NotRequired[dict[str, object]]
    command: NotRequired[list[str]]
    folder: NotRequired[str]
    # Whether the files were looked for at their addresses.
    complete: NotRequired[bool]


class Asked(Answer):
    """The same with the item."""

    item: Item


class Artefact(TypedDict):
    """A file for the manifest. ``source`` is where it lies on this machine, if it is not in the bundle yet."""

    path: str
    kind: str
    fields: NotRequired[dict[str, object]]
    source: NotRequired[str]
