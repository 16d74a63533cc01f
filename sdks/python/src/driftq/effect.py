"""Effects: what a handler does in another system, recorded so that it happens once.

The ledger is asked before the effect is executed, and gets the outcome at once. Any exception of the
execution leaves the outcome unknown, because the provider may have acted before it. Only ``NotHappened``
and ``Declined`` say more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from . import _wire
from ._duration import Duration, milliseconds
from ._transport import to_json
from ._values import DecodeError, plain_decoder, to_plain
from .client import nonce
from .errors import Error, Refused, clean, describe
from .outcomes import Declined, Happened, NotHappened, Reject, Release, Retry

OnDoubt = Literal["retry", "probe", "park"]

#: Sends a request of a handler to a path. Raises :class:`Error`.
Call = Callable[[str, object], dict[str, Any]]

#: The server takes this much of an error.
_ERROR_CHARS = 1_000
_CODE_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Execution:
    """The right to execute an effect."""

    #: The idempotency key for the provider. It is the same each time the effect is executed.
    downstream_key: str
    #: A number that grows with each execution, for providers that reject lower ones.
    fence: int


@dataclass(frozen=True, slots=True)
class EffectOptions:
    """The settings of an effect."""

    request: str | None = None
    on_doubt: OnDoubt | None = None
    window: Duration | None = None
    finish: Literal["now", "commit"] = "now"
    returns: Any = Any

    def __post_init__(self) -> None:
        if self.on_doubt not in (None, "retry", "probe", "park"):
            raise ValueError(f'on_doubt must be "retry", "probe" or "park" (got {self.on_doubt!r})')
        if self.finish not in ("now", "commit"):
            raise ValueError(f'finish must be "now" or "commit" (got {self.finish!r})')


@dataclass(frozen=True, slots=True)
class Recorded:
    """The outcome is known."""

    result: Any


@dataclass(frozen=True, slots=True)
class ToDo:
    """The effect has to be executed, or the provider asked about an earlier execution."""

    what: Literal["execute", "probe"]
    token: str
    execution: Execution


class Ledger:
    """The ledger of effects, as one delivery sees it."""

    def __init__(self, call: Call, lease_token: str, owner: str) -> None:
        self._call = call
        self._lease_token = lease_token
        self._owner = owner
        #: Effects can end in several threads at a time.
        self._adding = threading.Lock()
        #: Successes that wait for the commit. They stay until it has succeeded or failed, because the
        #: handler can be cancelled while it commits.
        self.pending: list[_wire.Finish] = []
        #: Is called when outcomes wait for the commit, or no longer do.
        self.on_pending: Callable[[list[_wire.Finish]], None] = lambda pending: None

    def begin(self, key: str, options: EffectOptions) -> Recorded | ToDo:
        """Asks whether to execute an effect. Raises what ends the attempt."""
        body: _wire.Begin = {
            "lease_token": self._lease_token,
            "key": key,
            "nonce": nonce(),
            "owner": self._owner,
        }
        if options.request is not None:
            body["request"] = options.request
        if options.on_doubt is not None:
            body["on_doubt"] = options.on_doubt
        if options.window is not None:
            body["provider_window_ms"] = milliseconds(options.window)
        try:
            began = self._call("effects/begin", body)
        except Refused as refused:
            if refused.code in ("IN_PROGRESS", "IN_DOUBT"):
                raise Release(refused.retry_after) from refused
            raise
        execution = Execution(str(began.get("downstream_key", "")), int(began.get("fence", 0)))
        token = str(began.get("token", ""))
        match began.get("decision"):
            case "EXECUTE":
                return ToDo("execute", token, execution)
            case "IN_DOUBT":
                return ToDo("probe", token, execution)
            case _:
                return Recorded(_recorded(began, options))

    def succeeded(self, token: str, result: object, options: EffectOptions) -> Any:
        """Records a success, and returns the result as a later attempt will get it."""
        finish: _wire.Finish = {"token": token, "status": "SUCCEEDED"}
        try:
            plain = to_plain(result)
            to_json(plain).encode()
        except (TypeError, ValueError, RecursionError) as error:
            # The effect happened, so another attempt is of no use.
            self._record(finish)
            raise Reject(f"the effect succeeded, and its result is not JSON: {describe(error)}") from error
        finish["result"] = plain
        if options.finish == "commit":
            with self._adding:
                self.set_pending([*self.pending, finish])
            return _read(plain, options)
        try:
            self._record(finish)
        except Refused as refused:
            raise Reject(f"the effect succeeded, and its result cannot be recorded: {refused}") from refused
        return _read(plain, options)

    def failed(self, token: str, error: Exception) -> None:
        """Records how an execution ended without success."""
        finish: _wire.Finish = {"token": token, "status": "UNKNOWN", "error": describe(error)[:_ERROR_CHARS]}
        if isinstance(error, NotHappened):
            finish["status"] = "FAILED_RETRYABLE"
        elif isinstance(error, Declined):
            finish["status"] = "FAILED_FINAL"
            finish["code"] = max(-_CODE_MAX, min(error.code, _CODE_MAX))
            finish["error"] = clean(error.reason)[:_ERROR_CHARS]
        self._record(finish)

    def probed(self, token: str, answer: object, options: EffectOptions) -> Any:
        """Records what the provider says about an earlier execution."""
        if isinstance(answer, Happened):
            return self.succeeded(token, answer.result, options)
        if isinstance(answer, NotHappened):
            self.failed(token, answer)
            raise Retry(f"the provider has not executed it: {answer}") from answer
        unclear = TypeError(f"the probe must return Happened or NotHappened (got {type(answer).__name__})")
        self.failed(token, unclear)
        raise unclear

    def probe_failed(self, token: str, error: Exception) -> None:
        """An error of the probe says nothing about the execution, whatever its type."""
        self._record({"token": token, "status": "UNKNOWN", "error": describe(error)[:_ERROR_CHARS]})

    def set_pending(self, pending: list[_wire.Finish]) -> None:
        """Sets the outcomes that wait for the commit."""
        self.pending = pending
        self.on_pending(pending)

    def finish_pending(self) -> None:
        """Records the outcomes that waited for a commit: all that can be, and raises the first error."""
        outcomes = self.pending
        self.set_pending([])
        first: Error | None = None
        for finish in outcomes:
            try:
                self._record(finish)
            except Error as error:
                first = first or error
        if first is not None:
            raise first

    def _record(self, finish: _wire.Finish) -> None:
        """Records an outcome. If its result cannot be stored, the outcome is recorded without it, so that
        it is not unknown, and the rejection is raised."""
        try:
            self._call("effects/finish", finish)
        except Refused:
            if "result" in finish:
                del finish["result"]
                self._call("effects/finish", finish)
            raise


def _recorded(began: dict[str, Any], options: EffectOptions) -> Any:
    if began.get("state") == "SUCCEEDED":
        return _read(began.get("result"), options)
    code = began.get("code")
    raise Declined(str(began.get("error") or "the effect failed"), code if isinstance(code, int) else 0)


def _read(plain: Any, options: EffectOptions) -> Any:
    if options.returns is Any:
        return plain
    try:
        return plain_decoder(options.returns)(plain)
    except DecodeError as error:
        raise DecodeError(f"the result of the effect is not what it returns: {error}") from error
