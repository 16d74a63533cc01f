"""Handlers that test_processes.py runs in processes: they must be functions of a module."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import driftq
from driftq import Execution, SyncContext


def handle(value: dict[str, Any], ctx: SyncContext) -> None:
    match value["do"]:
        case "effect":
            result = ctx.effect("charge", lambda e: {"pid": os.getpid(), "key": e.downstream_key})
            ctx.commit([ctx.message("receipts", result)])
        case "fail":
            raise ValueError("boom")
        case "retry":
            if ctx.delivery.attempts == 1:
                raise driftq.Retry("later", "2h")
            ctx.commit([ctx.message("receipts", "retried")])
        case "exit":
            if ctx.delivery.attempts == 1:
                sys.exit(3)
        case "die":
            if ctx.delivery.attempts == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        case "die_with_an_outcome":
            die_with_an_outcome(ctx)
        case "ignore":
            time.sleep(60)


def die_with_an_outcome(ctx: SyncContext) -> None:
    def charge(e: Execution) -> str:
        return "charged once"

    charged = ctx.effect("charge", charge, finish="commit")
    if ctx.delivery.attempts == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ctx.commit([ctx.message("receipts", charged)])
