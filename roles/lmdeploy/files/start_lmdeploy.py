# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts LMDeploy's API server, as the only task of a container.

usage: start_lmdeploy.py keyed|open lmdeploy serve api_server MODEL [OPTION...]

LMDeploy takes its keys on the command line only, where everybody on the host reads them, and whoever has one may put the server to sleep or change its
weights. So the server gets a key of this process alone, which never leaves it, and llm_api_paths.py stands in front: it asks for the keys in the files, at
each request, and answers nothing but what computes and what tells how the server is. Where a release does not let itself be wrapped, nobody gets in.

A model that TurboMind does not serve LMDeploy would hand to its PyTorch engine, with other memory than was planned. Here it does not start.
"""

from __future__ import annotations

import importlib
import os
import re
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

KEY_FILE = "lmdeploy_api_key"
ENGINE = "turbomind"


def read_variables(path: str, environment: MutableMapping[str, str]) -> None:
    """Variables of the inventory that may be secrets, as a shell would read them: 'docker inspect' shows none."""
    for word in shlex.split(Path(path).read_text(encoding="utf-8"), comments=True) if path else ():
        name, _equals, value = word.partition("=")
        environment[name] = value


def check_key(folder: Path) -> None:
    """End where the file holds no key: clients would be told that theirs is wrong."""
    path = folder / KEY_FILE
    text = path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else ""
    if not re.fullmatch(r"[!-~]+", text):
        sys.exit(f"error: {path} holds no key")


def check_engine(model: str, trusted: bool) -> None:
    """End where LMDeploy would take another engine than the planned one. ``trusted`` says whether code of the model may run."""
    more = {"trust_remote_code": True} if trusted else {}
    found = importlib.import_module("lmdeploy.archs").autoget_backend(model, **more)
    if found != ENGINE:
        sys.exit(f"error: {model} is not served by TurboMind of this LMDeploy, which would start its engine {found}")


def wrapped(run: Callable[..., None], key: str) -> Callable[..., None]:
    """uvicorn's ``run`` with the filter of paths around the application."""
    paths = importlib.import_module("llm_api_paths")

    class Paths(paths.ApiPaths):  # type: ignore[name-defined, misc]
        engine = "lmdeploy"

        def with_own_key(self, scope: Mapping[str, Any]) -> Mapping[str, Any]:
            """LMDeploy asks for its key also where it only tells how it is (/metrics)."""
            if self.key and paths.below(scope.get("path", ""), paths.OPEN):
                headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
                return {**scope, "headers": [*headers, (b"authorization", b"Bearer " + self.key.encode())]}
            found: Mapping[str, Any] = super().with_own_key(scope)
            return found

    def run_wrapped(app: Any, *more: Any, **settings: Any) -> None:
        run(Paths(app, key=key), *more, **settings)

    return run_wrapped


def main(words: list[str]) -> None:
    keyed, command = words[0] == "keyed", words[1:]
    read_variables(os.environ.get("LLM_ENVIRONMENT_FILE", ""), os.environ)
    # With the names of the options only: a value may be a path or a template that is nobody's business.
    print("start_lmdeploy.py: starts " + " ".join(word for word in command if word.startswith("--")), flush=True)
    key = ""
    if keyed:
        check_key(Path(os.environ.get("LLM_SECRETS_DIR") or "/run/secrets"))
        key = secrets.token_urlsafe(32)
    check_engine(command[3], "--trust-remote-code" in command)
    server = importlib.import_module("uvicorn")
    server.run = wrapped(server.run, key)  # type: ignore[attr-defined]
    # Where the process list does not show it.
    sys.argv = [*command, *([f"--api-keys={key}"] if key else [])]
    importlib.import_module("lmdeploy.cli").run()


if __name__ == "__main__":
    main(sys.argv[1:])
