"""Figures: what a thread costs on the local store, in bytes and in time, beside LangGraph's SqliteSaver.

Storage is counted: the files of a thread of so many messages of 200 random letters (they do not compress away), a
question and an answer a turn. Time is paired: both savers run the same turns in turn, every write durable.
"""

import math
import random
import sqlite3
import string
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentkit.bench.figure import Figure, Tick, pairs

STORAGE = Figure("threads", "storage of a thread of 1000 messages of 200 characters", "MB", 4.0, higher=False)
SLOPE = Figure("threads", "log-log slope of storage over messages", "", 1.1, higher=False)
STEP = Figure("threads", "time of a superstep, durable, against SqliteSaver", "x", 1.0, higher=False)
LIST = Figure("threads", "list(limit=10) of a long history, against a short one", "x", 1.5, higher=False)
OPEN = Figure("threads", "opening the newest state of a long history, against a short one", "x", 1.5, higher=False)
FIGURES = (STORAGE, SLOPE, STEP, LIST, OPEN)


def measure(quick: bool, tick: Tick) -> list[Figure]:
    """All five; `quick` stops at 1000 messages and 500 checkpoints instead of 5000."""
    most = 1000 if quick else 5000
    total = most + 100
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = storage(folder / "storage", most, lambda done, _: tick(done, total))
        long, short = history(folder / "long", most // 2 if quick else most), history(folder / "short", 50)
        listed = pairs(lambda: _seconds(long, _list), lambda: _seconds(short, _list), 15, _quiet)
        opened = pairs(lambda: _seconds(long, _open), lambda: _seconds(short, _open), 15, _quiet)
    tick(most + 50, total)
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = _chat(_ours(Path(name) / "ours")), _chat(_sqlite(Path(name) / "sqlite"))
        steps = pairs(lambda: turns(ours), lambda: turns(theirs), 6 if quick else 20, _quiet)
    tick(total, total)
    first, last = (250 if quick else 1000), max(sizes)
    slope = math.log(sizes[last] / sizes[first]) / math.log(last / first)
    count = most // 2 if quick else most
    return [
        STORAGE.found(sizes[1000] / 1e6, "bytes of all files", sizes=list(sizes.values()), at=list(sizes)),
        SLOPE.found(slope, f"from {first} to {last} messages, which take {sizes[last] / 1e6:.2f} MB"),
        STEP.found(steps.ratio, f"{len(steps.first)} pairs of 10 turns", steps.spread, ours=steps.first,
                   sqlite=steps.second),
        LIST.found(listed.ratio, f"{count} checkpoints against 50, each opened anew; a state of one size", listed.spread),
        OPEN.found(opened.ratio, f"{count} checkpoints against 50, each opened anew; a state of one size", opened.spread),
    ]


def storage(folder: Path, most: int, tick: Tick) -> dict[int, int]:
    """Bytes of a thread's files at 100, 250, 500, 1000, ... messages."""
    graph, sizes = _chat(_ours(folder)), {}
    marks = [mark for mark in (100, 250, 500, 1000, 2000, 5000) if mark <= most]
    for number in range(1, most // 2 + 1):
        _turn(graph)
        if 2 * number in marks:
            sizes[2 * number] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if number % 25 == 0:
            tick(2 * number, most)
    return sizes


def history(folder: Path, checkpoints: int) -> Path:
    """A store with one thread of so many checkpoints, whose state stays as small as it began."""
    from langgraph.checkpoint.base import empty_checkpoint

    saver = _ours(folder)
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for number in range(checkpoints):
        checkpoint = {**empty_checkpoint(), "channel_values": {"number": number, "text": "x" * 200},
                      "channel_versions": {"number": number + 1, "text": 1}}
        config = saver.put(config, checkpoint, {"source": "loop", "step": number}, {"number": number + 1})
    return folder


def turns(graph: Any, count: int = 10) -> float:
    """Seconds of so many turns of three checkpoints each, every one on the disk before the next step."""
    began = time.perf_counter()
    for _ in range(count):
        _turn(graph)
    return time.perf_counter() - began


_letters = random.Random(0)


def _text() -> str:
    return "".join(_letters.choices(string.ascii_letters + " ", k=200))


def _chat(saver: Any) -> Any:
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage(_text())]})
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def _turn(graph: Any) -> None:
    from langchain_core.messages import HumanMessage

    graph.invoke({"messages": [HumanMessage(_text())]}, {"configurable": {"thread_id": "t"}}, durability="sync")


def _ours(folder: Path) -> Any:
    from agentkit.checkpoints.saver import AgentkitSaver

    return AgentkitSaver(folder)


def _sqlite(folder: Path) -> Any:
    from langgraph.checkpoint.sqlite import SqliteSaver

    folder.mkdir(parents=True)
    return SqliteSaver(sqlite3.connect(folder / "threads.sqlite", check_same_thread=False))


def _seconds(folder: Path, look: Callable[[Any], Any]) -> float:
    saver = _ours(folder)
    began = time.perf_counter()
    look(saver)
    return time.perf_counter() - began


def _list(saver: Any) -> None:
    found = list(saver.list({"configurable": {"thread_id": "t"}}, limit=10))
    if len(found) != 10:
        raise ValueError(f"list(limit=10) gave {len(found)} checkpoints")


def _open(saver: Any) -> None:
    if saver.get_tuple({"configurable": {"thread_id": "t"}}) is None:
        raise ValueError("the thread is not there")


def _quiet(done: int, total: int) -> None:
    pass
