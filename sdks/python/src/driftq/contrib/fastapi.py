"""DriftQ in a FastAPI application. Needs ``driftq[fastapi]``. ::

queue = DriftQ(Client("http://127.0.0.1:8080"), worker)
app = FastAPI(lifespan=queue.lifespan)

@app.post("/orders")
async def order(order: Order, client: Annotated[AsyncClient, Depends(queue.client)]) -> str:
    return (await client.produce("orders", order)).id
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ..client import AsyncClient, Client
from ..worker import Worker

_logger = logging.getLogger("driftq.worker")


class DriftQ:
    """A client for the routes of an application, and a worker that runs on its loop, if there is one."""

    def __init__(self, client: Client, worker: Worker | None = None) -> None:
        self._client = client
        self._worker = worker

    def client(self) -> AsyncClient:
        """A dependency of routes."""
        return AsyncClient(self._client)

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Starts the worker with the application, and waits at its end until the worker has stopped."""
        running = None if self._worker is None else asyncio.create_task(self._worker.serve())
        if running is not None:
            running.add_done_callback(_report)
        try:
            yield
        finally:
            if self._worker is not None and running is not None:
                self._worker.stop()
                await asyncio.wait([running])
            self._client.close()


def _report(worker: asyncio.Task[None]) -> None:
    if not worker.cancelled() and (error := worker.exception()) is not None:
        _logger.error("the worker of the application ended", exc_info=error)
