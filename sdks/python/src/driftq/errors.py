"""The errors of requests."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """A request did not succeed."""


class Refused(Error):
    """The server rejected the request. It changed nothing."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(status, body)
        #: The HTTP status. 0 for an item of a batch.
        self.status = status
        #: The complete body.
        self.body = body
        #: The code, for example ``NOT_FOUND``.
        self.code: str = _text(body, "error", "UNKNOWN")
        #: The text, for people.
        self.message: str = _text(body, "message", "no message")

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    @property
    def retry_after(self) -> float | None:
        """The seconds until the request can succeed, if the server names them."""
        after = self.body.get("retry_after_ms")
        return after / 1000 if isinstance(after, int) else None


class Unavailable(Error):
    """The server did not handle the request in time. It changed nothing."""

    def __str__(self) -> str:
        return f"the server is unavailable: {super().__str__()}"


class OutcomeUnknown(Error):
    """The request may have been executed."""

    def __str__(self) -> str:
        return f"the outcome is unknown: {super().__str__()}"


class LeaseLost(Error):
    """The attempt has ended, and its result does not count."""

    def __str__(self) -> str:
        return f"the lease is lost: {super().__str__()}"


class WorkerStuck(Exception):
    """Handlers ignored that they were cancelled.

    They may still act, so their messages are delivered again only when their leases end.
    """

    def __init__(self, names: list[str]) -> None:
        super().__init__(names)
        self.names = names

    def __str__(self) -> str:
        return f"handlers did not end when they were cancelled: {', '.join(self.names)}"


class ProcessError(Exception):
    """The exception of a handler that ran in a process, as text, or the end of that process."""


def of_refusal(status: int, body: dict[str, Any]) -> Error:
    """The error of a rejected request."""
    refused = Refused(status, body)
    # The attempt has ended, or the token is of another server.
    is_of_the_lease = refused.code == "STALE_LEASE" or (
        refused.code == "INVALID_ARGUMENT" and body.get("field") in ("token", "lease_token")
    )
    return LeaseLost(refused.message) if is_of_the_lease else refused


def of_item(body: dict[str, Any]) -> Error:
    """The error of an item of a batch."""
    outcome = body.get("outcome")
    message = _text(body, "message", "no message")
    if outcome == "none":
        return Unavailable(message)
    if outcome is not None:
        return OutcomeUnknown(message)
    return of_refusal(0, body)


def describe(error: BaseException) -> str:
    """The type and the text of an error of the caller's code, whose text may fail."""
    if isinstance(error, ProcessError):
        return clean(error.args[0])
    try:
        text = str(error)
    except Exception:
        text = ""
    name = type(error).__name__
    return clean(f"{name}: {text}" if text else name)


def clean(text: str) -> str:
    """The text as the server takes it. Names of files, for example, may have lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def _text(body: dict[str, Any], name: str, otherwise: str) -> str:
    text = body.get(name)
    return text if isinstance(text, str) else otherwise
