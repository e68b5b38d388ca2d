"""For all tests."""

from hypothesis import settings

# How long an example takes tells more of the machine's other work than of the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
