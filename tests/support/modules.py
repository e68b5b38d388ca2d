"""A module run as Ansible runs it: a program with arguments on standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]


def run_module(module: str, programs: Path, arguments: dict[str, Any], check_mode: bool = False) -> dict[str, Any]:
    """The result of a module that only reads. Programs are looked for in this folder first."""
    done = subprocess.run(
        [sys.executable, "-m", f"ansible_collections.baremetal.llm.plugins.modules.{module}"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check_mode}}),
        env={**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY / ".collections")},
        text=True,
        check=False,
        capture_output=True,
        timeout=60,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    if result.get("failed") or result["changed"]:
        raise AssertionError(done.stdout)
    return result
