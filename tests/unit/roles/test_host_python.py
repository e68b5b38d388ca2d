"""What travels to hosts runs on their Python, the oldest of which is 3.8."""

from __future__ import annotations

import ast

from tests.support.roles import ROLES

TRAVELS = [
    *ROLES.glob("*/files/*.py"),
    *ROLES.parent.glob("plugins/modules/*.py"),
    *ROLES.parent.glob("plugins/module_utils/*.py"),
]


def test_it_is_written_in_the_language_of_the_oldest() -> None:
    assert len(TRAVELS) > 50
    wrong = []
    for path in TRAVELS:
        try:
            ast.parse(path.read_text(encoding="utf-8"), path, feature_version=(3, 8))
        except SyntaxError as error:
            wrong.append(str(error))
    assert wrong == []
