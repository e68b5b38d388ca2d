"""An archive of images in each form, loaded by this machine's engine: it takes what the table says, and nothing else."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import docker
import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle_compress as bundle_compress
from docker.errors import APIError, ImageLoadError, ImageNotFound

IMAGE = "llm-inspect/compressed:1"


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
