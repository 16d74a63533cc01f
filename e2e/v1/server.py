"""Starts, stops, kills and restarts one server process for the tests."""

from __future__ import annotations

import collections
import http.client
import itertools
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from client import Client

HOST = "127.0.0.1"
ENGINE = os.environ.get("V1_ENGINE", "memory")
BINARY = os.environ.get("V1_BINARY", str(Path(__file__).resolve().parents[2] / "target/debug/driftq"))
# `e2e/with-postgres` gives the directory of its socket.
SOCKET = dict(part.split("=") for part in os.environ.get("DRIFTQ_TEST_POSTGRES", "").split())
DATABASE_URL = os.environ.get(
    "V1_DATABASE_URL", f"postgresql://postgres@/postgres?host={SOCKET.get('host', '')}")
# A slow machine may need this long to start the process and open its storage.
START_TIMEOUT = 60.0

_numbers = itertools.count(1)


def durable() -> bool:
    """Whether the engine of this run keeps its state across a restart."""
    return ENGINE != "memory"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def _psql(statement: str) -> None:
    program = shutil.which("psql") or "/usr/lib/postgresql/15/bin/psql"
    subprocess.run([program, DATABASE_URL, "-q", "-v", "ON_ERROR_STOP=1",
                    "-c", statement], check=True, capture_output=True, text=True)


class Server:
    """One server with storage of its own. The storage outlives a restart."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = tempfile.mkdtemp(prefix="driftq-v1-")
        self._log: collections.deque[str] = collections.deque(maxlen=20)
        self._database = ""
        self.port = _free_port()
        if ENGINE == "postgres":
            self._database = f"v1_{os.getpid()}_{next(_numbers)}"
            _psql(f"create database {self._database}")

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def client(self) -> Client:
        return Client(HOST, self.port)

    def _arguments(self) -> list[str]:
        arguments = [BINARY, "serve", "--profile", "v1", "--listen", f"{HOST}:{self.port}",
                     "--engine", ENGINE, *self._options]
        if ENGINE == "sqlite":
            arguments += ["--data", str(Path(self._directory) / "data")]
        if ENGINE == "postgres":
            url = urlsplit(DATABASE_URL)
            arguments += ["--database-url", urlunsplit(url._replace(path="/" + self._database))]
        return arguments

    def start(self) -> None:
        # restore_signals=False keeps SIGXFSZ ignored in the child, so that a
        # write beyond the file size limit is an error and not a death. The log
        # is a pipe, because the limit would stop writes to a log file too.
        self._process = subprocess.Popen(self._arguments(), stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         restore_signals=False)
        threading.Thread(target=self._read_log, args=(self._process,), daemon=True).start()
        end = time.monotonic() + START_TIMEOUT
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended at start: {self._log_tail()}")
            try:
                if self.client.healthz().status == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)
        raise RuntimeError(f"the server did not become healthy: {self._log_tail()}")

    def _read_log(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as log:
            for line in log:
                self._log.append(line.decode("utf-8", "replace"))

    def _log_tail(self) -> str:
        return "".join(self._log).strip()

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            os.kill(self._process.pid, number)
        try:
            self._process.wait(20.0)
        except subprocess.TimeoutExpired:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(20.0)
        self._process = None

    def stop(self) -> None:
        """Ask the process to end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the process without a chance to finish anything."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def crash_and_restart(self) -> None:
        self.kill()
        self.start()

    def break_storage(self) -> None:
        """Make every write to the storage fail until repair_storage()."""
        if ENGINE == "postgres":
            _psql(f"alter database {self._database} allow_connections false")
            _psql("select pg_terminate_backend(pid) from pg_stat_activity "
                  f"where datname = '{self._database}'")
        else:
            assert self._process is not None
            _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (1, hard))

    def repair_storage(self) -> None:
        if ENGINE == "postgres":
            _psql(f"alter database {self._database} allow_connections true")
        elif self.running():
            assert self._process is not None
            _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    def close(self) -> None:
        """End the process and remove its storage."""
        self.stop()
        if self._database:
            _psql(f"drop database if exists {self._database}")
        shutil.rmtree(self._directory, ignore_errors=True)
