"""A server with TLS and an API key: the client and the renewal process connect to it."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import running, until

import driftq
from driftq import Client, SyncContext, Worker

LEASE = 1.5
KEY = secrets.token_hex(32)
CERTIFICATE = (
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=driftq "
    "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE "
    "-keyout tls.key -out tls.crt"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    subprocess.run(["openssl", *CERTIFICATE.split()], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "api.key").write_text(KEY + "\n")
    (tmp_path / "api.key").chmod(0o600)
    (tmp_path / "tls.key").chmod(0o600)
    program = os.environ.get("DRIFTQ_BIN") or shutil.which("driftq") or "driftq"
    options = "serve --data data --tls-cert-file tls.crt --tls-key-file tls.key --api-key-file api.key"
    child = subprocess.Popen(
        [program, *options.split(), "--listen", "127.0.0.1:0"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    line = child.stdout.readline()
    try:
        yield line.strip().removeprefix("listening on ")
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_lease_is_renewed_over_tls_with_a_key(server: str, tmp_path: Path) -> None:
    client = Client(server, api_key=KEY, certificates=tmp_path / "tls.crt")
    client.call("POST", "topics", {"name": "orders"})
    app, attempts = Worker(client, lease=LEASE), []

    @app.handler("orders", group="biller")
    def handle(value: str, ctx: SyncContext) -> None:
        attempts.append(ctx.delivery.attempts)
        time.sleep(2.5 * LEASE)

    client.produce("orders", "1")
    with running(app):
        until(lambda: attempts)
    assert attempts == [1]
    assert client.call("GET", "topics/orders/groups/biller")["backlog"] == 0


def test_a_server_that_is_not_trusted_gets_nothing(server: str) -> None:
    with pytest.raises(driftq.Unavailable, match="certificate"):
        Client(server, api_key="secret", timeout=0.5).produce("orders", "1")


def test_a_wrong_key_is_rejected(server: str, tmp_path: Path) -> None:
    with pytest.raises(driftq.Refused) as refused:
        Client(server, api_key="wrong", certificates=tmp_path / "tls.crt").produce("orders", "1")
    assert refused.value.code == "UNAUTHENTICATED"
