"""The hash tree of BitTorrent v2, against the examples of its definition and against itself."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _pieces

BLOCK = _pieces.BLOCK_BYTES
PIECE = _pieces.SMALLEST_PIECE_BYTES


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def naive(leaves: list[bytes], width: int) -> bytes:
    """The root as BEP 52 defines it: leaves that are not there are zeros."""
    level = leaves + [bytes(32)] * (width - len(leaves))
    while len(level) > 1:
        level = [sha(level[at], level[at + 1]) for at in range(0, len(level), 2)]
    return level[0]


@pytest.mark.parametrize(
    "size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, PIECE, PIECE + 1, 3 * PIECE, 5 * PIECE + 12345]
)
def test_the_tree_is_that_of_the_definition(tmp_path: Path, size: int) -> None:
    content = bytes(at * 31 % 251 for at in range(4096)) * (size // 4096 + 1)
    content = content[:size]
    (tmp_path / "file").write_bytes(content)
    seen: list[int] = []
    found = _pieces.describe(str(tmp_path / "file"), seen.append)
    leaves = [sha(content[at : at + BLOCK]) for at in range(0, size, BLOCK)]
    width = 1
    while width < len(leaves):
        width *= 2
    assert (found["size"], found["sha256"], sum(seen)) == (size, hashlib.sha256(content).hexdigest(), size)
    assert found["root"] == naive(leaves, width).hex()
    layer = base64.b64decode(found["layer"])
    pieces = [content[at : at + PIECE] for at in range(0, size, PIECE)]
    assert len(layer) == (32 * len(pieces) if len(pieces) > 1 else 0)
    # Whoever gets a piece can tell whether it is right.
    assert [_pieces.piece_root(piece, size) for piece in pieces] == _pieces.piece_roots(found)
    broken = bytes([pieces[0][0] ^ 1]) + pieces[0][1:]
    assert _pieces.piece_root(broken, size) != _pieces.piece_roots(found)[0]


def test_pieces_are_as_small_as_their_number_allows() -> None:
    for size in (1, 1 << 20, 1 << 30, 5 << 30, 300 << 30):
        piece = _pieces.piece_bytes(size)
        assert piece & (piece - 1) == 0
        assert PIECE <= piece <= _pieces.LARGEST_PIECE_BYTES
        assert piece == _pieces.LARGEST_PIECE_BYTES or _pieces.piece_count(size) <= _pieces.MOST_PIECES


def test_the_name_on_the_wire_follows_from_the_secret(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    file = _pieces.describe(str(tmp_path / "file"))
    one, other = (_pieces.torrent("name", file, secret) for secret in ("a" * 32, "b" * 32))
    assert one != other
    assert one.startswith(b"d4:infod9:file treed4:named0:d6:lengthi100e11:pieces root32:")
    assert b"7:privatei1e" in one


def test_what_bencode_writes() -> None:
    assert _pieces.bencode({"b": [1, b"x"], "a": "é"}) == b"d1:a2:\xc3\xa91:bli1e1:xee"
