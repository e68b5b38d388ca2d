"""The inventory that the tests of its rules begin with."""

from __future__ import annotations

import pytest

from tests.support.inventories import Inventory


@pytest.fixture
def inventory() -> Inventory:
    return Inventory()
