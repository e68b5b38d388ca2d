# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models, GPUs and starts that the planner's tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[5] / "tests" / "data"


@pytest.fixture(scope="session")
def model() -> Callable[[str], dict[str, Any]]:
    def read(name: str) -> dict[str, Any]:
        config: dict[str, Any] = json.loads((DATA / "models" / f"{name}.json").read_text(encoding="utf-8"))
        return config

    return read


@pytest.fixture
def v100() -> dict[str, Any]:
    return {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}


@pytest.fixture
def h200() -> dict[str, Any]:
    return {"name": "NVIDIA H200", "memory_mib": 143771, "compute_capability": "9.0"}
