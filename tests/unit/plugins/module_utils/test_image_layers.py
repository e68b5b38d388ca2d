"""Archives of images written anew: what each image needs, without what is there."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _image_layers as image_layers

from tests.support import binaries as make

BASE, MIDDLE, OLD, NEW = (make.layer({name: name.encode() * 3000}) for name in ("base", "middle", "old", "new"))
IMAGES = {"vllm:1": [BASE, MIDDLE, OLD], "vllm:2": [BASE, MIDDLE, NEW], "grafana:1": [BASE, OLD]}


def digests(*layers: bytes) -> list[str]:
    return ["sha256:" + hashlib.sha256(one).hexdigest() for one in layers]


def held(path: Path) -> dict[str, bytes]:
    with tarfile.open(path, "r:") as archive:
        return {one.name: archive.extractfile(one).read() for one in archive.getmembers()}  # type: ignore[union-attr]


@pytest.fixture(params=[False, True], ids=["shared", "linked"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "images.tar"
    path.write_bytes(make.saved(IMAGES, linked=request.param))
    return path


def test_a_layer_is_known_with_those_below_it() -> None:
    """Figures of the specification's own words: the first is the content's, each next the SHA-256 of both."""
    first, second = digests(BASE, MIDDLE)
    both = "sha256:" + hashlib.sha256(f"{first} {second}".encode()).hexdigest()
    assert image_layers.chains([first, second]) == [first, both]
    assert image_layers.chains([second, first])[1] != both
    assert image_layers.chains([]) == []


def test_what_is_written_has_each_layer_once_and_no_others(source: Path, tmp_path: Path) -> None:
    images = image_layers.read_images(str(source))
    assert [one.references for one in images] == [[name] for name in IMAGES]
    target = tmp_path / "cut/images.tar"
    there = frozenset(image_layers.chains(digests(BASE, MIDDLE)))
    image_layers.write(str(source), str(target), [images[1]], there)
    bodies = list(held(target).values())
    assert NEW in bodies
    assert not {BASE, MIDDLE, OLD}.intersection(bodies)
    size = image_layers.size_of([images[1]], there)
    assert abs(size - target.stat().st_size) < 1 << 13


def test_a_layer_above_others_is_needed_although_its_content_is_there(source: Path) -> None:
    """grafana:1 has OLD upon BASE, which no host with vllm:1 has like that."""
    images = image_layers.read_images(str(source))
    there = frozenset(image_layers.chains(digests(BASE, MIDDLE, OLD)))
    needed = list(image_layers.needed([images[2]], there))
    assert len(needed) == 1
    assert held(source)[needed[0]] == OLD


def test_layers_are_compressed_and_compressed_ones_are_left_alone(tmp_path: Path) -> None:
    packed = gzip.compress(MIDDLE, mtime=0)
    source, target = tmp_path / "images.tar", tmp_path / "images.gzip.tar"
    source.write_bytes(make.saved({"vllm:1": [BASE, packed]}))

    def wrap(out: object) -> gzip.GzipFile:
        return gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0)  # type: ignore[arg-type]

    said: list[int] = []
    image_layers.write(str(source), str(target), image_layers.read_images(str(source)), wrap=wrap, tell=said.append)
    bodies = list(held(target).values())
    assert packed in bodies
    assert gzip.compress(BASE, mtime=0)[10:] in [body[10:] for body in bodies]
    assert sum(said) == len(BASE) + len(packed)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x" * 2000,
        gzip.compress(make.saved(IMAGES)),
        make.layer({"manifest.json": b"no list"}),
        make.layer({"manifest.json": b'[{"Config": "absent.json", "Layers": []}]'}),
        make.layer({"manifest.json": b'[{"Config": 7, "Layers": []}]'}),
        make.layer({"manifest.json": b'[{"Config": "c", "Layers": ["../../etc/passwd"]}]', "c": b"{}"}),
        make.archive([BASE], layout="oci"),
    ],
    ids=["empty", "noise", "packed", "no list", "no config", "config is a number", "outside", "oci"],
)
def test_other_archives_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "images.tar"
    path.write_bytes(content)
    with pytest.raises(image_layers.ArchiveError):
        image_layers.read_images(str(path))


def test_a_name_that_is_too_long_keeps_its_header(tmp_path: Path) -> None:
    """A header of several blocks is written once the size is known, into the same blocks."""
    name = "a" * 300
    out = io.BytesIO()
    image_layers._add(out, name, io.BytesIO(BASE))
    out.write(bytes(1024))
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as archive:
        (member,) = archive.getmembers()
        assert member.name == name
        assert archive.extractfile(member).read() == BASE  # type: ignore[union-attr]
