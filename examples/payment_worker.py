"""Charges an order once, whatever dies in between.

driftq dev --topic orders --topic receipts
pip install ./sdks/python && python examples/payment_worker.py
curl -s 127.0.0.1:8080/v1/produce -d '{"topic":"orders","value":"{\"id\":\"77\",\"cents\":1200}"}'
"""

import asyncio
import logging
import os
from dataclasses import dataclass

from driftq import Context, Declined, Worker


@dataclass
class Order:
    id: str
    cents: int


app = Worker(os.environ.get("DRIFTQ_URL", "http://127.0.0.1:8080"))


# The provider deduplicates by the downstream key for a day.
@app.handler("orders", group="biller", concurrency=8, on_doubt="retry", window="24h")
async def bill(order: Order, ctx: Context) -> None:
    charge = await ctx.effect(
        f"charge-{order.id}", lambda e: charge_card(order.cents, e.downstream_key), request=str(order.cents)
    )
    ctx.log.info("order %s is charged: %s", order.id, charge)
    await ctx.commit(produce=[ctx.message("receipts", {"charge": charge})])


async def charge_card(cents: int, idempotency_key: str) -> str:
    """Stands for the request to a payment provider."""
    if cents > 1_000_000:
        raise Declined("card_declined", 402)
    await asyncio.sleep(0.05)
    return f"ch_{idempotency_key[3:11]}"


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    app.run()
