"""A suite as a user writes it: 50 tests of a worker, most with retries of hours. test_testing.py runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import driftq
from driftq import Context, Execution, SyncContext, Worker
from driftq.testing import Broker, How, broker


@dataclass
class Order:
    id: str
    cents: int


class Bank:
    """A provider that deduplicates by the idempotency key."""

    def __init__(self) -> None:
        self.calls = 0
        self.charges: dict[str, str] = {}
        self.failures: list[Exception] = []
        self.failures_after_acting: list[Exception] = []

    def charge(self, e: Execution) -> str:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        charge = self.charges.setdefault(e.downstream_key, f"ch_{len(self.charges) + 1}")
        if self.failures_after_acting:
            raise self.failures_after_acting.pop(0)
        return charge


def async_worker(server: Broker, bank: Bank) -> Worker:
    app = Worker(server.url)

    @app.handler("orders", group="biller", on_doubt="retry", window="24h")
    async def bill(order: Order, ctx: Context) -> None:
        charge = await ctx.effect(f"charge-{order.id}", bank.charge, request=str(order.cents))
        await ctx.commit(produce=[ctx.message("receipts", {"id": order.id, "charge": charge})])

    return app


def sync_worker(server: Broker, bank: Bank) -> Worker:
    app = Worker(server.url)

    @app.handler("orders", group="biller", on_doubt="retry", window="24h")
    def bill(order: Order, ctx: SyncContext) -> None:
        charge = ctx.effect(f"charge-{order.id}", bank.charge, request=str(order.cents))
        ctx.commit(produce=[ctx.message("receipts", {"id": order.id, "charge": charge})])

    return app


WORKERS = pytest.mark.parametrize("make", [async_worker, sync_worker])


@pytest.fixture
def server() -> Iterator[Broker]:
    with broker("receipts") as of:
        # An hour before the second attempt, two before the third.
        backoff = {"max_attempts": 6, "backoff_ms": 3_600_000, "max_backoff_ms": 14_400_000}
        of.create("orders", retry_policy=backoff)
        of.client.produce("orders", Order("1", 1200))
        yield of


def receipts(server: Broker) -> list[Any]:
    return [json.loads(value) for value in server.values("receipts")]


@WORKERS
@pytest.mark.parametrize("failures", range(5))
def test_an_order_is_charged_after_some_hours(server: Broker, make: Any, failures: int) -> None:
    bank = Bank()
    bank.failures = [driftq.NotHappened("closed") for _ in range(failures)]
    began = server.advance("1ms")
    server.drain(make(server, bank))
    assert receipts(server) == [{"id": "1", "charge": "ch_1"}]
    assert bank.calls == failures + 1
    hours = (server.advance("1ms") - began).total_seconds() / 3600
    # The backoff has jitter, downwards.
    assert hours >= failures * 0.4


@WORKERS
@pytest.mark.parametrize("route", ["receive", "effects/begin", "effects/finish", "commit"])
@pytest.mark.parametrize("how", ["lost_reply", "unavailable", "busy"])
def test_a_fault_of_the_network_is_not_a_second_charge(
    server: Broker, make: Any, route: str, how: How
) -> None:
    bank = Bank()
    server.fail(next=route, how=how)
    if (route, how) == ("receive", "lost_reply"):
        # The reply had the message, so its lease has to end.
        with pytest.raises(driftq.OutcomeUnknown):
            server.run_once(make(server, bank))
        server.advance("1m")
    server.drain(make(server, bank))
    assert receipts(server) == [{"id": "1", "charge": "ch_1"}]
    assert len(bank.charges) == 1


@WORKERS
@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_a_timeout_of_the_bank_is_not_a_second_charge(server: Broker, make: Any, times: int) -> None:
    bank = Bank()
    bank.failures_after_acting = [TimeoutError("no answer") for _ in range(times)]
    server.drain(make(server, bank))
    assert receipts(server) == [{"id": "1", "charge": "ch_1"}]
    assert (bank.calls, len(bank.charges)) == (times + 1, 1)


@WORKERS
def test_a_declined_card_is_a_dead_letter_after_one_call(server: Broker, make: Any) -> None:
    bank = Bank()
    bank.failures = [driftq.Declined("insufficient funds", 402)]
    server.drain(make(server, bank))
    assert receipts(server) == []
    assert bank.calls == 1
    assert [letter["dlq"]["last_error"] for letter in server.dead_letters("orders")] == ["insufficient funds"]


@WORKERS
def test_an_order_without_cents_is_a_dead_letter(server: Broker, make: Any) -> None:
    server.client.produce("orders", {"id": "2"})
    server.drain(make(server, Bank()))
    (letter,) = server.dead_letters("orders")
    assert letter["dlq"]["last_error"] == "decode: cents: is missing"


@WORKERS
def test_the_backoff_is_an_hour(server: Broker, make: Any) -> None:
    bank = Bank()
    bank.failures = [driftq.NotHappened("closed")]
    app = make(server, bank)
    assert server.run_once(app) == 1
    assert server.run_once(app) == 0
    server.advance("1h")
    assert server.run_once(app) == 1
    assert receipts(server) == [{"id": "1", "charge": "ch_1"}]


@WORKERS
def test_many_orders_are_charged_once_each(server: Broker, make: Any) -> None:
    bank = Bank()
    server.client.produce_batch(driftq.Message("orders", Order(str(n), n)) for n in range(2, 30))
    server.fail(next="settle", how="lost_reply")
    server.drain(make(server, bank))
    assert len(receipts(server)) == 29
    assert len(bank.charges) == 29
