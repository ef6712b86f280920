"""Figure: how long the last whole `make test` took, read from the file that it leaves behind."""

import os
import re
import time
from importlib.resources import files
from pathlib import Path

from agentkit.bench.figure import Figure, Tick

FIGURES = (Figure("tests", "whole make test", "min", 20.0, higher=False),)


def seconds_file() -> Path:
    """Where `make test` writes the seconds it took, once it passed."""
    return Path(str(files("agentkit"))).parent / "build" / "test-seconds"


def measure(quick: bool, tick: Tick) -> list[Figure]:
    """Minutes of the last run; not measured where there was none."""
    path = seconds_file()
    try:
        minutes = float(re.match(r"\s*(\d+(?:\.\d+)?)", path.read_text()).group(1)) / 60
        age = (time.time() - path.stat().st_mtime) / 3600
        how = f"the last run, {age:.1f} hours ago, on a machine with {os.cpu_count()} cores"
    except (OSError, AttributeError):
        minutes, how = None, "not measured: run make test first"
    tick(1, 1)
    return [FIGURES[0].found(minutes, how)]
