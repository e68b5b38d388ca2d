# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts SGLang's server, as the only task of a container, behind the filter of paths (llm_filtered.py).

usage: start_sglang.py keyed|open python3 -m sglang.launch_server [OPTION...]

Old releases give uvicorn the application by uvicorn.run(), newer ones by uvicorn.Config() (launch_server in sglang/srt/entrypoints/http_server.py): the former
makes the latter, so the filter is put around the application there.
"""

from __future__ import annotations

import importlib
import runpy
import sys

import llm_filtered

MODULE = "sglang.launch_server"
# python3 -m MODULE
PROGRAM_WORDS = 3


def main(words: list[str]) -> None:
    command = words[1:]
    key = llm_filtered.begin("start_sglang.py", "sglang", words[0], command)
    llm_filtered.wrap(importlib.import_module("uvicorn").Config, "sglang", key)
    # Where the process list does not show it. Processes that SGLang starts get it in the same way, not by their command lines.
    sys.argv = [MODULE, *command[PROGRAM_WORDS:], *([f"--api-key={key}"] if key else [])]
    # As python3 -m would: the processes that SGLang starts import this module, too.
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
