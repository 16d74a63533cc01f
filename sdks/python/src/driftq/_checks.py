"""Reads parsed JSON as dataclasses, typed dictionaries and the types of ``typing``.

Numbers, texts and booleans are not converted into each other. Fields that a type does not have are
ignored, so that a producer can add some.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Check = Callable[[Any], Any]


def check_type(annotation: Any) -> None:
    """Raises ``TypeError`` if JSON cannot be read as this type."""
    checker(annotation)


def checker(annotation: Any) -> Check:
    """What reads parsed JSON as this type. It raises ``ValueError`` that names the place."""
    return _checker(annotation, {})


def _checker(annotation: Any, known: dict[Any, list[Check]]) -> Check:
    if annotation in (Any, object):
        return lambda value: value
    if annotation in (None, types.NoneType):
        return lambda value: _expect(value is None, "null", value)
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Annotated, Required, NotRequired):
        return _checker(arguments[0], known)
    if origin is Literal:
        return _literal(arguments)
    if origin in (Union, types.UnionType):
        return _union([_checker(of, known) for of in arguments], annotation)
    if annotation in (list, Sequence) or origin in (list, Sequence):
        return _list(_checker(arguments[0], known) if arguments else lambda value: value)
    if annotation is tuple or origin is tuple:
        return _tuple([_checker(of, known) for of in arguments if of is not ...], ... in arguments)
    if annotation in (dict, Mapping) or origin in (dict, Mapping):
        if arguments and arguments[0] is not str:
            raise TypeError(f"the keys of JSON objects are strings, so {annotation!r} cannot be read")
        return _dict(_checker(arguments[1], known) if arguments else lambda value: value)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _enum(annotation)
    if dataclasses.is_dataclass(annotation) or is_typeddict(annotation):
        return _fields(annotation, known)
    raise TypeError(f"values of type {annotation!r} cannot be read from JSON")


def _expect(is_valid: bool, what: str, value: Any) -> Any:
    if not is_valid:
        raise ValueError(f"expected {what}, got {type(value).__name__}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_SIMPLE: dict[Any, Check] = {
    str: lambda value: _expect(isinstance(value, str), "a string", value),
    bool: lambda value: _expect(isinstance(value, bool), "true or false", value),
    int: lambda value: _expect(isinstance(value, int) and not isinstance(value, bool), "an integer", value),
    float: lambda value: float(_expect(_is_number(value), "a number", value)),
}


def _at(place: object, check: Check, value: Any) -> Any:
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _literal(values: tuple[Any, ...]) -> Check:
    def check(value: Any) -> Any:
        for of in values:
            if of == value and type(of) is type(value):
                return of
        raise ValueError(f"expected one of {', '.join(map(repr, values))}, got {value!r}")

    return check


def _union(checks: list[Check], annotation: Any) -> Check:
    def check(value: Any) -> Any:
        reasons = []
        for of in checks:
            try:
                return of(value)
            except ValueError as error:
                reasons.append(str(error))
        raise ValueError("; ".join(dict.fromkeys(reasons)))

    return check


def _list(item: Check) -> Check:
    def check(value: Any) -> list[Any]:
        _expect(isinstance(value, list), "a list", value)
        return [_at(f"[{at}]", item, of) for at, of in enumerate(value)]

    return check


def _tuple(items: list[Check], is_repeated: bool) -> Check:
    def check(value: Any) -> tuple[Any, ...]:
        _expect(isinstance(value, list), "a list", value)
        of = items * len(value) if is_repeated else items
        if items and len(of) != len(value):
            raise ValueError(f"expected {len(of)} items, got {len(value)}")
        return tuple(_at(f"[{at}]", of[at], item) if of else item for at, item in enumerate(value))

    return check


def _dict(item: Check) -> Check:
    def check(value: Any) -> dict[str, Any]:
        _expect(isinstance(value, dict), "an object", value)
        return {name: _at(name, item, of) for name, of in value.items()}

    return check


def _enum(of: type[Enum]) -> Check:
    def check(value: Any) -> Enum:
        try:
            return of(value)
        except ValueError:
            raise ValueError(f"expected a value of {of.__name__}, got {value!r}") from None

    return check


def _fields(annotation: Any, known: dict[Any, list[Check]]) -> Check:
    if annotation in known:
        # A type can contain itself. Its checker exists before the first value is read.
        return lambda value: known[annotation][0](value)  # noqa: PLW0108
    known[annotation] = []
    hints = get_type_hints(annotation, include_extras=True)
    if is_typeddict(annotation):
        make: Callable[..., Any] = dict
        # Where annotations are texts, the class does not know which of its keys are not required.
        optional = {name for name, of in hints.items() if get_origin(of) is NotRequired}
        required = set(annotation.__required_keys__) - optional
        names = set(hints)
    else:
        make = annotation
        fields = [of for of in dataclasses.fields(annotation) if of.init]
        unset = dataclasses.MISSING
        required = {of.name for of in fields if of.default is unset and of.default_factory is unset}
        names = {of.name for of in fields}
    checks = {name: _checker(hint, known) for name, hint in hints.items() if name in names}

    def check(value: Any) -> Any:
        _expect(isinstance(value, dict), "an object", value)
        for name in required:
            if name not in value:
                raise ValueError(f"{name}: is missing")
        return make(**{name: _at(name, of, value[name]) for name, of in checks.items() if name in value})

    known[annotation].append(check)
    return check
