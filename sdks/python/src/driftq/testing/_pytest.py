"""The fixture for pytest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from . import Broker


@pytest.fixture
def driftq_broker() -> Iterator[Broker]:
    """A DriftQ server in memory, without topics, with a clock that the test advances."""
    # Most test runs do not use it, and it costs an import of the worker.
    from . import broker

    with broker() as server:
        yield server
