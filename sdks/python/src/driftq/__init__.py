"""Client and worker runtime for DriftQ, a durable queue in which a side effect happens once.

:class:`Client` produces messages. :class:`Worker` receives them, runs a handler for each, renews the lease
while the handler runs, and settles the message. In the handler, ``ctx.effect`` records what happened in
other systems, and ``ctx.commit`` acks the message and produces the next ones at once. ::

    @dataclass
    class Order:
        id: str
        cents: int

    app = Worker("http://127.0.0.1:8080")

    @app.handler("orders", group="biller", on_doubt="retry", window="24h")
    async def bill(order: Order, ctx: Context) -> None:
        charge = await ctx.effect(
            f"charge-{order.id}",
            lambda e: charge_card(order.cents, e.downstream_key),
            request=str(order.cents),
        )
        await ctx.commit(produce=[ctx.message("receipts", {"charge": charge})])

    app.run()

A value is read as the annotation of the handler says: ``bytes`` and ``str`` are the value as it is. From
JSON come dataclasses, typed dictionaries, models of pydantic, structs of msgspec, and the types of
``typing``. Without an annotation it is any JSON.
"""

from ._transport import Trace
from ._values import DecodeError
from ._version import __version__
from .classify import check_status, classify_http
from .client import AsyncClient, Client
from .context import Context, SyncContext
from .delivery import Delivery, Lease
from .effect import Execution, OnDoubt
from .errors import Error, LeaseLost, OutcomeUnknown, Refused, Unavailable, WorkerStuck
from .message import Message, Receipt
from .outcomes import Cancelled, Declined, Happened, NotHappened, Reject, Release, Retry
from .producer import Producer
from .worker import Worker

__all__ = [
    "AsyncClient",
    "Cancelled",
    "Client",
    "Context",
    "Declined",
    "DecodeError",
    "Delivery",
    "Error",
    "Execution",
    "Happened",
    "Lease",
    "LeaseLost",
    "Message",
    "NotHappened",
    "OnDoubt",
    "OutcomeUnknown",
    "Producer",
    "Receipt",
    "Refused",
    "Reject",
    "Release",
    "Retry",
    "SyncContext",
    "Trace",
    "Unavailable",
    "Worker",
    "WorkerStuck",
    "__version__",
    "check_status",
    "classify_http",
]
