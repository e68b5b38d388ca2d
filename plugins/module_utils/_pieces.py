# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a swarm has to know of a file before it can pass on parts of it: the hash tree of BitTorrent v2, made with the standard library.

A file is a torrent of its own, so that each is complete, compared and placed while the next one still travels.
Source of the format: BEP 52, https://www.bittorrent.org/beps/bep_0052.html
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
from typing import Callable, Iterable, Mapping, Sequence, TypedDict

BLOCK_BYTES = 16 << 10
SMALLEST_PIECE_BYTES, LARGEST_PIECE_BYTES = 256 << 10, 16 << 20
# A piece is passed on when it is complete: small ones travel sooner, many cost more to keep account of.
MOST_PIECES = 4096
_NOTHING = bytes(32)


class Pieces(TypedDict):
    """What a file and each of its pieces is known by."""

    size: int
    sha256: str
    # The root of the tree of hashes, in base 16.
    root: str
    # The hash of each piece, as base64; empty where one piece is all.
    layer: str


def piece_bytes(size: int) -> int:
    """The size of the pieces of a file: a power of two."""
    piece = SMALLEST_PIECE_BYTES
    while piece < LARGEST_PIECE_BYTES and size > piece * MOST_PIECES:
        piece *= 2
    return piece


def piece_count(size: int) -> int:
    """How many pieces a file has."""
    return -(-size // piece_bytes(size))


def _root(hashes: Sequence[bytes], width: int, padding: bytes) -> bytes:
    """The root of a tree over ``width`` leaves, a power of two; leaves that are not there are ``padding``."""
    level = list(hashes)
    while width > 1:
        if len(level) % 2:
            level.append(padding)
        level = [hashlib.sha256(level[at] + level[at + 1]).digest() for at in range(0, len(level), 2)]
        padding = hashlib.sha256(padding + padding).digest()
        width //= 2
    return level[0] if level else padding


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def describe(path: str, add: Callable[[int], None] = lambda size: None) -> Pieces:
    """Read a file once.

    ``add`` is called with the bytes of each piece. OSError if the file cannot be read.
    """
    size = os.path.getsize(path)
    piece = piece_bytes(size)
    whole, layer = hashlib.sha256(), []
    read = 0
    with open(path, "rb", buffering=0) as stream:
        buffer = bytearray(piece)
        view = memoryview(buffer)
        while True:
            length = 0
            while length < piece:
                got = stream.readinto(view[length:])
                if not got:
                    break
                length += got
            if not length:
                break
            whole.update(view[:length])
            layer.append(piece_root(view[:length], size))
            read += length
            add(length)
    if read != size:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)
    padding = _root([], piece // BLOCK_BYTES, _NOTHING)
    root = layer[0] if len(layer) == 1 else _root(layer, _power_of_two(len(layer)), padding)
    return {
        "size": size,
        "sha256": whole.hexdigest(),
        "root": root.hex(),
        "layer": "" if size <= piece else base64.b64encode(b"".join(layer)).decode("ascii"),
    }


def piece_root(piece: bytes | memoryview, size: int) -> bytes:
    """What the layer of a file of this size has for a piece; for a file that is one piece, its root."""
    whole = piece_bytes(size)
    # A file that is one piece has a tree of its own blocks only.
    width = _power_of_two(-(-size // BLOCK_BYTES)) if size <= whole else whole // BLOCK_BYTES
    view = memoryview(piece)
    return _root(
        [hashlib.sha256(view[at : at + BLOCK_BYTES]).digest() for at in range(0, len(piece), BLOCK_BYTES)],
        width,
        _NOTHING,
    )


def piece_roots(file: Pieces) -> list[bytes]:
    """The hash of each piece of a file that was described."""
    layer = base64.b64decode(file["layer"])
    return [layer[at : at + 32] for at in range(0, len(layer), 32)] or [bytes.fromhex(file["root"])]


def bencode(value: object) -> bytes:
    """Numbers, bytes, text, lists and dicts, as BEP 3 writes them."""
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, str):
        value = value.encode("utf-8")
    if isinstance(value, bytes):
        return b"%d:%s" % (len(value), value)
    if isinstance(value, Mapping):
        pairs = sorted((key if isinstance(key, bytes) else key.encode("utf-8"), one) for key, one in value.items())
        return b"d" + b"".join(bencode(key) + bencode(one) for key, one in pairs) + b"e"
    if isinstance(value, Iterable):
        return b"l" + b"".join(bencode(one) for one in value) + b"e"
    raise TypeError("no such value in a torrent: {0!r}".format(value))


def torrent(name: str, file: Pieces, secret: str) -> bytes:
    """The metainfo of a file, under a name. Who does not know the secret of the run does not know what the torrent is called on the wire."""
    root = bytes.fromhex(file["root"])
    layer = base64.b64decode(file["layer"])
    info = {
        "file tree": {name: {"": {"length": file["size"], "pieces root": root}}},
        "meta version": 2,
        "name": name,
        "piece length": piece_bytes(file["size"]),
        "private": 1,
        "run": secret,
    }
    return bencode({"info": info, "piece layers": {root: layer} if layer else {}})
