"""Values are read as the annotation of the handler says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from driftq import Context, DecodeError, SyncContext, Worker
from driftq._values import decoder, encode, value_type


class Currency(Enum):
    EUR = "eur"


@dataclass
class Line:
    name: str
    cents: int = 0


@dataclass
class Order:
    id: str
    lines: list[Line] = field(default_factory=list)
    currency: Currency | None = None
    parent: Order | None = None


class Event(TypedDict):
    kind: Literal["paid", "refunded"]
    at: float
    note: NotRequired[str]


class Model(pydantic.BaseModel):
    id: str
    cents: Annotated[int, pydantic.Field(gt=0)]


class Struct(msgspec.Struct):
    id: str
    cents: int


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Order, Order("1", [Line("a", 3)], Currency.EUR, Order("0"))),
        (Event, Event(kind="paid", at=1.5)),
        (Model, Model(id="1", cents=2)),
        (Struct, Struct(id="1", cents=2)),
        (bytes, b"\x00\xff"),
        (str, "é"),
        (Any, {"a": [1, None, True]}),
        (dict[str, int], {"a": 1}),
        (tuple[str, int], ("a", 1)),
        (int | None, None),
    ],
)
def test_what_is_produced_is_what_the_handler_gets(annotation: Any, value: object) -> None:
    encoded = encode(value)
    data = encoded.encode() if isinstance(encoded, str) else encoded
    assert decoder(annotation)(data) == value


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (Order, b"{}", "id: is missing"),
        (Order, b'{"id":1}', "id: expected a string, got int"),
        (
            Order,
            b'{"id":"1","lines":[{"name":"a","cents":true}]}',
            r"lines: \[0\]: cents: expected an integer",
        ),
        (Order, b'{"id":"1","currency":"usd"}', "expected a value of Currency"),
        (Order, b"nonsense", "not JSON"),
        (Event, b'{"kind":"lost","at":1}', "kind: expected one of 'paid', 'refunded'"),
        (Model, b'{"id":"1","cents":0}', "greater than 0"),
        (Struct, b'{"id":"1"}', "cents"),
        (str, b"\xff", "utf-8"),
        (int, b"1.5", "expected an integer, got float"),
    ],
)
def test_a_value_of_another_type_is_an_error_that_names_the_place(
    annotation: Any, value: bytes, why: str
) -> None:
    with pytest.raises(DecodeError, match=why):
        decoder(annotation)(value)


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, object(), {"a": {1, 2}}])
def test_a_value_that_is_not_json_is_an_error(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode(value)


def test_the_type_is_that_of_the_first_parameter() -> None:
    def text(value: bytes, ctx: SyncContext) -> None: ...

    class Callable_:
        async def __call__(self, value: Order, ctx: Context) -> None: ...

    def none(value, ctx):  # type: ignore[no-untyped-def]
        ...

    assert (value_type(text), value_type(Callable_()), value_type(none)) == (bytes, Order, Any)


def test_a_type_that_json_does_not_have_is_an_error_at_once() -> None:
    app = Worker("http://127.0.0.1:1")

    def handle(value: Callable[[], None], ctx: SyncContext) -> None: ...

    with pytest.raises(TypeError, match="cannot be read from JSON"):
        app.handler("orders", group="biller")(handle)
