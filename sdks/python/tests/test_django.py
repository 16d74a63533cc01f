"""``manage.py driftq_worker`` of a real project, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from conftest import WAIT, until

from driftq.testing import Broker

PROJECT = Path(__file__).with_name("django_project")


def manage(server: Broker, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", "driftq_worker", *arguments],
        cwd=PROJECT,
        env={**os.environ, "DRIFTQ_URL": server.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_command_runs_the_worker_until_sigterm(server: Broker) -> None:
    server.client.produce("orders", "paid")
    with manage(server) as command:
        try:
            until(lambda: server.values("receipts") == ["PAID"])
            command.send_signal(signal.SIGTERM)
            assert command.wait(WAIT) == 0
        finally:
            command.kill()


def test_a_worker_that_does_not_exist_is_an_error(server: Broker) -> None:
    with manage(server, "tasks.nothing") as command:
        out, _ = command.communicate(timeout=WAIT)
    assert "no worker at tasks.nothing" in out
    assert command.returncode == 1
