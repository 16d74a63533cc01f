"""The agent of the scenarios (``sdks/scenarios``): a worker whose handler is a list of steps. It takes
commands as lines of JSON on its standard input, and writes events as lines of JSON.

``AGENT_KIND`` is ``async`` or ``sync``: handlers are ``async def`` or ``def``. Without it, those that block
are ``def``, as a user would write them.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "src"))

import driftq
from driftq import Context, Execution, SyncContext

#: How long the handler waits for the provider.
PROVIDER_TIME = 0.5
#: An address at which nothing listens.
NOWHERE = "http://127.0.0.1:1"
STEP = 0.01
#: Numbers to add to find out how fast this machine is.
SAMPLE = 2_000_000
ENDS = {"reject", "release", "retry"}

Json = dict[str, Any]
out_lock = threading.Lock()


@dataclass
class Order:
    id: str


class Go:
    """Counts the commands to continue."""

    def __init__(self) -> None:
        self.count = 0


def event(**fields: object) -> None:
    with out_lock:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()


def hold_interpreter(seconds: float) -> None:
    """Runs one call of C code that does not release the interpreter."""
    began = time.monotonic()
    sum(range(SAMPLE))
    sum(range(int(SAMPLE * seconds / (time.monotonic() - began))))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Steps:
    """The steps of a handler. Each runs as code of a user would: see ``run`` and ``run_sync``."""

    def __init__(self, steps: list[Json], provider: str, go: Go) -> None:
        self.steps = steps
        self.provider = provider
        self.go = go

    def blocks(self) -> bool:
        return any(name.startswith(("block", "burn", "hold")) for step in self.steps for name in step)

    async def run(self, order: Order, ctx: Context) -> None:
        how = Report(order, ctx)
        with how:
            for name, of in self.mine(order, ctx):
                match name:
                    case "effect":
                        key = of["key"].replace("{id}", order.id)
                        result = await ctx.effect(key, **self.effect(of, ctx))
                        event(event="effect", key=key, result=result)
                    case "commit":
                        await ctx.commit([ctx.message(topic, json.dumps(order.id)) for topic in of])
                    case "produce":
                        await ctx.client.produce(of, json.dumps(order.id))
                    case "wait_ms":
                        await asyncio.sleep(of / 1000)
                    case "await_go":
                        while self.go.count < of:
                            await asyncio.sleep(STEP)
                    case _:
                        self.block(name, of, ctx)

    def run_sync(self, order: Order, ctx: SyncContext) -> None:
        how = Report(order, ctx)
        with how:
            for name, of in self.mine(order, ctx):
                match name:
                    case "effect":
                        key = of["key"].replace("{id}", order.id)
                        result = ctx.effect(key, **self.effect(of, ctx))
                        event(event="effect", key=key, result=result)
                    case "commit":
                        ctx.commit([ctx.message(topic, json.dumps(order.id)) for topic in of])
                    case "produce":
                        ctx.client.produce(of, json.dumps(order.id))
                    case "wait_ms":
                        ctx.cancelled.wait(of / 1000)
                        ctx.check()
                    case "await_go":
                        while self.go.count < of:
                            ctx.check()
                            time.sleep(STEP)
                    case _:
                        self.block(name, of, ctx)

    def mine(self, order: Order, ctx: Context | SyncContext) -> list[tuple[str, Any]]:
        """The steps of this attempt and message."""
        attempt = ctx.delivery.lease.attempt
        mine = (
            of
            for of in self.steps
            if of.get("attempt", attempt) == attempt and of.get("id", order.id) == order.id
        )
        return [next((name, step[name]) for name in step if name not in ("attempt", "id")) for step in mine]

    def block(self, name: str, of: Any, ctx: Context | SyncContext) -> None:
        """Blocks the thread that it runs on, or ends the handler."""
        match name:
            case "block_ms":
                time.sleep(of / 1000)
            case "burn_ms":
                end = time.monotonic() + of / 1000
                while time.monotonic() < end:
                    pass
            case "hold_interpreter_ms":
                hold_interpreter(of / 1000)
            case "block_until_cancelled_ms":
                end = time.monotonic() + of / 1000
                while not ctx.cancelled.is_set() and time.monotonic() < end:
                    time.sleep(STEP)
                if ctx.cancelled.is_set():
                    raise driftq.Release
            case "fail":
                fail(of)
            case _:
                raise ValueError(f"no step {name}")

    def effect(self, of: Json, ctx: Context | SyncContext) -> Json:
        """The arguments of an effect at the provider."""
        attempt = ctx.delivery.lease.attempt
        here = NOWHERE if of.get("unreachable_in") == attempt else self.provider
        dies = of.get("die") if attempt == 1 else None

        def execute(e: Execution) -> Any:
            if dies == "before":
                die()
            headers = {"idempotency-key": e.downstream_key, "fence": str(e.fence)}
            request = urllib.request.Request(f"{here}/act", b"", headers)
            with driftq.classify_http(), urllib.request.urlopen(request, timeout=PROVIDER_TIME) as response:
                result = json.load(response)
            if dies == "after":
                die()
            return result

        def probe(e: Execution) -> driftq.Happened[Any] | driftq.NotHappened:
            try:
                with urllib.request.urlopen(
                    f"{here}/acts/{e.downstream_key}", timeout=PROVIDER_TIME
                ) as found:
                    return driftq.Happened(json.load(found))
            except urllib.error.HTTPError as error:
                if error.code == http.client.NOT_FOUND:
                    return driftq.NotHappened("not found")
                raise

        return {
            "fn": execute,
            "probe": probe,
            "request": of.get("request"),
            "on_doubt": of["on_doubt"],
            "window": None if of.get("window_ms") is None else of["window_ms"] / 1000,
            "finish": "commit" if of.get("in_commit") else "now",
        }


class Report:
    """Reports how a handler starts and ends."""

    def __init__(self, order: Order, ctx: Context | SyncContext) -> None:
        delivery = ctx.delivery
        self.ctx = ctx
        self.of = {
            "id": order.id,
            "topic": delivery.topic,
            "attempt": delivery.lease.attempt,
            "attempts": delivery.attempts,
        }

    def __enter__(self) -> None:
        event(event="started", **self.of)

    def __exit__(self, kind: object, *_: object) -> None:
        how = "cancelled" if self.ctx.cancelled.is_set() else ("ok" if kind is None else "failed")
        event(event="ended", how=how, **self.of)


def fail(of: Json) -> None:
    after = of["after_ms"] / 1000 if "after_ms" in of else None
    match of["how"]:
        case "panic":
            # What ends a program that is no worker.
            sys.exit("boom")
        case "die":
            die()
        case "reject":
            raise driftq.Reject("rejected")
        case "release":
            raise driftq.Release(after)
        case "retry":
            raise driftq.Retry("later", after or 0)
        case how:
            raise RuntimeError(how)


def make_worker(client: driftq.Client, work: Json, provider: str, go: Go) -> driftq.Worker:
    settings = {
        "lease": "lease_ms",
        "max_processing": "max_processing_ms",
        "shutdown_timeout": "shutdown_timeout_ms",
    }
    times = {name: work[of] / 1000 for name, of in settings.items() if of in work}
    worker = driftq.Worker(client, concurrency=work.get("concurrency", 8), **times)
    for of in work["handlers"]:
        steps = Steps(of["steps"], provider, go)
        kind = os.environ.get("AGENT_KIND") or ("sync" if steps.blocks() else "async")
        worker.handler(of["topic"], group=of["group"])(steps.run_sync if kind == "sync" else steps.run)
    return worker


def produce(client: driftq.Client, messages: list[Json], batch: bool) -> None:
    all_of = [
        driftq.Message(of["topic"], json.dumps(of["value"]), idempotency_key=of.get("idempotency_key"))
        for of in messages
    ]
    try:
        if batch:
            for result in client.produce_batch(all_of):
                report(result)
            return
    except driftq.Error as error:
        report(error)
        return
    for message in all_of:
        try:
            report(client.produce_message(message))
        except driftq.Error as error:
            report(error)


def report(result: driftq.Receipt | driftq.Error) -> None:
    if isinstance(result, driftq.Error):
        code = result.code if isinstance(result, driftq.Refused) else None
        event(event="failed", error=type(result).__name__, code=code)
    else:
        event(event="produced", id=result.id, deduplicated=result.deduplicated)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    client = driftq.Client(os.environ["DRIFTQ_URL"])
    provider, go = os.environ["PROVIDER_URL"], Go()
    works: list[Json] = []
    has_work = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            command = json.loads(line)
            match command["do"]:
                case "produce":
                    arguments = (client, command["messages"], command.get("batch", False))
                    threading.Thread(target=produce, args=arguments, daemon=True).start()
                case "go":
                    go.count += 1
                case "work":
                    works.append(command)
                    has_work.set()

    threading.Thread(target=listen, daemon=True).start()
    # A worker receives signals, so it runs on the main thread.
    has_work.wait()
    worker = make_worker(client, works[0], provider, go)
    event(event="working")
    try:
        worker.run()
    except driftq.WorkerStuck as error:
        event(event="stopped", error=str(error))
        sys.exit(1)
    event(event="stopped", error=None)


if __name__ == "__main__":
    main()
