"""Registers tests with the numbers of the statements that they show."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any, Callable

from client import Client


@dataclass
class Test:
    name: str
    numbers: tuple[str, ...]
    run: Callable[..., None]
    # "durable", "memory", "slow" or "" if the test runs on every engine.
    needs: str
    # A fresh test gets a server of its own; the others share one client.
    fresh: bool


TESTS: list[Test] = []

_topic_numbers = itertools.count(1)


def holds(*numbers: str, needs: str = "", fresh: bool = False) -> Callable[..., Any]:
    """Mark a function as a test that asserts the given statements."""
    def register(function: Callable[..., None]) -> Callable[..., None]:
        name = f"{function.__module__}.{function.__name__}"
        TESTS.append(Test(name, numbers, function, needs, fresh))
        return function
    return register


def new_topic(client: Client, partitions: int = 1) -> str:
    """Create a topic that no other test uses."""
    name = f"topic-{next(_topic_numbers)}"
    answer = client.create_topic(name, partitions)
    equal(answer.status, 201, f"status of creating {name} ({answer})")
    return name


def check(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def equal(got: Any, want: Any, what: str) -> None:
    if got != want or type(got) is not type(want):
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def eventually(condition: Callable[[], bool], what: str, timeout: float = 15.0) -> None:
    """Wait until the condition holds; used where no time is promised."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {what}")
        time.sleep(0.05)
