"""Generated from docs/reference/openapi.json by generate_wire.py. Do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

class Began(TypedDict):
    action: NotRequired[Literal['probe', 'park']]
    code: NotRequired[int]
    decision: Literal['EXECUTE', 'REPLAY', 'RETRYABLE', 'IN_DOUBT', 'IN_PROGRESS']
    doubt: NotRequired[Doubt]
    downstream_key: NotRequired[str]
    downstream_until: NotRequired[str]
    error: NotRequired[str]
    expires_at: NotRequired[str]
    fence: int
    finished_at: NotRequired[str]
    key: str
    replay_until: NotRequired[str]
    result: NotRequired[Any]
    result_base64: NotRequired[str]
    scope: str
    state: NotRequired[Literal['IN_PROGRESS', 'IN_DOUBT', 'PARKED', 'SUCCEEDED', 'FAILED_FINAL', 'FAILED_RETRYABLE']]
    status: NotRequired[Literal['PENDING', 'COMMITTED', 'FAILED']]
    tenant_id: str
    token: NotRequired[str]


class Begin(TypedDict):
    key: NotRequired[str]
    lease_ms: NotRequired[int]
    lease_token: NotRequired[str]
    nonce: NotRequired[str]
    on_doubt: NotRequired[Literal['retry', 'probe', 'park']]
    owner: NotRequired[str]
    provider_window_ms: NotRequired[int]
    request: NotRequired[str]
    request_hash: NotRequired[str]
    scope: NotRequired[str]
    tenant_id: NotRequired[str]
    ttl_ms: NotRequired[int]


class Commit(TypedDict):
    dead_letter: NotRequired[bool]
    delay_ms: NotRequired[int]
    effects: NotRequired[list[Finish]]
    pointers: NotRequired[list[SetPointer]]
    produce: NotRequired[list[Produce]]
    reason: NotRequired[str]
    result: NotRequired[Any]
    settle: NotRequired[Literal['ack', 'nack']]
    token: str


class Death(TypedDict):
    attempts: int
    dead_at: str
    first_delivered_at: NotRequired[str]
    group: str
    idempotency_key: NotRequired[str]
    last_error: str
    last_owner: str
    origin: Origin
    produced_at: str
    reason: Literal['exhausted', 'rejected', 'deadline', 'undeliverable']
    tenant_id: str


class Delivery(TypedDict):
    attempts: int
    dlq: NotRequired[Death]
    envelope: NotRequired[Envelope]
    group: str
    id: str
    key: str
    last_error: str
    lease: Lease
    offset: int
    origin_id: str
    partition: int
    produced_at: str
    redriven: NotRequired[Redriven]
    routing: NotRequired[Routing]
    tenant_id: str
    topic: str
    trace: NotRequired[Trace]
    value: NotRequired[str]
    value_base64: NotRequired[str]


class Doubt(TypedDict):
    began_at: str
    cause: Literal['lease_expired', 'reported', 'abandoned']
    fence: int
    owner: NotRequired[str]
    since: str


class Envelope(TypedDict):
    deadline: NotRequired[str]
    headers: NotRequired[dict[str, str]]
    idempotency_key: NotRequired[str]
    labels: NotRequired[dict[str, str]]
    parent_step_id: NotRequired[str]
    partition_override: NotRequired[int]
    retry_policy: NotRequired[RetryPolicy]
    run_id: NotRequired[str]
    step_id: NotRequired[str]
    target_topic: NotRequired[str]
    tenant_id: NotRequired[str]


class Finish(TypedDict):
    code: NotRequired[int]
    downstream_key: NotRequired[Literal['keep', 'renew']]
    error: NotRequired[str]
    result: NotRequired[Any]
    result_base64: NotRequired[str]
    status: Literal['SUCCEEDED', 'FAILED_FINAL', 'FAILED_RETRYABLE', 'UNKNOWN']
    token: str


class Lease(TypedDict):
    attempt: int
    expires_at: str
    token: str


class Origin(TypedDict):
    id: str
    offset: int
    partition: int
    topic: str


class Produce(TypedDict):
    envelope: NotRequired[Envelope]
    key: NotRequired[str]
    nonce: NotRequired[str]
    topic: str
    value: NotRequired[str]
    value_base64: NotRequired[str]


class Receipt(TypedDict):
    deduplicated: bool
    final_topic: NotRequired[str]
    id: str
    offset: int
    partition: int
    status: Literal['produced']
    topic: str


class Receive(TypedDict):
    group: str
    lease_ms: NotRequired[int]
    max: NotRequired[int]
    owner: str
    start: NotRequired[Literal['earliest', 'latest']]
    topic: str
    wait_ms: NotRequired[int]
    worker: NotRequired[Worker]


class Redriven(TypedDict):
    origin_id: str
    times: int


class RetryPolicy(TypedDict):
    backoff_ms: NotRequired[int]
    max_attempts: NotRequired[int]
    max_backoff_ms: NotRequired[int]


class Routing(TypedDict):
    label: str
    meta: NotRequired[dict[str, str]]
    partition_override: NotRequired[int]
    target_topic: NotRequired[str]


class SetPointer(TypedDict):
    checksum: NotRequired[str]
    dataset: str
    location: str
    partition_key: str
    replace: NotRequired[bool]
    version: str


class SettleItem(TypedDict):
    dead_letter: NotRequired[bool]
    delay_ms: NotRequired[int]
    group: NotRequired[str]
    lease_ms: NotRequired[int]
    offset: NotRequired[int]
    op: Literal['ack', 'nack', 'extend']
    owner: NotRequired[str]
    partition: NotRequired[int]
    reason: NotRequired[str]
    release: NotRequired[bool]
    token: NotRequired[str]
    topic: NotRequired[str]


class Trace(TypedDict):
    traceparent: str
    tracestate: NotRequired[str]


class Worker(TypedDict):
    concurrency: NotRequired[int]
    host: NotRequired[str]
    id: str
    pid: NotRequired[int]
    sdk: NotRequired[str]
    version: NotRequired[str]
