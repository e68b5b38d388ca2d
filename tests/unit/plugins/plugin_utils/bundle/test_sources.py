"""Hubs are asked by their own clients. Here the real client speaks to a server on this machine that answers as the hub documents it."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._download import make_opener, unprotected
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import sources as bundle_sources

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "ab" * 32
ITEM = {"kind": "model", "path": "models/a--m", "source": "huggingface:a/m@main", "fields": {"model": "a/m"}}


class Hub(http.server.BaseHTTPRequestHandler):
    """https://huggingface.co/docs/hub/api and what ModelScope's client asks."""

    asked: list[tuple[str, str | None]]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization")))
        answer: Any = {"error": "Access to model a/gated is restricted"}
        status = 403
        if self.path.startswith("/api/models/a/m"):
            siblings: list[dict[str, Any]] = [
                {"rfilename": "config.json", "size": 2, "blobId": "1" * 40},
                {"rfilename": "pytorch_model.bin", "size": 9, "blobId": "2" * 40},
                {
                    "rfilename": "model.safetensors",
                    "size": 7,
                    "blobId": "3" * 40,
                    "lfs": {"sha256": DIGEST, "size": 7, "pointerSize": 1},
                },
            ]
            answer, status = {"_id": "1", "id": "a/m", "modelId": "a/m", "sha": COMMIT, "siblings": siblings}, 200
        elif self.path.startswith("/api/v1/models/a/m/repo/files"):
            files = [
                {"Path": "config.json", "Size": 2, "Sha256": "cd" * 32, "Type": "blob"},
                {"Path": "model.safetensors", "Size": 7, "Sha256": DIGEST, "Type": "blob"},
                {"Path": "sub", "Size": 0, "Type": "tree"},
            ]
            answer, status = {"Code": 200, "Success": True, "Data": {"Files": files}}, 200
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def settings(hub: str, **tokens: str) -> bundle_sources.Settings:
    return bundle_sources.Settings(make_opener(), huggingface_endpoint=hub, modelscope_endpoint=hub, tokens=tokens)


def test_a_model_of_hugging_face_is_pinned_to_its_commit(hub: str) -> None:
    found = bundle_sources.resolve(ITEM, settings(hub, huggingface="secret"))
    assert found["fields"]["revision"] == COMMIT
    assert found["fields"]["requested_revision"] == "main"
    assert found["files"] == [
        {
            "path": "models/a--m/config.json",
            "auth": "huggingface",
            "urls": [f"{hub}/a/m/resolve/{COMMIT}/config.json"],
            "size": 2,
            "sha256": None,
        },
        {
            "path": "models/a--m/model.safetensors",
            "auth": "huggingface",
            "urls": [f"{hub}/a/m/resolve/{COMMIT}/model.safetensors"],
            "size": 7,
            "sha256": DIGEST,
        },
    ]
    assert Hub.asked[0][1] == "Bearer secret"
    assert "secret" not in json.dumps(found)


def test_a_gated_model_says_what_to_do(hub: str) -> None:
    with pytest.raises(bundle_sources.SourceError, match="bundle_huggingface_token"):
        bundle_sources.resolve({**ITEM, "source": "huggingface:a/gated"}, settings(hub))


def test_a_model_of_modelscope_is_pinned_by_checksums(hub: str) -> None:
    found = bundle_sources.resolve({**ITEM, "source": "modelscope:a/m"}, settings(hub))
    assert [file["sha256"] for file in found["files"]] == ["cd" * 32, DIGEST]
    assert found["files"][0]["urls"] == [f"{hub}/api/v1/models/a/m/repo?Revision=master&FilePath=config.json"]


def test_a_client_that_is_missing_is_named(hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(bundle_sources.SourceError, match="-m pip install huggingface_hub"):
        bundle_sources.resolve(ITEM, settings(hub))


def test_a_file_of_a_web_server_has_its_size_before_it_is_fetched(hub: str) -> None:
    item = {"path": "driver/x.run", "source": f"{hub}/x.run", "kind": "driver"}
    (file,) = bundle_sources.resolve(item, settings(hub))["files"]
    assert file == {"path": "driver/x.run", "urls": [f"{hub}/x.run"], "size": None, "sha256": None}


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("http://mirror.example/x.run", True),
        ("http://10.0.0.1:8080/x.run", True),
        ("https://mirror.example/x.run", False),
        ("http://127.0.0.1:8080/x.run", False),
        ("http://[::1]/x.run", False),
        ("http://localhost/x.run", False),
    ],
)
def test_what_somebody_on_the_way_can_change(url: str, plain: bool) -> None:
    assert unprotected(url) is plain


def test_plain_http_without_a_checksum_is_refused_before_it_is_asked() -> None:
    item = {"kind": "driver", "path": "driver/x.run", "source": "http://mirror.invalid/x.run", "size": 5}
    with pytest.raises(bundle_sources.SourceError, match=r"http://mirror\.invalid/x\.run is plain http"):
        bundle_sources.resolve(item, settings("https://hub.invalid"))
    pinned = bundle_sources.resolve({**item, "sha256": DIGEST}, settings("https://hub.invalid"))
    assert pinned["files"][0]["sha256"] == DIGEST
    mirrored = bundle_sources.Settings(make_opener(), url_mirrors={"https://a.invalid/": ["http://b.invalid/"]})
    with pytest.raises(bundle_sources.SourceError, match=r"http://b\.invalid/x\.run is plain http"):
        bundle_sources.resolve({**item, "source": "https://a.invalid/x.run"}, mirrored)


@pytest.mark.parametrize("hub", ["huggingface", "modelscope"])
def test_a_hub_over_plain_http_is_refused(hub: str) -> None:
    with pytest.raises(bundle_sources.SourceError, match=f"bundle_{hub}_endpoint"):
        bundle_sources.resolve({**ITEM, "source": f"{hub}:a/m"}, settings("http://hub.invalid"))
