"""The lab's nvidia-smi on a host whose files are below a folder."""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import types
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "lab/sim/nvidia-smi"


@functools.cache
def _program(source: str) -> types.CodeType:
    return compile(source, "nvidia-smi", "exec")


def answer(root: Path, *arguments: str, status: int = 0, program: Path = PROGRAM) -> str:
    """What it prints, run in this process: to start one takes far longer than to answer."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setenv("LAB_ROOT", str(root))
        patch.setattr(sys, "argv", ["nvidia-smi", *arguments])
        with pytest.raises(SystemExit) as ended:
            exec(_program(program.read_text(encoding="utf-8")), {"__name__": "__main__"})
    assert (ended.value.code or 0) == status, out.getvalue() + err.getvalue()
    assert err.getvalue() == ""
    return out.getvalue()
