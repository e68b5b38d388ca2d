"""The junit report that tests/run.py counts, where workers of pytest-xdist run the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest

# A run of pytest in a process.
pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[1] / "support"
CASES = """
import pytest
def test_one(): pass
def test_two(): raise ValueError
@pytest.mark.skip(reason="here to be counted")
def test_three(): pass
"""


def test_workers_write_no_report_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    reports = tmp_path / "reports"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {
        "PYTEST_ADDOPTS": "-p count_cases",
        "PYTHONPATH": os.pathsep.join([str(SUPPORT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]),
        "COUNT_CASES_IN": str(reports),
    }
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path), "-n", "2"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    (report,) = reports.iterdir()
    (suite,) = xml.etree.ElementTree.parse(report).getroot().iter("testsuite")
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["3", "1", "0", "1"]
