"""A pytest plugin for tests/run.py: each run of pytest writes its own junit report into the folder that COUNT_CASES_IN names.

Molecule starts pytest itself, perhaps more than once for a scenario, so one fixed file name would keep the last run only.
Under pytest-xdist the workers load it too, but the report is the controller's: what a worker finds out is counted there, once.
"""

from __future__ import annotations

import os
import tempfile

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get("COUNT_CASES_IN")
    # A worker of pytest-xdist leaves the report to the process that started it.
    if folder and not hasattr(config, "workerinput"):
        os.makedirs(folder, exist_ok=True)
        handle, config.option.xmlpath = tempfile.mkstemp(suffix=".xml", dir=folder)
        os.close(handle)
