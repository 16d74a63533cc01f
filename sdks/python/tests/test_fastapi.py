"""A FastAPI application that produces and runs a worker.

Its dependency is a local variable, so annotations are not texts here.
"""

from dataclasses import dataclass
from typing import Annotated

from conftest import until
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from driftq import AsyncClient, Client, Context, Worker
from driftq.contrib.fastapi import DriftQ
from driftq.testing import Broker


@dataclass
class Order:
    id: str
    cents: int


def test_a_route_produces_and_the_worker_of_the_application_handles(server: Broker) -> None:
    client = Client(server.url)
    worker = Worker(client)

    @worker.handler("orders", group="biller")
    async def bill(order: Order, ctx: Context) -> None:
        await ctx.commit([ctx.message("receipts", order.id)])

    queue = DriftQ(client, worker)
    app = FastAPI(lifespan=queue.lifespan)

    @app.post("/orders")
    async def order(order: Order, to: Annotated[AsyncClient, Depends(queue.client)]) -> str:
        return (await to.produce("orders", order)).topic

    with TestClient(app) as browser:
        assert browser.post("/orders", json={"id": "1", "cents": 3}).json() == "orders"
        until(lambda: server.values("receipts") == ["1"])
    assert worker._engine is not None
    assert not worker._engine.is_running()
