"""For all tests."""

import os

from hypothesis import settings

# How long an example takes tells more of the machine's other work than of the code.
settings.register_profile("patient", deadline=None)
# `make test` says twice the same of the same code; a run by hand (nox -s unit, pytest) looks at examples that nobody has seen.
settings.register_profile("repeatable", parent=settings.get_profile("patient"), derandomize=True)
settings.load_profile("repeatable" if "COUNT_CASES_IN" in os.environ else "patient")
