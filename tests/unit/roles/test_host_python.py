"""What travels to hosts runs on their Python, the oldest of which is 3.8."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.roles import ROLES

TRAVELS = [
    *ROLES.glob("*/files/*.py"),
    *ROLES.parent.glob("plugins/modules/*.py"),
    *ROLES.parent.glob("plugins/module_utils/*.py"),
]


@pytest.mark.parametrize("path", TRAVELS, ids=lambda path: path.name)
def test_it_is_written_in_the_language_of_the_oldest(path: Path) -> None:
    assert ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8)).body
