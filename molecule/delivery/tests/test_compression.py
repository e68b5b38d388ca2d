"""An archive of images in each form, and one without layers, loaded by this machine's engine: it takes what the table says, and nothing else."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import docker
import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle_compress as bundle_compress
from ansible_collections.baremetal.llm.plugins.module_utils import _image_layers as image_layers
from docker.errors import APIError, ImageLoadError, ImageNotFound

from tests.support import binaries

IMAGE = "llm-inspect/compressed:1"
CUT = "llm-inspect/cut"


@pytest.mark.parametrize("name", list(bundle_compress.COMPRESSIONS))
def test_the_engine_loads_what_the_table_says(name: str, tmp_path: Path) -> None:
    engine = docker.from_env()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        member = tarfile.TarInfo(f"hello-{name}")
        member.size = 100_000
        archive.addfile(member, io.BytesIO(bytes(100_000)))
    engine.api.import_image_from_data(content.getvalue(), repository=IMAGE.partition(":")[0], tag="1")
    plain, packed = tmp_path / "images.tar", tmp_path / "images"
    try:
        image = engine.images.get(IMAGE)
        plain.write_bytes(b"".join(image.save(named=True)))
        engine.images.remove(IMAGE)
        if name == "none":
            plain.rename(packed)
        else:
            bundle_compress.compress(str(plain), str(packed), name)
        version = engine.version()["Version"]
        with packed.open("rb") as stream:
            if bundle_compress.loads(name, version):
                assert [one.id for one in engine.images.load(stream)] == [image.id], version
            else:
                with pytest.raises((APIError, ImageLoadError)):
                    engine.images.load(stream)
    finally:
        try:
            engine.images.remove(IMAGE)
        except ImageNotFound:
            pass


def test_the_engine_loads_an_archive_without_the_layers_that_it_has(tmp_path: Path) -> None:
    """And refuses one without a layer that it lacks, upon these or upon others, so that nobody runs half an image."""
    engine = docker.from_env()
    base, old, new = (binaries.layer({f"cut-{name}": name.encode() * 9000}) for name in ("base", "old", "new"))
    saved, cut = tmp_path / "images.tar", tmp_path / "cut.tar"
    saved.write_bytes(
        binaries.saved({f"{CUT}:old": [base, old], f"{CUT}:new": [base, new], f"{CUT}:other": [new, old]})
    )
    images = {one.references[0]: one for one in image_layers.read_images(str(saved))}
    bundle_compress.compress(str(saved), str(tmp_path / "packed.tar"), "gzip")
    try:
        image_layers.write(str(saved), str(cut), [images[f"{CUT}:new"]], frozenset(images[f"{CUT}:old"].chains))
        with cut.open("rb") as stream, pytest.raises((APIError, ImageLoadError)):
            engine.images.load(stream)
        image_layers.write(str(tmp_path / "packed.tar"), str(cut), [images[f"{CUT}:old"]])
        with cut.open("rb") as stream:
            (loaded,) = engine.images.load(stream)
        there = frozenset(image_layers.chains(loaded.attrs["RootFS"]["Layers"]))
        assert there == set(images[f"{CUT}:old"].chains)
        image_layers.write(
            str(tmp_path / "packed.tar"), str(cut), [images[f"{CUT}:new"], images[f"{CUT}:other"]], there
        )
        assert len(image_layers.needed([images[f"{CUT}:new"]], there)) == 1
        with cut.open("rb") as stream:
            loads = engine.images.load(stream)
        assert {one.tags[0]: one.id for one in loads} == {
            name: "sha256:" + images[name].config.removesuffix(".json") for name in (f"{CUT}:new", f"{CUT}:other")
        }
    finally:
        for name in images:
            try:
                engine.images.remove(name)
            except ImageNotFound:
                pass
