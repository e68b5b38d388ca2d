"""Lists and the script that fetches what they name: run by sh, with curl, against a server on this machine."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import lists as bundle_lists
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import script, transfer

from tests.support.messages import refused

CONTENT = {"x.run": os.urandom(5000), "w.safetensors": os.urandom(90_000), "config.json": b"{}"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, and notes who asked with what token and for what part."""

    tokens: list[str | None]
    ranges: list[str | None]
    knows_ranges: bool

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.tokens.append(self.headers.get("Authorization"))
        self.ranges.append(wanted)
        if not (wanted and self.knows_ranges):
            super().do_GET()
            return
        content, start = CONTENT[self.path.strip("/")], int(wanted.split("=")[1].rstrip("-"))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "www"
    folder.mkdir()
    for name, content in CONTENT.items():
        (folder / name).write_bytes(content)
    Quiet.tokens, Quiet.ranges, Quiet.knows_ranges = [], [], True
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


def plan(server: str) -> dict[str, Any]:
    def file(path: str, name: str, **more: Any) -> dict[str, Any]:
        return {
            "path": path,
            "urls": ["http://127.0.0.1:9/dead", f"{server}/{name}"],
            "size": len(CONTENT[name]),
            "sha256": hashlib.sha256(CONTENT[name]).hexdigest(),
            **more,
        }

    model = {"kind": "model", "path": "models/m", "source": "huggingface:a/m", "fields": {"model": "a/m"}}
    driver = {"kind": "driver", "path": "driver/x.run", "source": f"{server}/x.run", "fields": {"version": "570.1"}}
    packages = {
        "kind": "os_packages",
        "path": "os_packages/debian-12",
        "source": "apt:debian-12",
        "packages": ["iptables"],
    }
    return {
        "1": {
            "item": model,
            "fields": {"revision": "abc"},
            "files": [
                file("models/m/w.safetensors", "w.safetensors", auth="huggingface"),
                {**file("models/m/config.json", "config.json"), "sha256": None},
                {"path": "models/m/index", "content": "made here\n"},
            ],
        },
        "2": {"item": driver, "files": [file("driver/x.run", "x.run")]},
        "3": {"item": packages},
    }


@pytest.fixture
def lists(tmp_path: Path, server: str) -> Path:
    """The lists without what needs a registry and a package source."""
    folder = tmp_path / "lists"
    folder.mkdir()
    texts = bundle_lists.render(plan(server), [], {}, {})
    for name, text in texts.items():
        if not name.startswith("packages-"):
            (folder / name).write_text(text)
    return folder


def run(lists: Path, out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", lists / "fetch.sh", out],
        env={**os.environ, "no_proxy": "*", **environment},
        capture_output=True,
        text=True,
    )


def test_the_script_is_clean() -> None:
    program = shutil.which("shellcheck") or str(Path(__file__).parents[5] / ".venv/bin/shellcheck")
    subprocess.run([program, "--shell=sh", "-"], input=bundle_lists.SCRIPT, text=True, check=True)


def test_plain_lists(server: str) -> None:
    images = [{"reference": "vllm/vllm-openai:v1", "vllm_version": "1"}]
    texts = bundle_lists.render(plan(server), images, {"docker.io": ["mirror.example"]}, {"a": "no\nnetwork"})
    assert texts["images.txt"] == "vllm/vllm-openai:v1\tmirror.example/vllm/vllm-openai:v1 vllm/vllm-openai:v1\n"
    assert texts["packages-debian-12.txt"] == "iptables\n"
    assert texts["unresolved.txt"] == "a: no network\n"
    assert [row.split("\t")[3] for row in texts["urls.txt"].splitlines()] == [
        "models/m/w.safetensors",
        "models/m/config.json",
        "driver/x.run",
    ]
    assert len(texts["SHA256SUMS"].splitlines()) == 2


def test_the_script_fetches_and_the_site_takes_it_in(lists: Path, tmp_path: Path) -> None:
    out = tmp_path / "disk"
    done = run(lists, out, HF_TOKEN="secret")
    assert done.returncode == 0, done.stderr
    assert "Complete." in done.stderr
    assert (out / "models/m/w.safetensors").read_bytes() == CONTENT["w.safetensors"]
    assert sorted(str(token) for token in Quiet.tokens) == ["Bearer secret", "None", "None"]
    assert not list(out.rglob("*.part"))
    Quiet.tokens.clear()
    assert run(lists, out).returncode == 0
    assert Quiet.tokens == []  # a second run fetches nothing

    said = script.read_plan([str(out)])
    records = script.fetched_records([str(out)], said)
    site, seen = tmp_path / "site", {}
    transfer.bring_in([str(out)], records, str(site), seen, transfer.Reporter(lambda size: None))
    assert (site / "driver/x.run").read_bytes() == CONTENT["x.run"]
    assert (site / "models/m/config.json").read_bytes() == b"{}"


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_an_interrupted_run_goes_on_and_damage_is_fetched_anew(lists: Path, tmp_path: Path, knows_ranges: bool) -> None:
    out = tmp_path / "disk"
    Quiet.knows_ranges = knows_ranges
    (out / "models/m").mkdir(parents=True)
    (out / "driver").mkdir()
    (out / "models/m/w.safetensors.part").write_bytes(CONTENT["w.safetensors"][:40_000])
    (out / "driver/x.run.part").write_bytes(CONTENT["x.run"])
    (out / "driver/x.run").write_bytes(b"damaged")
    assert run(lists, out).returncode == 0
    assert (out / "models/m/w.safetensors").read_bytes() == CONTENT["w.safetensors"]
    assert (out / "driver/x.run").read_bytes() == CONTENT["x.run"]
    # The rest of the weights, or all of them where there are no ranges, and config.json; the driver was complete.
    assert Quiet.ranges == ["bytes=40000-", *([] if knows_ranges else [None]), None]


def test_what_fails_is_named_and_the_rest_is_fetched(lists: Path, tmp_path: Path) -> None:
    (tmp_path / "www/w.safetensors").write_bytes(b"other")
    (tmp_path / "www/config.json").unlink()
    done = run(lists, tmp_path / "disk")
    assert done.returncode == 1
    assert "FAILED: models/m/w.safetensors" in done.stderr
    assert "FAILED: models/m/config.json" in done.stderr
    assert "2 things are missing" in done.stderr
    assert not (tmp_path / "disk/models/m/w.safetensors").exists()
    assert (tmp_path / "disk/driver/x.run").exists()


def test_a_plan_that_leads_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"plan": {"1": {"item": {"path": "../x"}}}, "images": []}')
    with refused(script.BundleError, "does not stay inside"):
        script.read_plan([str(tmp_path)])
    (tmp_path / "plan.json").write_text("[]")
    with refused(script.BundleError, "is no plan"):
        script.read_plan([str(tmp_path)])
    assert script.read_plan([str(tmp_path / "nowhere")]) == {}
