"""Leases are renewed while handlers hold the interpreter, and when the renewal process ends."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from conftest import running, until

from driftq import SyncContext, Worker, _renewals
from driftq.testing import Broker

LEASE = 1.5


def attempts_while(server: Broker, app: Worker, seconds: float) -> int:
    """How often the message is delivered while its handler waits."""
    started = []

    @app.handler("orders", group="biller")
    def wait(value: str, ctx: SyncContext) -> None:
        started.append(ctx.delivery.attempts)
        ctx.cancelled.wait(seconds)

    server.client.produce("orders", "1")
    with running(app):
        until(lambda: started)
        of = app._engine._renewals if app._engine else None
        if isinstance(of, _renewals.ProcessRenewals) and of._child is not None:
            of._child.kill()
        until(lambda: server.client.call("GET", "topics/orders/groups/biller")["backlog"] == 0)
    return len(started)


def test_a_handler_that_holds_the_interpreter_keeps_its_lease(server: Broker) -> None:
    # The proxy of the test is in this process, so it would be held too.
    app = Worker(server._direct.url, lease=LEASE)
    held = []

    @app.handler("orders", group="biller")
    def hold(value: str, ctx: SyncContext) -> None:
        began = time.monotonic()
        # It backtracks in C code, and releases the interpreter nowhere.
        while time.monotonic() - began < 3 * LEASE:
            re.match(r"(a+)+$", "a" * 25 + "b")
        held.append(ctx.delivery.attempts)

    server.client.produce("orders", "1")
    with running(app):
        # On a busy machine, one match takes many seconds, and nothing else runs here meanwhile.
        until(lambda: held, 60)
    assert held == [1]
    assert server.client.call("GET", "topics/orders/groups/biller")["backlog"] == 0


def test_another_renewal_process_continues_with_the_leases(server: Broker) -> None:
    assert attempts_while(server, Worker(server.url, lease=LEASE), 3 * LEASE) == 1


def test_a_thread_renews_where_no_process_can_be_started(
    server: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert attempts_while(server, Worker(server.url, lease=LEASE), 2 * LEASE) == 1
    assert sum("no renewal process" in record.message for record in caplog.records) == 1


def test_a_process_that_is_not_a_renewer_is_replaced_by_a_thread(
    server: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert attempts_while(server, Worker(server.url, lease=LEASE), 2 * LEASE) == 1
    assert sum("no renewal process" in record.message for record in caplog.records) == 1


def test_the_renewal_process_ends_with_a_worker_that_is_killed(server: Broker, tmp_path: Path) -> None:
    program = tmp_path / "worker.py"
    program.write_text(
        "import driftq, sys\n"
        "app = driftq.Worker(sys.argv[1])\n"
        "@app.handler('orders', group='biller')\n"
        "def handle(value, ctx): ...\n"
        "app.start()\n"
        "print(app._engine._renewals._child.pid, flush=True)\n"
        "app.join()\n"
    )
    import sys

    child = subprocess.Popen([sys.executable, str(program), server.url], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout as out:
        renewer = Path("/proc", out.readline().strip())
    assert renewer.exists()
    child.kill()
    child.wait()
    until(lambda: not renewer.exists() or "State:\tZ" in (renewer / "status").read_text())
