"""Files as a CUDA compiler makes them, down to what a reader of them looks at, and archives of images around them."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

SUFFIXES = {"": 0, "a": 1 << 20, "f": 1 << 21}


def entry(name: str, payload: bytes = b"", compressed: bool = True, header: int = 64) -> bytes:
    """One entry of a container: sm_90a, compute_80, lto_90."""
    kind, _bar, number = name.partition("_")
    suffix = number.lstrip("0123456789")
    flags = 0x11 | SUFFIXES[suffix] | (0x8000 if compressed else 0)
    code = {"compute": 1, "sm": 2, "lto": 8}[kind]
    fields = (
        code,
        0x0101,
        header,
        len(payload),
        len(payload) if compressed else 0,
        0,
        0,
        0,
        int(number.rstrip("af")),
        0,
        0,
        flags,
        0,
        0,
    )
    return struct.pack("<HHIQIIHHIIIQQQ", *fields).ljust(header, b"\0") + payload


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def elf(content: bytes = b"", machine: int = 62, flags: int = 0, abi: int = 0, sections: int = 0) -> bytes:
    head = struct.pack(
        "<4sBBBBB7xHHIQQQIHHHHHH",
        b"\x7fELF",
        2,
        1,
        1,
        0,
        abi,
        3,
        machine,
        1,
        0,
        0,
        sections,
        flags,
        64,
        56,
        0,
        64,
        0,
        0,
    )
    return head + content


def cubin(architecture: int, abi: int = 7) -> bytes:
    return elf(machine=190, abi=abi, flags=architecture << 8 if abi >= 8 else architecture)


def library(*sets: Sequence[str], times: int = 1) -> bytes:
    """A shared object with a container for each set of architectures."""
    return elf(
        b"".join(container(*(entry(name, b"payload.") for name in names)) for names in sets for _time in range(times))
    )


def layer(files: Mapping[str, bytes | None]) -> bytes:
    """A layer as a tar archive; None is an empty file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content or b"")
            archive.addfile(member, io.BytesIO(content or b""))
    return out.getvalue()


def metadata(package: str, version: str) -> bytes:
    return "Metadata-Version: 2.1\nName: {0}\nVersion: {1}\n\nVersion: not this one\n".format(package, version).encode()


def vllm_files(
    vllm: bytes,
    torch: bytes,
    version: str = "0.8.5.post1",
    cuda: str = "12.4",
    packages: str = "usr/local/lib/python3.12/dist-packages",
) -> dict[str, bytes | None]:
    """What an image of vLLM holds, as far as it is looked at."""
    return {
        packages + "/vllm/_C.abi3.so": vllm,
        packages + "/torch/lib/libtorch_cuda.so": torch,
        packages + "/torch/version.py": "__version__ = '2.6.0+cu{0}'\ncuda: Optional[str] = '{1}'\n".format(
            cuda.replace(".", ""), cuda
        ).encode(),
        packages + "/torch-2.6.0.dist-info/METADATA": metadata("torch", "2.6.0"),
        packages + "/vllm-{0}.dist-info/METADATA".format(version): metadata("vllm", version),
    }


def archive(
    layers: Sequence[bytes],
    reference: str = "vllm/vllm-openai:v0.8.5.post1",
    layout: str = "docker",
    environment: Sequence[str] = (),
) -> bytes:
    """docker save of an image, of engines before 25 (docker), after it (both), or an OCI layout alone (oci)."""
    config = json.dumps({"config": {"Env": list(environment)}, "rootfs": {"type": "layers"}}).encode()
    parts: dict[str, bytes | None] = {}

    def blob(content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        parts["blobs/sha256/" + digest] = content
        return digest

    if layout == "docker":
        config_name = hashlib.sha256(config).hexdigest() + ".json"
        names = ["{0}/layer.tar".format(hashlib.sha256(content).hexdigest()) for content in layers]
        parts.update(zip(names, layers, strict=True))
        parts[config_name] = config
    else:
        names = ["blobs/sha256/" + blob(content) for content in layers]
        config_name = "blobs/sha256/" + blob(config)
        manifest = {
            "schemaVersion": 2,
            "config": {"digest": "sha256:" + config_name.rpartition("/")[2]},
            "layers": [{"digest": "sha256:" + name.rpartition("/")[2]} for name in names],
        }
        digest = blob(json.dumps(manifest).encode())
        notes = {"io.containerd.image.name": reference}
        parts["index.json"] = json.dumps({"manifests": [{"digest": "sha256:" + digest, "annotations": notes}]}).encode()
    if layout != "oci":
        parts["manifest.json"] = json.dumps(
            [{"Config": config_name, "RepoTags": [reference], "Layers": names}]
        ).encode()
    return layer(parts)


def saved(images: Mapping[str, Sequence[bytes]], linked: bool = False) -> bytes:
    """docker save of several images by reference, the lowest layer first. With linked, a layer that is there already is a link, as engines write it."""
    parts: dict[str, bytes | None] = {}
    links: dict[str, str] = {}
    listed = []
    for reference, layers in images.items():
        contents = ["sha256:" + hashlib.sha256(one).hexdigest() for one in layers]
        config = json.dumps({"rootfs": {"type": "layers", "diff_ids": contents}, "name": reference}).encode()
        config_name = hashlib.sha256(config).hexdigest() + ".json"
        parts[config_name] = config
        names = []
        for content, one in zip(contents, layers, strict=True):
            first = f"{content[7:]}/layer.tar"
            name = hashlib.sha256(f"{reference} {content}".encode()).hexdigest() + "/layer.tar"
            if linked and first in parts:
                links[name] = f"../{first}"
            else:
                name = first
                parts[first] = one
            names.append(name)
        listed.append({"Config": config_name, "RepoTags": [reference], "Layers": names})
    parts["manifest.json"] = json.dumps(listed).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
        for name, part in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(part or b"")
            archive.addfile(member, io.BytesIO(part or b""))
    return out.getvalue()


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """What is done in here may not take more memory."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= size, f"took {peak} bytes"
