"""Durations: ``"24h"``, seconds, or a ``timedelta``."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TypeAlias

Duration: TypeAlias = str | float | timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_TEXT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def seconds(duration: Duration) -> float:
    """The duration in seconds."""
    if isinstance(duration, timedelta):
        value = duration.total_seconds()
    elif isinstance(duration, str):
        match = _TEXT.fullmatch(duration.strip())
        if match is None:
            raise ValueError(
                f'a duration must be like "500ms", "30s", "5m", "24h" or "7d" (got {duration!r})'
            )
        value = float(match[1]) * _UNITS[match[2]]
    else:
        value = float(duration)
    if not 0 <= value < math.inf:
        raise ValueError(f"a duration must not be negative or infinite (got {duration!r})")
    return value


def milliseconds(duration: Duration) -> int:
    """The duration in whole milliseconds."""
    return round(seconds(duration) * 1000)
