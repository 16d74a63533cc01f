"""Sends requests again, as far as that is safe.

The body of an error says whether the request happened: its ``outcome`` is ``none`` or ``unknown``. A
broken connection is unknown, and one that could not be opened is none. After an unknown outcome, only
a request that the server recognizes is sent again.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

from ._transport import Reply, SendError, Trace, Transport
from .errors import OutcomeUnknown, Unavailable, of_refusal

#: The longest wait before the second request, and before any.
_BACKOFF_FIRST, _BACKOFF_MAX = 0.05, 5.0
#: How long one request may take, if it can be sent again.
_REQUEST_TIME = 10.0


@dataclass(frozen=True, slots=True)
class _NotNow:
    """The request did not happen. Try again, after this time if the server names one."""

    why: str
    after: float | None = None
    refusal: Reply | None = None


@dataclass(frozen=True, slots=True)
class _Refusal:
    reply: Reply


@dataclass(frozen=True, slots=True)
class _Unknown:
    why: str


_Attempt = dict[str, Any] | _NotNow | _Refusal | _Unknown


def call(
    transport: Transport,
    path: str,
    body: object = None,
    *,
    is_repeatable: bool,
    timeout: float,
    trace: Trace | None = None,
    method: str | None = None,
) -> dict[str, Any]:
    """Sends a request until it succeeds, is rejected, or ``timeout`` ends.

    ``is_repeatable``: the server recognizes a repeat, by a key, a token or a nonce.
    """
    began = time.monotonic()
    backoff, unknown = _BACKOFF_FIRST, None
    verb = method or ("GET" if body is None else "POST")
    while True:
        left = max(timeout - (time.monotonic() - began), 0.001)
        # A connection that hangs must leave time for another one.
        within = min(left, _REQUEST_TIME) if is_repeatable else left
        attempt = _send(transport, verb, path, body, within, trace)
        after, refusal = None, None
        match attempt:
            case dict():
                return attempt
            case _Refusal(reply):
                if unknown is not None and reply.status in (401, 403, 404):
                    # It says nothing about the earlier request.
                    raise OutcomeUnknown(_message(reply))
                raise of_refusal(reply.status, reply.body)
            case _NotNow():
                why, after, refusal = attempt.why, attempt.after, attempt.refusal
            case _Unknown(why):
                if not is_repeatable:
                    raise OutcomeUnknown(why)
                unknown = why
        wait = backoff * random.random() if after is None else after
        if time.monotonic() - began + wait >= timeout:
            # A later answer says nothing about an earlier request.
            if unknown is not None:
                raise OutcomeUnknown(unknown)
            if refusal is not None:
                raise of_refusal(refusal.status, refusal.body)
            raise Unavailable(why)
        backoff = min(backoff * 2, _BACKOFF_MAX)
        time.sleep(wait)


def _send(
    transport: Transport, method: str, path: str, body: object, timeout: float, trace: Trace | None
) -> _Attempt:
    try:
        reply = transport.send(method, path, body, timeout=timeout, trace=trace)
    except SendError as error:
        return _Unknown(str(error)) if error.is_sent else _NotNow(str(error))
    if 200 <= reply.status < 300:
        return reply.body
    outcome, after = reply.body.get("outcome"), reply.body.get("retry_after_ms")
    after = after / 1000 if isinstance(after, int) else None
    if reply.status == 429:
        return _NotNow(_message(reply), after, reply)
    if reply.status in (408, 503) and outcome == "none":
        return _NotNow(_message(reply), after)
    if reply.status == 408 or (reply.status >= 500 and outcome != "none"):
        return _Unknown(_message(reply))
    return _Refusal(reply)


def _message(reply: Reply) -> str:
    message = reply.body.get("message")
    return message if isinstance(message, str) else f"HTTP status {reply.status} without a message"
