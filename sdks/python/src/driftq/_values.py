"""Values of messages: encoded by their type, decoded by the annotation of the handler.

``bytes`` and ``str`` are the value as it is. Everything else is JSON. A decoder checks what it reads: a
value that is not what the annotation says raises ``DecodeError``.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections.abc import Callable
from enum import Enum
from typing import Any, get_type_hints

from ._checks import check_type, checker
from ._transport import to_json

Decoder = Callable[[bytes], Any]


class DecodeError(ValueError):
    """The value is not of the type that the handler takes."""


def encode(value: object) -> str | bytes:
    """The value of a message. Raises ``TypeError`` or ``ValueError`` if it is not JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return to_json(to_plain(value))


def to_plain(value: object) -> Any:
    """The value as JSON takes it: models and dataclasses become dictionaries."""
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, Enum)):
        return value
    if isinstance(value, dict):
        return {_name(name): to_plain(of) for name, of in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(of) for of in value]
    if isinstance(value, Enum):
        return to_plain(value.value)
    if _is_struct(type(value)):
        return sys.modules["msgspec"].to_builtins(value)
    if _is_model(type(value)):
        return value.model_dump(mode="json")  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {of.name: to_plain(getattr(value, of.name)) for of in dataclasses.fields(value)}
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")


def decoder(annotation: Any) -> Decoder:
    """What reads values of this type. Raises ``TypeError`` if values cannot have this type."""
    if annotation is bytes:
        return bytes
    if annotation is str:
        return _text
    if isinstance(annotation, type) and _is_struct(annotation):
        decode = sys.modules["msgspec"].json.Decoder(annotation).decode
        return lambda value: _guard(decode, value)
    if isinstance(annotation, type) and _is_model(annotation):
        validate = annotation.model_validate_json  # type: ignore[attr-defined]
        return lambda value: _guard(validate, value)
    check = checker(annotation)
    return lambda value: _guard(check, _json(value))


def plain_decoder(annotation: Any) -> Callable[[Any], Any]:
    """Like :func:`decoder`, for a value that is parsed already."""
    if isinstance(annotation, type) and _is_struct(annotation):
        convert = sys.modules["msgspec"].convert
        return lambda value: _guard(lambda of: convert(of, annotation), value)
    if isinstance(annotation, type) and _is_model(annotation):
        validate = annotation.model_validate  # type: ignore[attr-defined]
        return lambda value: _guard(validate, value)
    check_type(annotation)
    check = checker(annotation)
    return lambda value: _guard(check, value)


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


def value_type(fn: Callable[..., Any]) -> Any:
    """The annotation of the first parameter."""
    parameters = list(inspect.signature(fn).parameters.values())
    if len(parameters) < 2:
        raise TypeError(f"a handler takes the value and the context: {fn!r}")
    first = parameters[0]
    if first.annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(first.annotation, str):
        return first.annotation
    of = fn if inspect.isroutine(fn) else type(fn).__call__
    try:
        return get_type_hints(of, include_extras=True)[first.name]
    except NameError as error:
        raise TypeError(
            f"{first.name}: {first.annotation} is not at the top level of its module: {error}"
        ) from error


def _guard(decode: Callable[[Any], Any], value: Any) -> Any:
    try:
        return decode(value)
    except Exception as error:
        # Each library has its own errors, and validators of the caller raise what they like.
        raise DecodeError(str(error)) from error


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(str(error)) from error


def _json(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from error


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a key of a dictionary must be a string (got {name!r})")
    return name


def _is_struct(of: type) -> bool:
    # Its class exists only if the library has been imported.
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and issubclass(of, msgspec.Struct)


def _is_model(of: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(of, pydantic.BaseModel)
