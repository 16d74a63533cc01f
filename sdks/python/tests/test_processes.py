"""Handlers that run in processes."""

from __future__ import annotations

import json
import os

import pytest
from conftest import running, until
from handlers_in_processes import handle

from driftq import SyncContext, Worker
from driftq.testing import Broker


def make_worker(server: Broker) -> Worker:
    app = Worker(server.url, concurrency=2, shutdown_timeout=0.2)
    app.handler("orders", group="biller", on_doubt="park", kind="process")(handle)
    return app


def test_effects_and_commits_of_a_process_are_recorded(server: Broker) -> None:
    server.client.produce("orders", {"do": "effect"})
    server.drain(make_worker(server))
    (receipt,) = server.values("receipts")
    assert json.loads(receipt)["pid"] != os.getpid()
    assert json.loads(receipt)["key"].startswith("dq_")


@pytest.mark.parametrize("how", ["exit", "die"])
def test_the_end_of_a_process_is_a_failed_attempt(server: Broker, how: str) -> None:
    server.client.produce("orders", {"do": how})
    server.drain(make_worker(server))
    assert server.dead_letters("orders") == []


def test_an_exception_of_a_process_is_the_reason(server: Broker) -> None:
    server.client.produce("orders", {"do": "fail"})
    server.drain(make_worker(server))
    (letter,) = server.dead_letters("orders")
    assert letter["dlq"]["last_error"] == "ValueError: boom"


def test_what_a_process_raises_decides_about_the_message(server: Broker) -> None:
    server.client.produce("orders", {"do": "retry"})
    server.drain(make_worker(server))
    assert server.values("receipts") == ["retried"]


def test_a_known_outcome_outlives_its_process(server: Broker) -> None:
    server.client.produce("orders", {"do": "die_with_an_outcome"})
    server.drain(make_worker(server))
    assert server.values("receipts") == ["charged once"]
    assert server.effects("PARKED") == []


def test_a_process_that_ignores_its_cancellation_is_killed_and_its_message_released(server: Broker) -> None:
    server.client.produce("orders", {"do": "ignore"})
    app = make_worker(server)
    group = "topics/orders/groups/biller"
    with running(app):
        until(lambda: app._engine is not None and app._engine.handled == 1)
    of = server.client.call("GET", group)
    assert (of["leased"], of["backlog"]) == (0, 1)


def test_a_function_that_no_process_can_import_is_an_error(server: Broker) -> None:
    app = Worker(server.url)

    @app.handler("orders", group="biller", kind="process")
    def inner(value: str, ctx: SyncContext) -> None: ...

    with pytest.raises(TypeError, match="must be a function of a module"):
        app.start()
