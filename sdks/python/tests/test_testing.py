"""The module for tests of workers, by a suite as a user writes it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import driftq
from driftq.testing import Broker, broker

#: The target for 50 tests with retries of hours, on a machine that does nothing else.
SUITE_TIME = 5.0


def test_a_suite_of_50_tests_ends_in_5_seconds() -> None:
    suite = Path(__file__).with_name("suite_of_a_user.py")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite)]
    began = time.monotonic()
    ended = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    took = time.monotonic() - began
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.count(".") >= 50
    assert took <= SUITE_TIME, f"{took:.1f} s, not {SUITE_TIME} s"


def test_a_program_that_is_no_server_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="did not start"), broker(binary="/bin/false"):
        pass


def test_the_fixture_is_a_server(driftq_broker: Broker) -> None:
    driftq_broker.create("orders")
    assert driftq_broker.client.produce("orders", b"\xff").partition == 0
    assert driftq_broker.values("orders") == ["/w=="]


def test_an_effect_in_doubt_is_listed(server: Broker) -> None:
    app = driftq.Worker(server.url)

    @app.handler("orders", group="biller", on_doubt="park")
    def bill(value: str, ctx: driftq.SyncContext) -> None:
        def fails(e: driftq.Execution) -> None:
            raise TimeoutError

        ctx.effect("charge", fails)

    server.client.produce("orders", "1")
    assert server.run_once(app) == 1
    (effect,) = server.effects("PARKED")
    assert effect["key"] == "charge"


async def in_a_loop(server: Broker, app: driftq.Worker) -> int:
    return server.run_once(app)


def test_run_once_works_in_a_test_that_has_a_loop(server: Broker) -> None:
    import asyncio

    app = driftq.Worker(server.url)
    seen = []

    @app.handler("orders", group="biller")
    async def read(value: str, ctx: driftq.Context) -> None:
        seen.append(value)

    server.client.produce("orders", "1")
    assert asyncio.run(in_a_loop(server, app)) == 1
    assert seen == ["1"]
