"""The server of the tests is the program in DRIFTQ_BIN, or the one in PATH."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from driftq import Worker
from driftq.testing import Broker, broker

WAIT = 10.0


@pytest.fixture
def server() -> Iterator[Broker]:
    with broker("orders", "receipts") as of:
        yield of


def until(holds: Callable[[], object], timeout: float = WAIT) -> None:
    """Waits until something holds."""
    end = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.005)


@contextmanager
def running(worker: Worker) -> Iterator[None]:
    """Runs a worker of ``def`` handlers, with a renewal process, and stops it."""
    worker.start()
    try:
        yield
    finally:
        worker.stop()
        ended = threading.Thread(target=worker.join)
        ended.start()
        ended.join(WAIT)
        assert not ended.is_alive()
