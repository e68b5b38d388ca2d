"""A module run as Ansible runs it: a program with arguments on standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]


def answer_of(
    module: str, arguments: dict[str, Any], check_mode: bool = False, path: str = "/usr/bin:/bin"
) -> dict[str, Any]:
    """The result of a module, be it a failure. Programs are looked for in `path`."""
    done = subprocess.run(
        [sys.executable, "-m", f"ansible_collections.baremetal.llm.plugins.modules.{module}"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check_mode}}),
        env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY / ".collections")},
        text=True,
        check=False,
        capture_output=True,
        timeout=60,
    )
    if not done.stdout:
        raise AssertionError(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def run_module(module: str, programs: Path, arguments: dict[str, Any], check_mode: bool = False) -> dict[str, Any]:
    """The result of a module that only reads. Programs are looked for in this folder first."""
    result = answer_of(module, arguments, check_mode, f"{programs}:/usr/bin:/bin")
    if result.get("failed") or result["changed"]:
        raise AssertionError(json.dumps(result))
    return result
