"""The worker of the project."""

from django.conf import settings
from django.db import connection

from driftq import SyncContext, Worker

worker = Worker(settings.DRIFTQ_URL)


@worker.handler("orders", group="biller")
def bill(value: str, ctx: SyncContext) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT upper(%s)", [value])
        (upper,) = cursor.fetchone()
    ctx.commit([ctx.message("receipts", upper)])
