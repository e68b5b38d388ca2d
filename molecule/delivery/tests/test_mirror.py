"""Images come from a mirror: a registry on this machine that speaks what the OCI distribution specification says, and the real engine."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import ImageNotFound

CHECKOUT = Path(__file__).resolve().parents[3]
# Nobody answers for this registry, so what arrives came from the mirror.
IMAGE = "registry.invalid/acme/hello:1"
USER, PASSWORD = "reader", "correct-horse"


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def image() -> tuple[bytes, dict[str, bytes]]:
    """The manifest of an image of one file, and its blobs."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("hello")
        member.size = 5
        archive.addfile(member, io.BytesIO(b"world"))
    layer = gzip.compress(packed.getvalue(), mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [sha256(packed.getvalue())]},
        }
    ).encode()
    kind = "application/vnd.docker.{0}"
    manifest = {
        "schemaVersion": 2,
        "mediaType": kind.format("distribution.manifest.v2+json"),
        "config": {
            "mediaType": kind.format("container.image.v1+json"),
            "size": len(config),
            "digest": sha256(config),
        },
        "layers": [
            {
                "mediaType": kind.format("image.rootfs.diff.tar.gzip"),
                "size": len(layer),
                "digest": sha256(layer),
            }
        ],
    }
    return json.dumps(manifest).encode(), {sha256(layer): layer, sha256(config): config}


class Registry(http.server.ThreadingHTTPServer):
    """Pulls of acme/hello:1, for everybody or for one who says who he is."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.private, self.asked = False, list[str]()
        self.manifest, self.blobs = image()
        self.name = f"127.0.0.1:{self.server_port}"


class Answer(http.server.BaseHTTPRequestHandler):
    """https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pull"""

    protocol_version = "HTTP/1.1"
    server: Registry

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        kind, content = "application/octet-stream", self.server.blobs.get(self.path.rpartition("/")[2])
        if self.path == "/v2/":
            kind, content = "application/json", b"{}"
        elif self.path in ("/v2/acme/hello/manifests/1", f"/v2/acme/hello/manifests/{sha256(self.server.manifest)}"):
            kind, content = "application/vnd.docker.distribution.manifest.v2+json", self.server.manifest
        wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        status = 200 if content is not None else 404
        if self.server.private and self.headers.get("Authorization") != wanted:
            status, content = 401, b"{}"
        content = content or b"{}"
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="mirror"')
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Docker-Content-Digest", sha256(content))
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    """The engine without the image, before and after."""
    engine = docker.from_env()
    forget(engine)
    yield engine
    forget(engine)


def forget(engine: docker.DockerClient) -> None:
    try:
        engine.images.remove(IMAGE)
    except ImageNotFound:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def fetch(folder: Path, *mirrors: str, credentials: dict[str, Any] | None = None) -> tuple[dict[str, Any], str]:
    """What the task of playbooks/bundle.yml that fetches answers, and all that was printed."""
    arguments = {
        "bundle": str(folder / "bundle"),
        "checks": str(folder / "checks.json"),
        "items": [],
        "images": [{"reference": IMAGE}],
        "registry_mirrors": {"registry.invalid": list(mirrors)},
    }
    variables = {"bundle_registry_credentials": credentials or {}}
    command = ["-m", "ansible", "adhoc", "localhost", "--connection=local", "--module-name=baremetal.llm.bundle_fetch"]
    # molecule asks for colours, which are no JSON.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(
        [sys.executable, *command, "--args", json.dumps(arguments), "--extra-vars", json.dumps(variables), "-vv"],
        cwd=CHECKOUT,
        env={**kept, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = done.stdout + done.stderr
    assert "=> {" in done.stdout, said
    answer: dict[str, Any] = json.JSONDecoder().raw_decode(done.stdout.partition("=> ")[2])[0]
    return answer, said


@pytest.mark.parametrize("private", [False, True], ids=["open", "private"])
def test_an_image_comes_from_the_mirror_under_its_own_name(
    client: docker.DockerClient, registry: Registry, private: bool, tmp_path: Path
) -> None:
    registry.private = private
    who = {registry.name: {"username": USER, "password": PASSWORD}}
    # The first mirror does not answer; so the second is asked.
    mirrors = ("127.0.0.1:9", registry.name)
    answer, said = fetch(tmp_path, *mirrors, credentials=who)
    assert (answer["changed"], answer["fetched"]) == (True, [f"image {IMAGE}"]), said
    assert PASSWORD not in said
    assert set(registry.blobs) <= {path.rpartition("/")[2] for path in registry.asked}, "every blob was fetched"
    found = client.images.get(IMAGE)
    assert found.tags == [IMAGE], "the mirror's name is not kept"
    assert found.id in registry.blobs, "the image's id is the digest of its configuration"
    registry.asked.clear()
    again, _said = fetch(tmp_path, *mirrors, credentials=who)
    assert (again["changed"], again["fetched"], registry.asked) == (False, [], [])


def test_every_address_that_was_tried_is_named_with_its_answer(
    client: docker.DockerClient, registry: Registry, tmp_path: Path
) -> None:
    registry.private = True
    _answer, said = fetch(tmp_path, "127.0.0.1:9", registry.name)
    assert "FAILED!" in said, said
    assert f"The image {IMAGE} is not in this machine's engine and could not be pulled" in said
    for address in ("127.0.0.1:9/acme/hello:1", f"{registry.name}/acme/hello:1", IMAGE):
        assert f"  {address}: " in said
    assert "llm_registry_mirrors" in said
    with pytest.raises(ImageNotFound):
        client.images.get(IMAGE)
