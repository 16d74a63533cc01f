"""The types of the wire are those of openapi.json."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_generated_types_are_up_to_date() -> None:
    script = Path(__file__).parents[1] / "generate_wire.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)
