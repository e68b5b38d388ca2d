"""In which form the archive of images travels, and that it is the same archive when it arrives."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _bundle_compress as bundle_compress
from ansible_collections.baremetal.llm.plugins.module_utils._image_archive import read_archive

from tests.support import binaries as make

ARCHIVE = make.archive([make.layer(make.vllm_files(make.library(["sm_70"]), make.library(["sm_70"])))])


@pytest.mark.parametrize(
    ("engines", "best"),
    [
        (["28.5.1", "23.0.0"], "zstd"),
        (["28.5.1", "20.10.24"], "gzip"),
        (["20.10.24+dfsg1"], "gzip"),
        (["28.5.1", ""], "gzip"),  # one that comes from elsewhere may be of any age
        (["5:27.5.1-1~debian.12~bookworm"[2:]], "zstd"),
    ],
)
def test_the_best_that_every_engine_takes(engines: list[str], best: str) -> None:
    assert bundle_compress.choose(engines) == best


def test_without_a_writer_of_zstd_it_is_gzip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_compress, "_zstd", lambda: None)
    assert bundle_compress.choose(["28.5.1"]) == "gzip"


@pytest.mark.parametrize("name", ["zstd", "gzip"])
def test_there_and_back(name: str, tmp_path: Path) -> None:
    source, target = tmp_path / "images.tar", tmp_path / "images/images.x"
    source.write_bytes(ARCHIVE)
    bundle_compress.compress(str(source), str(target), name)
    assert target.stat().st_size < len(ARCHIVE) / 2
    with target.open("rb") as stream:
        assert read_archive(stream) == read_archive(io.BytesIO(ARCHIVE))
    assert [path.name for path in target.parent.iterdir()] == ["images.x"]
    first = target.read_bytes()
    bundle_compress.compress(str(source), str(target), name)
    assert target.read_bytes() == first, "the same archive gives the same file"


def test_what_fails_leaves_no_archive(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        bundle_compress.compress(str(tmp_path / "absent"), str(tmp_path / "images.x"), "gzip")
    assert not (tmp_path / "images.x").exists()
