"""One test for a list of data: it looks at every entry, and says of all of them what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def check_each(cases: Mapping[str, Case], check: Callable[[Case], None]) -> None:
    """Fail with the name of each case in which `check` found an assertion that does not hold."""
    wrong = []
    for name, case in cases.items():
        try:
            check(case)
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    if wrong or not cases:
        pytest.fail(f"{len(wrong)} of {len(cases)} are wrong:\n" + "\n\n".join(wrong), pytrace=False)
