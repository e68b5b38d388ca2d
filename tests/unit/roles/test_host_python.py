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


def test_it_imports_nothing_that_stays_on_the_controller() -> None:
    """Ansible sends module_utils along, and nothing else of the collection. A role's file is sent as it is, with whatever lies beside it."""
    ours = "ansible_collections.baremetal.llm.plugins."
    wrong = [
        f"{path.relative_to(ROLES.parent)}: {name}"
        for path in TRAVELS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
        if name.startswith("ansible") and not name.startswith(("ansible.module_utils", f"{ours}module_utils"))
    ]
    assert wrong == []
