"""A registry of container images for tests: manifests, blobs, and the two ways in which registries ask for a login."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


class Registry(http.server.ThreadingHTTPServer):
    """``login`` is empty, ``basic`` or ``bearer``; who logs in is lab with the password secret."""

    daemon_threads = True

    def __init__(self, login: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.login, self.asked = login, []  # type: ignore[var-annotated]
        self.answers: dict[str, tuple[str, bytes]] = {}

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def add(self, repository: str, tag: str, platform: str = "amd64") -> dict[str, Any]:
        """An image for one platform, in an index; returns its digest, its id and the size of its layers."""
        configuration = json.dumps({"architecture": platform, "rootfs": {"diff_ids": [digest(tag.encode())]}}).encode()
        layers = [{"digest": digest(b"layer"), "size": 1000}, {"digest": digest(b"other"), "size": 234}]
        image = json.dumps(
            {"schemaVersion": 2, "mediaType": MANIFEST, "config": {"digest": digest(configuration)}, "layers": layers}
        ).encode()
        entry = {"mediaType": MANIFEST, "digest": digest(image), "platform": {"os": "linux", "architecture": platform}}
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}).encode()
        self.answers[f"/v2/{repository}/manifests/{tag}"] = (INDEX, index)
        self.answers[f"/v2/{repository}/manifests/{digest(index)}"] = (INDEX, index)
        self.answers[f"/v2/{repository}/manifests/{digest(image)}"] = (MANIFEST, image)
        self.answers[f"/v2/{repository}/blobs/{digest(configuration)}"] = ("application/octet-stream", configuration)
        return {"digest": digest(index), "id": digest(configuration), "size": 1234, "layers": [digest(tag.encode())]}


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Registry

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        server, said = self.server, self.headers.get("Authorization") or ""
        server.asked.append((self.path, said))
        basic = "Basic " + base64.b64encode(b"lab:secret").decode()
        if self.path.startswith("/token"):
            return self._answer(200 if said == basic else 401, "application/json", b'{"token": "of one run"}')
        if server.login and said != {"basic": basic, "bearer": "Bearer of one run"}[server.login]:
            realm = f'Bearer realm="http://{server.name}/token",service="lab"'
            return self._answer(401, "text/plain", b"", {"basic": 'Basic realm="lab"', "bearer": realm}[server.login])
        kind, content = server.answers.get(self.path, ("", b""))
        return self._answer(200 if kind else 404, kind or "text/plain", content)

    def _answer(self, status: int, kind: str, content: bytes, challenge: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.end_headers()
        self.wfile.write(content)
