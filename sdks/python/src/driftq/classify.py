"""Classifies the failure of the one HTTP request that executes an effect."""

from __future__ import annotations

import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .outcomes import Declined, NotHappened

#: The provider may be working on the request, or on an earlier one with the same key.
_UNCLEAR = (408, 409, 425)


@contextmanager
def classify_http() -> Iterator[None]:
    """Turns the exceptions of requests, httpx, urllib3 and urllib into outcomes.

    A refused connection and a 429 did not happen, and other 4xx are declined, except 408, 409 and 425.
    Everything else passes, and leaves the outcome unknown: timeouts, broken connections and 5xx.

    Only the one request that acts belongs inside, sent without retries of its own: if a request after
    it fails, the one before may have acted. ::

        with classify_http():
            response = requests.post(url, headers={"Idempotency-Key": e.downstream_key})
            response.raise_for_status()
    """
    try:
        yield
    except Exception as error:
        status = _status_of(error)
        if status is not None:
            check_status(status, str(error))
        elif _is_refused(error):
            raise NotHappened(str(error)) from error
        raise


def check_status(status: int, why: str = "") -> None:
    """Raises what the HTTP status of a response says about the effect, if it says something."""
    why = why or f"HTTP status {status}"
    if status == 429:
        raise NotHappened(why)
    if 400 <= status < 500 and status not in _UNCLEAR:
        raise Declined(why, status)


def _status_of(error: Exception) -> int | None:
    if isinstance(error, urllib.error.HTTPError):
        return error.code
    # requests.HTTPError and httpx.HTTPStatusError.
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _is_refused(error: Any) -> bool:
    """Whether no connection was opened. The libraries are recognized by names, so none is imported."""
    if isinstance(error, ConnectionRefusedError):
        return True
    names = {f"{of.__module__.split('.')[0]}.{of.__name__}" for of in type(error).__mro__}
    if names & {"httpx.ConnectError", "urllib3.NewConnectionError"}:
        return True
    if names & {"requests.ConnectionError"}:
        return bool(error.args) and _is_refused(error.args[0])
    if isinstance(error, urllib.error.URLError) or "urllib3.MaxRetryError" in names:
        return _is_refused(error.reason)
    return False
