"""A pytest plugin for tests/run.py: each run of pytest writes its own junit report into the folder that COUNT_CASES_IN names.

Molecule starts pytest itself, perhaps more than once for a scenario, so one fixed file name would keep the last run only.
"""

from __future__ import annotations

import os
import tempfile

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get("COUNT_CASES_IN")
    if folder:
        os.makedirs(folder, exist_ok=True)
        handle, config.option.xmlpath = tempfile.mkstemp(suffix=".xml", dir=folder)
        os.close(handle)
