"""The reader of image archives: every layout, layers over layers, and archives that lie."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from ansible_collections.baremetal.llm.plugins.module_utils import _image_archive as image_archive
from ansible_collections.baremetal.llm.plugins.module_utils._image_archive import read_archive
from ansible_collections.baremetal.llm.plugins.module_utils._image_layers import ArchiveError
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.image_report import report
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import binaries as make
from tests.support.messages import refused

DATA = Path(__file__).parents[3] / "data" / "cuda"
PACKAGES = "usr/local/lib/python3.12/dist-packages"
VLLM, TORCH = make.library(["sm_70", "sm_80"], times=3), make.library(["sm_70", "sm_90"], times=2)
FILES = make.vllm_files(VLLM, TORCH)


class OnlyForward(io.BytesIO):
    """A pipe."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_where: int) -> int:
        raise AssertionError("went elsewhere")


def read(content: bytes) -> list[dict[str, Any]]:
    return read_archive(io.BytesIO(content))


def one(*layers: bytes, **more: Any) -> dict[str, Any]:
    (image,) = read(make.archive(layers, **more))
    return image


@pytest.mark.parametrize("layout", ["docker", "both", "oci"])
@pytest.mark.parametrize("layer", [bytes, lambda layer: gzip.compress(layer, 1)], ids=["tar", "gzip"])
@pytest.mark.parametrize("whole", [bytes, lambda whole: gzip.compress(whole, 1)], ids=["plain", "compressed"])
@pytest.mark.parametrize("stream", [io.BytesIO, OnlyForward])
def test_every_layout_and_compression(layout: str, layer: Any, whole: Any, stream: Any) -> None:
    content = whole(make.archive([layer(make.layer(FILES)), layer(make.layer({}))], layout=layout))
    (image,) = read_archive(stream(content))
    assert image["references"] == ["vllm/vllm-openai:v0.8.5.post1"]
    assert image["id"].startswith("sha256:")
    assert image["vllm_version"] == "0.8.5.post1"
    assert image["torch_version"] == "2.6.0+cu124"
    assert image["cuda_version"] == "12.4"
    assert image["python_version"] == "3.12"
    assert image["driver_minimum"] == "525.60.13"
    assert image["compute_capabilities"] == ["7.0"]
    assert image["libraries"]["vllm"] == {
        "containers": 3,
        "architectures": {"sm_70": 3, "sm_80": 3},
        "built_for": ["sm_70", "sm_80"],
    }


def test_zstd_is_read_where_there_is_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = b"\x28\xb5\x2f\xfd" + make.layer(FILES)
    monkeypatch.setattr(image_archive, "_zstd", lambda: None)
    with refused(ArchiveError, "install the Python library zstandard"):
        one(layer)
    # What a reader has to do, not how: here it takes away the first bytes.
    monkeypatch.setattr(image_archive, "_zstd", lambda: lambda stream: io.BytesIO(stream.read(len(layer))[4:]))
    assert one(layer)["vllm_version"] == "0.8.5.post1"


def test_real_zstd() -> None:
    image = one(zstandard.ZstdCompressor().compress(make.layer(FILES)))
    assert image["compute_capabilities"] == ["7.0"]


def test_the_compiler_s_own_files() -> None:
    image = one(make.layer(make.vllm_files((DATA / "many.o").read_bytes(), (DATA / "volta.o").read_bytes())))
    assert image["libraries"]["vllm"]["built_for"] == ["sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120", "compute_120"]
    assert image["libraries"]["torch"]["built_for"] == ["sm_70"]
    assert image["compute_capabilities"] == ["7.5"], "served by 7.0 of torch and 7.5 of vLLM"


@pytest.mark.parametrize(
    "upper",
    [
        {PACKAGES + "/vllm/.wh._C.abi3.so": None},
        {PACKAGES + "/.wh.vllm": None},
        {"usr/local/.wh.lib": None},
        {PACKAGES + "/vllm/.wh..wh..opq": None},
        {".wh..wh..opq": None},
    ],
)
def test_what_an_upper_layer_removes_does_not_count(upper: dict[str, bytes | None]) -> None:
    assert "vllm" in one(make.layer(FILES))["libraries"]
    image = one(make.layer(FILES), make.layer(upper))
    assert "vllm" not in image["libraries"]
    assert "compute_capabilities" not in image


def test_a_layer_with_an_opaque_folder_keeps_its_own_files() -> None:
    replaced = {PACKAGES + "/vllm/.wh..wh..opq": None, PACKAGES + "/vllm/_C.abi3.so": make.library(["sm_90"])}
    assert one(make.layer(FILES), make.layer(replaced))["libraries"]["vllm"]["built_for"] == ["sm_90"]


def test_a_removed_neighbour_does_not_matter() -> None:
    upper = {PACKAGES + "/.wh.vll": None, "usr/local/lib/.wh.python3.1": None}
    assert "vllm" in one(make.layer(FILES), make.layer(upper))["libraries"]


def test_an_upper_layer_replaces() -> None:
    upper = {"./" + PACKAGES + "/vllm/_C.abi3.so": make.library(["sm_75"])}
    assert one(make.layer(FILES), make.layer(upper))["libraries"]["vllm"]["built_for"] == ["sm_75"]
    assert one(make.layer(upper), make.layer(FILES))["libraries"]["vllm"]["built_for"] == ["sm_70", "sm_80"]


def test_several_files_of_vllm_and_the_libraries_beside_it() -> None:
    more = {
        PACKAGES + "/vllm/_C_stable_libtorch.abi3.so": make.library(["sm_90"]),
        PACKAGES + "/vllm/_moe_C.abi3.so": make.library(["sm_80"]),
        PACKAGES + "/vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so": make.library(["sm_90a"]),
        PACKAGES + "/xformers/_C.so": make.library(["sm_80"]),
        PACKAGES + "/flashinfer_cubin/cubins/abc/fmha.cubin": make.cubin(100, 8),
        PACKAGES + "/torch/lib/libtorch_cpu.so": b"is not looked at",
        PACKAGES + "/ray-2.43.0.dist-info/METADATA": make.metadata("ray", "2.43.0"),
        PACKAGES + "/flashinfer_python-0.4.1.dist-info/METADATA": make.metadata("flashinfer-python", "0.4.1"),
        PACKAGES + "/numpy-2.0.dist-info/METADATA": make.metadata("numpy", "2.0"),
    }
    image = one(make.layer({**FILES, **more}))
    assert image["libraries"]["vllm"]["containers"] == 4
    assert {
        name: entry["built_for"] for name, entry in image["libraries"].items() if name not in ("vllm", "torch")
    } == {
        "vllm_moe": ["sm_80"],
        "vllm_flash_attn": ["sm_90a"],
        "xformers": ["sm_80"],
        "flashinfer": ["sm_100"],
    }
    assert image["compute_capabilities"] == ["7.0", "9.0"], "what the others hold does not matter"
    assert (image["ray_version"], image["flashinfer_version"]) == ("2.43.0", "0.4.1")
    assert "numpy_version" not in image


def test_an_image_without_cuda() -> None:
    files = {PACKAGES + "/vllm-0.32.0+cpu.dist-info/METADATA": make.metadata("vllm", "0.32.0+cpu")}
    image = one(make.layer(files), environment=["PATH=/bin", "CUDA_VERSION=12.4.1", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"])
    assert image["libraries"] == {}
    assert "compute_capabilities" not in image
    assert image["cuda_version"] == "12.4.1", "of the environment, where torch does not say"
    assert image["driver_requirement"] == "cuda>=12.4"


def test_hard_links_and_layers_by_link() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, content in {"x/python3.12/site-packages/vllm/_C.abi3.so": VLLM, "layer": TORCH}.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("y/vllm/_C_other.so")
        link.type, link.linkname = tarfile.LNKTYPE, "x/python3.12/site-packages/vllm/_C.abi3.so"
        archive.addfile(link)
    assert one(out.getvalue())["libraries"]["vllm"]["containers"] == 6

    # Engines before 25 wrote a layer that two images share once, and a link to it.
    config = b"{}"
    parts = io.BytesIO()
    with tarfile.open(fileobj=parts, mode="w") as archive:
        manifest = json.dumps(
            [{"Config": "c.json", "RepoTags": None, "Layers": ["a/layer.tar", "b/layer.tar"]}]
        ).encode()
        for path, content in {"a/layer.tar": make.layer(FILES), "c.json": config, "manifest.json": manifest}.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("b/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../a/layer.tar"
        archive.addfile(link)
    (image,) = read(parts.getvalue())
    assert image["references"] == []
    assert image["vllm_version"] == "0.8.5.post1"


LAYER = make.layer(FILES)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "damaged or cut off"),
        (b"no archive at all" * 100, "damaged or cut off"),
        (make.layer({"a": b"b"}), "neither manifest.json nor index.json"),
        (make.layer({"manifest.json": b"[{]"}), "manifest.json is no JSON"),
        (make.layer({"manifest.json": b'[{"Layers": []}]'}), "list of images is malformed"),
        (make.layer({"manifest.json": b'[{"Config": "c.json", "Layers": []}]'}), "c.json is missing"),
        (
            make.layer({"manifest.json": b'[{"Config": "c.json", "Layers": ["l"]}]', "c.json": b"{}"}),
            "the layer l is missing",
        ),
        (make.layer({"index.json": b'{"manifests": [1]}'}), "list of images is malformed"),
        (make.archive([LAYER])[:-30000], "damaged or cut off"),
        (make.archive([gzip.compress(LAYER)[:-40]]), "layer.tar is damaged or cut off"),
        (make.archive([make.layer({**FILES, PACKAGES + "/vllm/_C.abi3.so": b"text"})]), "_C.abi3.so is no ELF file"),
    ],
)
def test_an_archive_that_cannot_be_read_is_refused_and_the_part_named(content: bytes, said: str) -> None:
    with refused(ArchiveError, said):
        read(content)


def test_a_header_without_end_costs_no_memory() -> None:
    member = tarfile.TarInfo("././@PaxHeader")
    member.type, member.size = tarfile.XHDTYPE, 1 << 35
    content = member.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)
    with make.at_most(4 << 20), refused(ArchiveError, "longer than"):
        read(content)


def test_a_large_file_costs_no_memory() -> None:
    large = make.elf(bytes(64 << 20) + make.container(make.entry("sm_70", b"payload.")))
    content = make.archive([gzip.compress(make.layer({PACKAGES + "/vllm/_C.abi3.so": large}), 1)])
    del large
    with make.at_most(12 << 20):
        (image,) = read(content)
    assert image["libraries"]["vllm"]["built_for"] == ["sm_70"]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(), st.integers(1, 8), st.booleans())
def test_damage_never_ends_in_anything_but_an_answer_or_a_refusal(seed: int, times: int, compressed: bool) -> None:
    chance = random.Random(seed)
    layer = gzip.compress(LAYER, 1) if compressed else LAYER
    content = bytearray(make.archive([layer], layout=chance.choice(["docker", "both", "oci"])))
    for _time in range(times):
        content[chance.randrange(len(content))] = chance.randrange(256)
    if chance.random() < 0.3:
        del content[chance.randrange(len(content)) :]
    try:
        assert isinstance(read(bytes(content)), list)
    except ArchiveError:
        pass


RECORD = {"reference": "vllm/vllm-openai:v0.8.5.post1", "id": "sha256:1"}


def test_a_record_is_completed_with_what_was_found() -> None:
    (image,) = image_archive.complete([{**RECORD, "compute_capabilities": ["9.0"]}], [one(make.layer(FILES))])
    assert image["contents"]["libraries"]["vllm"]["containers"] == 3
    assert (image["vllm_version"], image["driver_minimum"]) == ("0.8.5.post1", "525.60.13")
    assert image["id"] == "sha256:1", "as the engine calls it"
    assert image["compute_capabilities"] == ["7.0"], "what it holds counts more than what the inventory says"


def test_what_the_inventory_says_stands_where_nothing_contradicts_it() -> None:
    files = {PACKAGES + "/vllm-0.32.0+cpu.dist-info/METADATA": make.metadata("vllm", "0.32.0+cpu")}
    said = {**RECORD, "vllm_version": "0.32.0", "ray_version": None, "compute_capabilities": ["7.0"]}
    (image,) = image_archive.complete([said], [one(make.layer(files))])
    assert (image["vllm_version"], image["contents"]["vllm_version"]) == ("0.32.0", "0.32.0+cpu")
    assert image["compute_capabilities"] == ["7.0"]
    assert "ray_version" not in image


def test_a_record_of_an_image_that_is_not_there_is_refused() -> None:
    with refused(ArchiveError, "the image mine:1 is not in it"):
        image_archive.complete([{"reference": "mine:1"}], [one(make.layer(FILES))])


def test_an_image_that_was_read_before_is_remembered_by_its_id() -> None:
    found = one(make.layer(FILES))
    completed = image_archive.complete([RECORD], [found])
    (again,) = image_archive.remembered([RECORD], completed) or []
    assert image_archive.complete([RECORD], [again]) == completed
    assert image_archive.remembered([{**RECORD, "id": "sha256:2"}], completed) is None
    assert image_archive.remembered([RECORD], []) is None
    older = [{**completed[0], "contents": {**completed[0]["contents"], "reader": 0}}]
    assert image_archive.remembered([RECORD], older) is None, "another reader may find more"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_table_for_people(lang: str) -> None:
    image = one(make.layer(make.vllm_files(make.library(*[["sm_70"]] * 30, ["sm_52", "sm_70"]), TORCH)))
    text = "\n".join(report([image], lang))
    for part in ("vllm/vllm-openai:v0.8.5.post1", "2.6.0+cu124", "525.60.13", "7.0", "sm_52"):
        assert part in text
    without = report([{"references": [], "id": "sha256:1", "libraries": {}}], lang)
    assert without[0] == "sha256:1"
    assert "vLLM" in without[-1]
