"""A model hub from a folder, for tests: the paths of Hugging Face and of ModelScope, as far as their clients and a download use them.

    python3 hub.py FOLDER ADDRESS PORT [CERTIFICATE KEY]

FOLDER holds PUBLISHER/NAME/FILES. A file .lacking in a model's folder names files that are listed, but not had, as at a mirror that is not
complete. A file .token in FOLDER, or in a model's folder, holds a token that has to be sent. A file .cut in FOLDER holds a number of bytes after
which the connection ends that sends more of a file. Ranges are answered, as an interrupted download needs them. As a program it prints a line for each
request: address, method, path, range.
https://huggingface.co/docs/hub/api, https://modelscope.cn/docs
"""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import re
import ssl
import sys
import urllib.parse
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# Hugging Face keeps these in git itself, and tells no SHA-256 of them.
IN_GIT = (".json", ".txt", ".md", ".jinja")
PIECE = 1 << 16


class Hub(http.server.ThreadingHTTPServer):
    """``asked`` has the method and path of each request; ``cut_after`` counts down bytes after which connections end."""

    daemon_threads = True

    def __init__(self, folder: str, address: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__((address, port), Handler)
        self.folder, self.asked = Path(folder), []  # type: ignore[var-annotated]
        self.cut_after: int | None = None
        self.prints = False
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def encrypt(self, certificate: str, key: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket, self.scheme = context.wrap_socket(self.socket, server_side=True), "https"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who does not like the certificate goes away."""

    def files(self, model: str) -> dict[str, Path]:
        root = self.folder / model
        found = {str(path.relative_to(root)): path for path in sorted(root.rglob("*")) if path.is_file()}
        return {name: path for name, path in found.items() if not name.startswith(".")}

    def token(self, path: str) -> str:
        """What has to be sent to get what lies at a path; empty: nothing."""
        found = re.search(r"([^/]+/[^/]+)/(?:resolve|revision|repo)/", f"{path}/") or re.search(r"models/(.+)", path)
        for folder in (self.folder, *([self.folder / found.group(1)] if found else [])):
            if (folder / ".token").is_file():
                return (folder / ".token").read_text(encoding="utf-8").strip()
        return ""

    def cut(self) -> int | None:
        """The bytes that are sent at most."""
        said = self.folder / ".cut"
        return int(said.read_text(encoding="utf-8")) if said.is_file() else None

    def lacks(self, model: str, name: str) -> bool:
        listed = self.folder / model / ".lacking"
        return listed.exists() and name in listed.read_text(encoding="utf-8").split()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        request = (self.command, self.path, self.headers.get("Range") or "")
        self.server.asked.append(request)
        if self.server.prints:
            print(self.client_address[0], *request, flush=True)
        address = urllib.parse.urlsplit(self.path)
        path, query = urllib.parse.unquote(address.path), dict(urllib.parse.parse_qsl(address.query))
        token = self.server.token(path)
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            return self._json({"error": "Access to this model is restricted"}, 401)
        for pattern, answer in (
            (r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", self._huggingface),
            (r"/api/v1/models/([^/]+/[^/]+)/repo/files", self._modelscope),
        ):
            found = re.fullmatch(pattern, path)
            if found:
                return answer(found.group(1))
        found = re.fullmatch(r"/(?:models/)?([^/]+/[^/]+)/resolve/[^/]+/(.+)", path)
        if found:
            return self._send(found.group(1), found.group(2))
        found = re.fullmatch(r"/api/v1/models/([^/]+/[^/]+)/repo", path)
        if found:
            return self._send(found.group(1), query.get("FilePath", ""))
        return self._json({"error": "not found"}, 404)

    def _huggingface(self, model: str) -> None:
        files = self.server.files(model)
        if not files:
            return self._json({"error": "Repository not found"}, 404)
        siblings = [
            {
                "rfilename": name,
                "size": path.stat().st_size,
                "blobId": "1" * 40,
                **(
                    {}
                    if name.endswith(IN_GIT)
                    else {"lfs": {"sha256": _sha256(path), "size": path.stat().st_size, "pointerSize": 1}}
                ),
            }
            for name, path in files.items()
        ]
        return self._json({"_id": "1", "id": model, "modelId": model, "sha": COMMIT, "siblings": siblings})

    def _modelscope(self, model: str) -> None:
        files = [
            {"Path": name, "Size": path.stat().st_size, "Sha256": _sha256(path), "Type": "blob"}
            for name, path in self.server.files(model).items()
        ]
        if not files:
            return self._json({"Code": 404, "Success": False, "Message": "no such model"}, 404)
        return self._json({"Code": 200, "Success": True, "Data": {"Files": files}})

    def _send(self, model: str, name: str) -> None:
        path = self.server.files(model).get(name)
        if path is None or self.server.lacks(model, name):
            return self._json({"error": "Entry not found"}, 404)
        size = path.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = int(asked.group(1)) if asked else 0
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.send_header("Content-Length", str(size - start))
        self.send_header("ETag", f'"{_sha256(path)[:16]}"')
        self.end_headers()
        if self.command == "HEAD":
            return None
        with path.open("rb") as stream:
            stream.seek(start)
            left = self.server.cut()
            for piece in iter(lambda: stream.read(PIECE), b""):
                if self.server.cut_after is not None:
                    self.server.cut_after -= len(piece)
                    if self.server.cut_after < 0:
                        self.close_connection = True
                        return None
                if left is not None and (left := left - len(piece)) < 0:
                    self.close_connection = True
                    return None
                self.wfile.write(piece)
        return None

    def _json(self, content: Any, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def records(hub: Hub, model: str) -> list[dict[str, Any]]:
    """The files of a model as a manifest of the controller names them."""
    folder = model.replace("/", "--")
    return [
        {
            "path": f"{folder}/{name}",
            "size": path.stat().st_size,
            "sha256": _sha256(path),
            "urls": [f"{hub.url}/{model}/resolve/main/{name}"],
        }
        for name, path in hub.files(model).items()
    ]


def main() -> None:
    folder, address, port = sys.argv[1:4]
    hub = Hub(folder, address, int(port))
    hub.prints = True
    if len(sys.argv) > 4:
        hub.encrypt(sys.argv[4], sys.argv[5])
    print(os.getpid(), flush=True)
    hub.serve_forever()


if __name__ == "__main__":
    main()
