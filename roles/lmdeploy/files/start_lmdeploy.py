# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts LMDeploy's API server, as the only task of a container, behind the filter of paths (llm_filtered.py).

usage: start_lmdeploy.py keyed|open lmdeploy serve api_server MODEL [OPTION...]

A model that TurboMind does not serve LMDeploy would hand to its PyTorch engine, with other memory than was planned. Here it does not start.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import llm_filtered

ENGINE = "turbomind"


def check_engine(model: str, trusted: bool) -> None:
    """End where LMDeploy would take another engine than the planned one. ``trusted`` says whether code of the model may run."""
    more = {"trust_remote_code": True} if trusted else {}
    found = importlib.import_module("lmdeploy.archs").autoget_backend(model, **more)
    if found != ENGINE:
        sys.exit(f"error: {model} is not served by TurboMind of this LMDeploy, which would start its engine {found}")


def wrapped(run: Callable[..., None], key: str) -> Callable[..., None]:
    """uvicorn's ``run`` with the filter of paths around the application."""

    def run_wrapped(app: Any, *more: Any, **settings: Any) -> None:
        run(llm_filtered.filtered(app, "lmdeploy", key), *more, **settings)

    return run_wrapped


def main(words: list[str]) -> None:
    command = words[1:]
    key = llm_filtered.begin("start_lmdeploy.py", "lmdeploy", words[0], command)
    check_engine(command[3], "--trust-remote-code" in command)
    server = importlib.import_module("uvicorn")
    server.run = wrapped(server.run, key)  # type: ignore[attr-defined]
    # Where the process list does not show it.
    sys.argv = [*command, *([f"--api-keys={key}"] if key else [])]
    importlib.import_module("lmdeploy.cli").run()


if __name__ == "__main__":
    main(sys.argv[1:])
