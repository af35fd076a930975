"""A database as a tuning run leaves it."""

from __future__ import annotations

import pytest

from tilewright.database import Database, MemoryDatabase
from tilewright.testing.tuned_databases import fill


@pytest.fixture
def database() -> Database:
    """Two runs of `mm`, one of `big` with a funnel, and a record of no run."""
    made = MemoryDatabase()
    fill(made)
    return made
