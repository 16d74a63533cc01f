"""SIGTERM and SIGINT, received by a thread.

Python runs a signal handler on the main thread between two instructions, so a handler that blocks the main
thread in C code would keep the worker from stopping. The number of the signal is written to a socket
before that, and a thread reads it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

_logger = logging.getLogger("driftq.worker")

#: The status of a process that was stopped before its handlers had ended.
EXIT_STATUS = 1
_STOPS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stop_at_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Calls ``stop`` at the first signal. The second one ends the process."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("run() receives signals, which only the main thread can; use start() or serve()")
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def received(number: int, _: object) -> None:
        # A loop with signal handlers of its own has replaced the socket, so the number went there.
        other = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        if other != writer.fileno():
            signal.set_wakeup_fd(other)
            writer.send(bytes([number]))

    before = {number: signal.signal(number, received) for number in _STOPS}
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(reader, stop), name="driftq-signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            # None stands for a handler that is not of Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        writer.close()


def _listen(reader: socket.socket, stop: Callable[[], None]) -> None:
    is_stopping = False
    with reader:
        while number := reader.recv(1):
            if number[0] not in _STOPS:
                continue
            if is_stopping:
                _logger.error("a second signal ends the process")
                os._exit(EXIT_STATUS)
            is_stopping = True
            stop()
