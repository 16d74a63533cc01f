"""Requests to a DriftQ server.

1. Paths are below ``/v1``; every request carries the API key, if there is one.
2. A rejection is a ``Reply``, not an error: callers match on its status and body.
3. A ``SendError`` means that the outcome of the request is unknown. One exception: if no connection
   could be opened, the request was not sent.
"""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError

#: Idle connections that are kept. More are opened if more threads send at a time.
_KEPT = 64
_CONNECT_TIME = 5.0


@dataclass(frozen=True, slots=True)
class Reply:
    """The status and body of a response. An empty body is an empty object."""

    status: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trace:
    """A W3C trace context."""

    traceparent: str
    tracestate: str | None = None


class SendError(Exception):
    """The request got no complete response."""

    def __init__(self, why: str, *, is_sent: bool = True) -> None:
        super().__init__(why)
        self.is_sent = is_sent


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is, and how to connect."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    certificates: str | None = None

    @staticmethod
    def of(url: str, api_key: str | None, certificates: str | os.PathLike[str] | None) -> Address:
        """Checks the settings. ``url`` may end with ``/v1``."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL must begin with http:// or https:// and name a host (got {url!r})")
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError(f"the URL must not have a user, a query or a fragment (got {url!r})")
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ValueError("the API key must be printable ASCII; does it end with a newline?")
        path = None if certificates is None else os.path.abspath(os.fspath(certificates))
        if path is not None and not os.path.isfile(path):
            raise FileNotFoundError(f"no file with certificates at {path}")
        return Address(url.rstrip("/").removesuffix("/v1"), api_key or None, path)


class Transport:
    """The connections to one server. Threads share it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._headers = {"content-type": "application/json"}
        if address.api_key is not None:
            self._headers["authorization"] = f"Bearer {address.api_key}"
        self._connect()

    def _connect(self) -> None:
        self._pid = os.getpid()
        certificates = {} if self.address.certificates is None else {"ca_certs": self.address.certificates}
        self._pool = urllib3.PoolManager(maxsize=_KEPT, retries=False, **certificates)  # type: ignore[arg-type]

    def send(
        self, method: str, path: str, body: object = None, *, timeout: float, trace: Trace | None = None
    ) -> Reply:
        """Sends a request. Raises ``ValueError`` or ``TypeError`` if the body is not JSON."""
        if os.getpid() != self._pid:
            # A forked process must not use the connections of its parent.
            self._connect()
        data = None if body is None else to_json(body).encode()
        headers = self._headers
        if trace is not None:
            headers = {**headers, "traceparent": trace.traceparent}
            if trace.tracestate:
                headers["tracestate"] = trace.tracestate
        what = f"{method} {path}"
        limit = urllib3.Timeout(connect=min(timeout, _CONNECT_TIME), read=timeout)
        try:
            response = self._pool.request(
                method,
                f"{self.address.url}/v1/{path}",
                body=data,
                headers=headers,
                timeout=limit,
                redirect=False,
            )
        except (NewConnectionError, ConnectTimeoutError) as error:
            raise SendError(f"{what}: {error}", is_sent=False) from error
        except SSLError as error:
            is_untrusted = isinstance(error.args[0], ssl.SSLCertVerificationError) if error.args else False
            raise SendError(f"{what}: {error}", is_sent=not is_untrusted) from error
        except (HTTPError, OSError) as error:
            raise SendError(f"{what}: {error}") from error
        if not response.data:
            return Reply(response.status, {})
        try:
            read = json.loads(response.data)
        except ValueError as error:
            raise SendError(f"{what}: the response ({response.status}) is not JSON") from error
        if not isinstance(read, dict):
            raise SendError(f"{what}: the response ({response.status}) is not that of DriftQ")
        return Reply(response.status, read)

    def close(self) -> None:
        """Closes the idle connections."""
        self._pool.clear()


def to_json(value: object) -> str:
    """The value as JSON. Infinite numbers and NaN are not JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
