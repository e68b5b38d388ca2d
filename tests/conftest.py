"""For all tests: how many examples the property tests look at, and which."""

import os

import pytest
from hypothesis import settings

# What people read is in their language; tests read English unless they say so.
os.environ["LC_ALL"] = "C.UTF-8"
# How long an example takes tells more of the machine's other work than of the code.
settings.register_profile("fresh", deadline=None)
# `make test-all` says twice the same of the same code; a run by hand (nox -s unit-all, pytest) looks at examples that nobody has seen.
settings.register_profile("full", parent=settings.get_profile("fresh"), derandomize=True)
settings.register_profile("gate", parent=settings.get_profile("full"), max_examples=10)


def pytest_configure(config: pytest.Config) -> None:
    """Before any test is imported. Whoever leaves out the slow tests gets the small sample with it: no second switch can disagree."""
    if "not slow" in config.option.markexpr:
        settings.load_profile("gate")
    else:
        settings.load_profile("full" if "COUNT_CASES_IN" in os.environ else "fresh")
