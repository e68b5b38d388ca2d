"""gpu_accept on a host whose nvidia-smi answers as two real H200 do, and on one that answers nonsense; judged as the controller does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.acceptance import judge, to_record

from tests.support.modules import REPOSITORY, run_module

pytestmark = pytest.mark.slow

CAPTURES = REPOSITORY / "tests/data/nvidia_smi"
SMI = """#!/bin/sh
case "$*" in
*query-gpu=*) cat {captures}/query.csv ;;
"-q -x") cat {captures}/smi.xml ;;
*) exit 1 ;;
esac
"""
UUIDS = ("GPU-00000000-0000-0000-0000-000000000000", "GPU-00000001-0000-0000-0000-000000000000")


def accept(folder: Path, smi: str, figures: Any, **more: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The verdicts, and what would be kept."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/nvidia-smi").write_text(smi)
    (folder / "bin/nvidia-smi").chmod(0o755)
    command = [sys.executable, "-c", f"print({json.dumps(json.dumps(figures))})"]
    asked = {
        "command": command,
        "seconds": 30,
        "record": str(folder / "accept.json"),
        "sysfs_root": str(folder / "sys"),
    }
    result = run_module("gpu_accept", folder / "bin", {**asked, **more})
    gpus = judge(result["facts"], result["last"])
    return gpus, to_record(gpus)


def figures(flops: float = 7.9e14) -> dict[str, Any]:
    measured = {
        "backend": "cuda",
        "matmul_flops": flops,
        "memory_bytes_per_second": 4e12,
        "host_bytes_per_second": 5e10,
    }
    return {"gpus": [{"uuid": uuid, **measured} for uuid in UUIDS]}


def test_two_real_cards_are_accepted_and_compared_with_last_time(tmp_path: Path) -> None:
    smi = SMI.format(captures=CAPTURES)
    gpus, record = accept(tmp_path, smi, figures())
    assert [(gpu["name"], gpu["verdict"], gpu["findings"]) for gpu in gpus] == [("NVIDIA H200", "pass", [])] * 2
    (tmp_path / "accept.json").write_text(json.dumps(record))
    gpus, _record = accept(tmp_path, smi, figures(6.9e14))
    assert [[finding["code"] for finding in gpu["findings"]] for gpu in gpus] == [["slower_than_before"]] * 2


def test_nonsense_is_judged_and_nothing_fails(tmp_path: Path) -> None:
    gpus, record = accept(tmp_path, "#!/bin/sh\necho 'Unable to determine the device handle for GPU0'\n", "nothing")
    assert (gpus, record) == ([], {"gpus": {}})
    (tmp_path / "accept.json").write_text("[]")
    csv = f"cat {CAPTURES}/query.csv"
    gpus, _record = accept(
        tmp_path, f"#!/bin/sh\ncase $1 in --query*) {csv} ;; *) echo '<gpu' ;; esac\n", {"gpus": [3]}
    )
    assert [[finding["code"] for finding in gpu["findings"]] for gpu in gpus] == [["unreadable", "burn_failed"]] * 2
