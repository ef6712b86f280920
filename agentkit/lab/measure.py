"""Figures for comparing code that does the same: its size, its ending, its time, the functions it enters."""

import inspect
import statistics
import sys
import threading
import time
from collections.abc import Callable


def code_lines(*parts: object) -> int:
    """Lines of source of functions, classes or modules, without blank lines and comments; docstrings count."""
    lines = [line.strip() for part in parts for line in inspect.getsource(part).splitlines()]
    return sum(1 for line in lines if line and not line.startswith("#"))


def outcome(work: Callable[[], object]) -> str:
    """How `work` ends, in words: its result, or that it ended in silence or broke off with an exception."""
    try:
        return str(work()).strip() or "ends in silence: an empty answer"
    except Exception as error:  # noqa: BLE001 - any exception is an ending
        return f"the run breaks off: {type(error).__name__}"


def ratio(work: Callable[[], object], beside: Callable[[], object], pairs: int = 7) -> float:
    """Time of `work` divided by that of `beside`: the median over `pairs` runs of one right after the other.

    Paired, because a machine's speed changes from minute to minute and both halves of a pair feel the same.
    """
    work(), beside()  # the first run of either loads what it needs
    return statistics.median(_seconds(work) / _seconds(beside) for _ in range(pairs))


def entered(work: Callable[[], object]) -> int:
    """How many different Python functions `work` enters, in this thread and in those it starts; its second run counts."""
    work()
    seen = set()

    def note(frame, event, _):
        if event == "call":
            seen.add(frame.f_code)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return len(seen)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
