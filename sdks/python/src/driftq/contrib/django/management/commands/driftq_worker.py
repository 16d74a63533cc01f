"""``manage.py driftq_worker``"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from driftq.contrib.django import database_connections
from driftq.worker import Worker


class Command(BaseCommand):
    help = "Run a DriftQ worker until SIGTERM or SIGINT"

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument(
            "worker", nargs="?", help='where the worker is, for example "shop.tasks.worker" [DRIFTQ_WORKER]'
        )

    def handle(self, *_: Any, worker: str | None, **__: Any) -> None:
        path = worker or getattr(settings, "DRIFTQ_WORKER", None)
        if path is None:
            raise CommandError("name the worker, or set DRIFTQ_WORKER")
        try:
            found = import_string(path)
        except ImportError as error:
            raise CommandError(f"no worker at {path}: {error}") from error
        if not isinstance(found, Worker):
            raise CommandError(f"{path} is not a driftq.Worker")
        found.middleware(database_connections)
        topics = ", ".join(f"{topic}/{group}" for topic, group in found.handles)
        self.stdout.write(f"working on {topics}")
        found.run()
