# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts Triton's OpenAI-compatible frontend, as the only task of a container, behind the filter of paths (llm_filtered.py).

usage: start_triton.py keyed|open python3 PLACE/openai_frontend/main.py [OPTION...]

Every release gives uvicorn its application by uvicorn.Config() (frontend/fastapi_frontend.py), so the filter is put around the application there. Triton itself
asks for no key. The engine behind it runs in a process of its own, which is no copy of this one.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

import llm_filtered


def main(words: list[str]) -> None:
    command = words[1:]
    key = llm_filtered.begin("start_triton.py", "triton", words[0], command)
    llm_filtered.wrap(importlib.import_module("uvicorn").Config, "triton", key)
    program = Path(command[1])
    # As Python would start the program: its modules lie beside it.
    sys.argv = command[1:]
    sys.path.insert(0, str(program.parent))
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
