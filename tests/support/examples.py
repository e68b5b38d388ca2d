"""How many examples a property test looks at: as many as tests/conftest.py says, and fewer where each of them takes long."""

from __future__ import annotations

from hypothesis import settings


def examples(number: int) -> settings:
    return settings(max_examples=min(number, settings().max_examples))
