# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs share that start a server of an engine as the only task of a container, behind llm_api_paths.py.

Such an engine takes its keys on the command line only, where everybody on the host reads them, and whoever has one may stop the server or change its weights.
So the server gets a key of this process alone, which never leaves it, and llm_api_paths.py stands in front: it asks for the keys in the files, at each request,
and answers nothing but what computes and what tells how the server is. Where a release does not let itself be wrapped, nobody gets in.
"""

from __future__ import annotations

import importlib
import os
import re
import secrets
import shlex
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any


def read_variables(path: str, environment: MutableMapping[str, str]) -> None:
    """Variables of the inventory that may be secrets, as a shell would read them: 'docker inspect' shows none."""
    for word in shlex.split(Path(path).read_text(encoding="utf-8"), comments=True) if path else ():
        name, _equals, value = word.partition("=")
        environment[name] = value


def check_key(path: Path) -> None:
    """End where the file holds no key: clients would be told that theirs is wrong."""
    text = path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else ""
    if not re.fullmatch(r"[!-~]+", text):
        sys.exit(f"error: {path} holds no key")


def begin(program: str, engine: str, how: str, command: Sequence[str]) -> str:
    """What comes first; the key of this process, empty where the server asks for none. ``how`` is keyed or open."""
    read_variables(os.environ.get("LLM_ENVIRONMENT_FILE", ""), os.environ)
    # With the names of the options only: a value may be a path or a template that is nobody's business.
    print(f"{program}: starts " + " ".join(word for word in command if word.startswith("--")), flush=True)
    if how != "keyed":
        return ""
    check_key(Path(os.environ.get("LLM_SECRETS_DIR") or "/run/secrets") / f"{engine}_api_key")
    return secrets.token_urlsafe(32)


def filtered(app: Any, name: str, key: str) -> Any:
    """An application of ASGI with the filter of paths around it, with the key that the server was started with."""
    paths = importlib.import_module("llm_api_paths")

    class Paths(paths.ApiPaths):  # type: ignore[name-defined, misc]
        engine = name

        def with_own_key(self, scope: Mapping[str, Any]) -> Mapping[str, Any]:
            """Some ask for their key also where they only tell how they are (/metrics)."""
            if self.key and paths.below(scope.get("path", ""), paths.OPEN):
                headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
                return {**scope, "headers": [*headers, (b"authorization", b"Bearer " + self.key.encode())]}
            found: Mapping[str, Any] = super().with_own_key(scope)
            return found

    if isinstance(app, str):
        # A name, which other processes would load without the filter.
        sys.exit(f"error: the server would start {app} in other processes, where nobody asks for keys")
    return Paths(app, key=key)


def wrap(config: Any, name: str, key: str) -> None:
    """Put the filter of paths around each application that uvicorn's ``Config`` is made with."""
    made = config.__init__

    def make(self: Any, app: Any, *more: Any, **settings: Any) -> None:
        made(self, filtered(app, name, key), *more, **settings)

    config.__init__ = make
