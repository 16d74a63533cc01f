"""A small client for the DriftQ v1 HTTP API."""

from __future__ import annotations

import http.client
import json
import queue
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

# Long enough for a slow machine, short enough that a stuck server fails a test.
REQUEST_TIMEOUT = 30.0


@dataclass
class Answer:
    """One complete HTTP response."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The body as a JSON object; an empty object if it is not one."""
        try:
            value = json.loads(self.raw)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def rejected(self) -> bool:
        """The server understood the request and refused it."""
        return 400 <= self.status < 500

    def __str__(self) -> str:
        return f"{self.status} {self.raw.decode('utf-8', 'replace').strip()}"


@dataclass
class Message:
    """One line of a consume stream, with the time at which it arrived."""

    fields: dict[str, Any]
    line: bytes
    at: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        return self.line.decode("utf-8", "replace").strip()

    @property
    def partition(self) -> int:
        return self.fields["partition"]

    @property
    def offset(self) -> int:
        return self.fields["offset"]

    @property
    def attempts(self) -> int:
        return self.fields["attempts"]

    @property
    def key(self) -> str:
        # The key is optional, so an absent key is the same as an empty one.
        return self.fields.get("key") or ""

    @property
    def value(self) -> str:
        return self.fields["value"]

    @property
    def last_error(self) -> str:
        return self.fields.get("last_error") or ""

    @property
    def envelope(self) -> dict[str, Any]:
        return self.fields.get("envelope") or {}


class Consumer:
    """An open consume stream, read by a thread of its own."""

    def __init__(self, client: "Client", topic: str, group: str, owner: str,
                 lease_ms: int | None = None, as_json: bool = False) -> None:
        self.client = client
        self.topic = topic
        self.group = group
        self.owner = owner
        self.status: int | None = None
        self.content_type = ""
        self.refusal = ""
        self.ended = False
        self._messages: queue.Queue[Message] = queue.Queue()
        self._opened = threading.Event()
        self._closed = False
        fields: dict[str, Any] = {"topic": topic, "group": group, "owner": owner}
        if lease_ms is not None:
            fields["lease_ms"] = lease_ms
        path, body = "/v1/consume", None
        if as_json:
            body = json.dumps(fields)
        else:
            path += "?" + urlencode(fields)
        # The stream stays silent while there is nothing to deliver, so reads
        # have no timeout; close() ends them.
        self._connection = http.client.HTTPConnection(client.host, client.port)
        self._connection.connect()
        # The connection gives its socket away once the response has started,
        # so close() needs a reference of its own.
        self._socket = self._connection.sock
        headers = {"Content-Type": "application/json"} if body else {}
        self._connection.request("GET", path, body=body, headers=headers)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        # The specification does not say when the response headers are sent,
        # so a stream that is still silent after this wait counts as open.
        self._opened.wait(2.0)

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        try:
            response = self._connection.getresponse()
            self.content_type = response.getheader("Content-Type") or ""
            self.status = response.status
            self._opened.set()
            if response.status != 200:
                self.refusal = response.read().decode("utf-8", "replace").strip()
            while response.status == 200:
                line = response.readline()
                if not line:
                    return
                if line.strip():
                    self._messages.put(Message(json.loads(line), line))
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            # The stream ended, either by close() or by the server.
            pass
        finally:
            self.ended = True
            self._opened.set()

    def next(self, timeout: float = 15.0) -> Message:
        """The next message; a failure if none arrives in time."""
        message = self.poll(timeout)
        if message is None:
            raise AssertionError(
                f"no message on {self.topic} for {self.group}/{self.owner} within {timeout:g} s "
                f"(stream status {self.status}{self.refusal and ' ' + self.refusal})")
        return message

    def poll(self, timeout: float) -> Message | None:
        """The next message, or None if none arrives in time."""
        try:
            return self._messages.get(timeout=timeout)
        except queue.Empty:
            if self.ended:
                # Silence of a stream that is not open would prove nothing.
                raise AssertionError(
                    f"the stream of {self.topic} for {self.group}/{self.owner} ended: "
                    f"status {self.status} {self.refusal}")
            return None

    def ack(self, message: Message, as_json: bool = True) -> Answer:
        return self.client.ack(self.topic, self.group, message.partition, message.offset,
                               self.owner, as_json=as_json)

    def nack(self, message: Message, reason: str | None = None, as_json: bool = True) -> Answer:
        return self.client.nack(self.topic, self.group, message.partition, message.offset,
                                self.owner, reason, as_json=as_json)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            # Only a shutdown wakes the reader; a close alone leaves it blocked.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join(5.0)
        self._connection.close()


class Client:
    """The endpoints of the API, each as one method."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def request(self, method: str, path: str, fields: dict[str, Any] | None = None,
                query: dict[str, Any] | None = None) -> Answer:
        """Send `fields` as a JSON body and `query` as query parameters."""
        if query:
            path += "?" + urlencode(query)
        body = None if fields is None else json.dumps(fields)
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=REQUEST_TIMEOUT)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            raw = response.read()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, raw)
        finally:
            connection.close()

    def _send(self, path: str, fields: dict[str, Any], as_json: bool) -> Answer:
        if as_json:
            return self.request("POST", path, fields=fields)
        return self.request("POST", path, query=fields)

    def healthz(self) -> Answer:
        return self.request("GET", "/v1/healthz")

    def version(self) -> Answer:
        return self.request("GET", "/v1/version")

    def topics(self) -> Answer:
        return self.request("GET", "/v1/topics")

    def create_topic(self, name: str, partitions: int = 1, as_json: bool = True) -> Answer:
        return self._send("/v1/topics", {"name": name, "partitions": partitions}, as_json)

    def produce(self, topic: str, value: str, key: str | None = None,
                envelope: dict[str, Any] | None = None) -> Answer:
        fields: dict[str, Any] = {"topic": topic, "value": value}
        if key is not None:
            fields["key"] = key
        if envelope is not None:
            fields["envelope"] = envelope
        return self.request("POST", "/v1/produce", fields=fields)

    def produce_by_query(self, topic: str, value: str, **optional: Any) -> Answer:
        return self.request("POST", "/v1/produce",
                            query={"topic": topic, "value": value, **optional})

    def consume(self, topic: str, group: str, owner: str, lease_ms: int | None = None,
                as_json: bool = False) -> Consumer:
        return Consumer(self, topic, group, owner, lease_ms, as_json)

    def ack(self, topic: str, group: str, partition: int, offset: int, owner: str,
            as_json: bool = True) -> Answer:
        return self._send("/v1/ack", {"topic": topic, "group": group, "partition": partition,
                                      "offset": offset, "owner": owner}, as_json)

    def nack(self, topic: str, group: str, partition: int, offset: int, owner: str,
             reason: str | None = None, as_json: bool = True) -> Answer:
        fields: dict[str, Any] = {"topic": topic, "group": group, "partition": partition,
                                  "offset": offset, "owner": owner}
        if reason is not None:
            fields["reason"] = reason
        return self._send("/v1/nack", fields, as_json)
