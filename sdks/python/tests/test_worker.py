"""What the scenarios do not reach: the errors of the caller's code, and what a worker is given."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import WAIT, running, until

import driftq
from driftq import Context, Execution, SyncContext, Worker
from driftq.testing import Broker


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def last_errors(server: Broker) -> list[str]:
    return [letter["dlq"]["last_error"] for letter in server.dead_letters("orders")]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (UnreadableError(), "UnreadableError"),
        (OSError("name \udcff"), "OSError: name ?"),
        (driftq.Retry(), "failed"),
        (driftq.Retry("é" * 1_000), "é" * 512),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
        (driftq.Cancelled("by itself"), "Cancelled: by itself"),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_any_exception_is_a_failed_attempt(
    server: Broker, error: BaseException, reason: str, is_async: bool
) -> None:
    app = Worker(server.url)
    if is_async:

        @app.handler("orders", group="biller")
        async def fails(value: str, ctx: Context) -> None:
            raise error
    else:

        @app.handler("orders", group="biller")
        def fails_too(value: str, ctx: SyncContext) -> None:
            raise error

    server.client.produce("orders", "1", envelope={"retry_policy": {"max_attempts": 1}})
    server.drain(app)
    assert last_errors(server) == [reason]


@pytest.mark.parametrize("result", [object(), {1: 2}, float("nan"), "\ud800", {"a": {1}}])
@pytest.mark.parametrize("is_async", [True, False])
def test_an_effect_that_happened_is_not_executed_again_although_its_result_is_not_json(
    server: Broker, result: object, is_async: bool
) -> None:
    app, calls = Worker(server.url), []

    def act(e: Execution) -> object:
        calls.append(e.fence)
        return result

    if is_async:

        @app.handler("orders", group="biller", on_doubt="park")
        async def bill(value: str, ctx: Context) -> None:
            await ctx.effect("charge", act)
    else:

        @app.handler("orders", group="biller", on_doubt="park")
        def bill_too(value: str, ctx: SyncContext) -> None:
            ctx.effect("charge", act)

    server.client.produce("orders", "1")
    server.drain(app)
    assert len(calls) == 1
    assert last_errors(server)[0].startswith("the effect succeeded, and its result is not JSON")
    assert server.effects("PARKED") == []


def test_a_function_that_raises_stop_iteration_leaves_the_outcome_unknown(server: Broker) -> None:
    app = Worker(server.url)

    @app.handler("orders", group="biller", on_doubt="park")
    async def bill(value: str, ctx: Context) -> None:
        await ctx.effect("charge", lambda e: next(iter([])))

    server.client.produce("orders", "1")
    assert server.run_once(app) == 1
    assert [effect["key"] for effect in server.effects("PARKED")] == ["charge"]


def test_an_effect_in_a_thread_is_recorded_although_its_handler_is_cancelled(server: Broker) -> None:
    app, calls, acting = Worker(server.url, shutdown_timeout=0.05), [], threading.Event()

    def act(e: Execution) -> str:
        calls.append(e.fence)
        acting.set()
        time.sleep(0.5)
        return "ch_1"

    @app.handler("orders", group="biller", on_doubt="park")
    async def bill(value: str, ctx: Context) -> None:
        charge = await ctx.effect("charge", act)
        await ctx.commit([ctx.message("receipts", charge)])

    async def stop_while_it_acts() -> None:
        serving = asyncio.create_task(app.serve())
        await asyncio.to_thread(acting.wait, WAIT)
        app.stop()
        await serving

    server.client.produce("orders", "1")
    asyncio.run(stop_while_it_acts())
    assert server.values("receipts") == []
    server.drain(app)
    assert (calls, server.values("receipts")) == ([1], ["ch_1"])


def test_effects_of_several_threads_are_all_part_of_the_commit(server: Broker) -> None:
    app = Worker(server.url)

    @app.handler("orders", group="biller", on_doubt="park")
    async def bill(value: str, ctx: Context) -> None:
        effects = (ctx.effect(f"e{n}", lambda e: e.fence, finish="commit") for n in range(20))
        await asyncio.gather(*effects)
        await ctx.commit()

    server.client.produce("orders", "1")
    server.drain(app)
    assert server.effects("IN_PROGRESS") == server.effects("PARKED") == []


def test_a_middleware_sees_the_exception_and_one_that_fails_is_a_failed_attempt(server: Broker) -> None:
    app, seen = Worker(server.url), []

    @app.middleware
    @contextmanager
    def outer(ctx: Any) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            seen.append(str(error))
            raise

    @app.middleware
    @contextmanager
    def inner(ctx: Any) -> Iterator[None]:
        if ctx.delivery.attempts == 1:
            raise ValueError("inner")
        yield

    @app.handler("orders", group="biller")
    def handle(value: str, ctx: SyncContext) -> None:
        seen.append(value)

    server.client.produce("orders", "1")
    server.drain(app)
    assert seen == ["inner", "1"]


def test_on_lost_is_called_and_may_fail(server: Broker, caplog: pytest.LogCaptureFixture) -> None:
    lost = []

    def on_lost(delivery: driftq.Delivery, why: str) -> None:
        lost.append((delivery.lease.attempt, why))
        raise ValueError("boom")

    app, done = Worker(server.url, lease=1.5, on_lost=on_lost), []

    @app.handler("orders", group="biller")
    def handle(value: str, ctx: SyncContext) -> None:
        if ctx.delivery.lease.attempt == 1:
            server.advance("2s")
            ctx.cancelled.wait(WAIT)
            ctx.check()
        done.append(ctx.delivery.attempts)

    server.client.produce("orders", "1")
    with running(app):
        until(lambda: done)
    assert done == [2]
    assert [attempt for attempt, _ in lost] == [1]
    assert app.lost_leases == 1
    assert any("on_lost failed" in record.message for record in caplog.records)


def test_a_worker_that_is_stopped_before_it_runs_stops(server: Broker) -> None:
    app = Worker(server.url)

    @app.handler("orders", group="biller")
    async def handle(value: str, ctx: Context) -> None: ...

    async def main() -> None:
        serving = asyncio.create_task(app.serve())
        await asyncio.sleep(0)
        serving.cancel()
        await asyncio.wait_for(asyncio.gather(serving, return_exceptions=True), WAIT)

    asyncio.run(main())


def test_the_log_of_a_context_names_the_message(server: Broker, caplog: pytest.LogCaptureFixture) -> None:
    app = Worker(server.url)

    @app.handler("orders", group="biller")
    def handle(value: str, ctx: SyncContext) -> None:
        ctx.log.info("charged %s", value)

    server.client.produce("orders", "x", run_id="r1")
    with caplog.at_level(logging.INFO):
        server.drain(app)
    (record,) = [of for of in caplog.records if of.name == "driftq.handler"]
    assert "attempt=1 run=r1: charged x" in record.getMessage()
    assert record.__dict__["run_id"] == "r1"


@pytest.mark.parametrize("signals", [1, 2])
def test_a_loop_with_signal_handlers_of_its_own_does_not_keep_the_worker_from_stopping(
    server: Broker, tmp_path: Path, signals: int
) -> None:
    program = tmp_path / "worker.py"
    program.write_text(
        "import asyncio, driftq, signal, sys\n"
        "app = driftq.Worker(sys.argv[1])\n"
        "@app.handler('orders', group='biller')\n"
        "async def handle(value, ctx):\n"
        "    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, print)\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.sleep(float(value))\n"
        "app.run()\n"
    )
    server.client.produce("orders", "0.3" if signals == 1 else "60")
    run = [sys.executable, str(program), server.url]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        for _ in range(signals):
            worker.send_signal(signal.SIGTERM)
            time.sleep(0.1)
        try:
            assert worker.wait(WAIT) == signals - 1
        finally:
            worker.kill()


def test_settings_that_cannot_be_are_errors() -> None:
    with pytest.raises(ValueError, match="lease must be between"):
        Worker("http://127.0.0.1:1", lease="100ms")
    with pytest.raises(ValueError, match="concurrency must be between"):
        Worker("http://127.0.0.1:1", concurrency=0)
    with pytest.raises(ValueError, match="a duration must be like"):
        Worker("http://127.0.0.1:1", max_processing="soon")
    with pytest.raises(RuntimeError, match="no handlers"):
        Worker("http://127.0.0.1:1").run()
    app = Worker("http://127.0.0.1:1")

    @app.handler("orders", group="biller")
    def first(value: str, ctx: SyncContext) -> None: ...

    with pytest.raises(ValueError, match="has a handler for orders/biller"):
        app.handler("orders", group="biller")(first)
    with pytest.raises(ValueError, match="on_doubt must be"):
        app.handler("orders", group="other", on_doubt="no")  # type: ignore[arg-type]
