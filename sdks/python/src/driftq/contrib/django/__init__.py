"""DriftQ in a Django project. Needs ``driftq[django]``. ::

    INSTALLED_APPS = [..., "driftq.contrib.django"]
    DRIFTQ_URL = "http://127.0.0.1:8080"
    DRIFTQ_WORKER = "shop.tasks.worker"

``manage.py driftq_worker`` runs the worker. ``client()`` is for views.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from driftq.client import Client
from driftq.context import BaseContext, SyncContext


@cache
def client() -> Client:
    """The client of ``DRIFTQ_URL``, with ``DRIFTQ_API_KEY`` and ``DRIFTQ_CERTIFICATES`` if they are set."""
    from django.conf import settings

    return Client(
        settings.DRIFTQ_URL,
        api_key=getattr(settings, "DRIFTQ_API_KEY", None),
        certificates=getattr(settings, "DRIFTQ_CERTIFICATES", None),
    )


@contextmanager
def database_connections(ctx: BaseContext) -> Iterator[None]:
    """A middleware that does for each message what Django does for each request: it closes connections to
    the database that are broken or too old."""
    from django.db import close_old_connections

    # Those of an async handler belong to other threads.
    if not isinstance(ctx, SyncContext):
        yield
        return
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
