"""What several tests of roles begin with."""

import shutil

import pytest

from benchmarks import gateway


@pytest.fixture(scope="session")
def haproxy() -> tuple[str, dict[str, str]]:
    """HAProxy, and what its environment has to have besides. Where it could be fetched and was not, the tests fail."""
    if not any(map(shutil.which, ("haproxy", "/usr/sbin/haproxy", "apt-get"))):
        pytest.skip("no HAProxy here, and none to be fetched without apt-get")
    return gateway.haproxy("")
