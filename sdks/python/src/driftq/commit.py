"""The commit of a handler: ack, outcomes and next messages at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _wire
from ._values import to_plain
from .effect import Call, Ledger
from .errors import Error, Refused
from .message import Message
from .outcomes import Retry

UNSET = object()


def commit(
    call: Call,
    ledger: Ledger,
    token: str,
    *,
    produce: Sequence[Message],
    pointers: Sequence[Mapping[str, Any]],
    result: object = UNSET,
) -> None:
    """Commits. If the server rejects the commit, the outcomes of its effects are recorded before the
    attempt fails: a known outcome is never left unfinished."""
    body: _wire.Commit = {"token": token}
    if produce:
        body["produce"] = [message.to_wire() for message in produce]
    if pointers:
        body["pointers"] = [dict(pointer) for pointer in pointers]  # type: ignore[misc]
    if result is not UNSET:
        body["result"] = to_plain(result)
    if ledger.pending:
        body["effects"] = list(ledger.pending)
    try:
        call("commit", body)
    except Refused as refused:
        ledger.finish_pending()
        raise Retry(f"the commit was rejected: {refused}") from refused
    except Error as error:
        # Also if the commit may have happened, or the lease is lost: the server accepts an outcome that
        # it has, and a late one of the last execution.
        try:
            ledger.finish_pending()
        except Error as unfinished:
            error.add_note(f"an outcome was not recorded: {unfinished}")
        raise
    ledger.set_pending([])
