"""Hands the events of a run to views, and lets the views draw at most twelve times a second.

A view has `take(event)`, which only remembers, and `flush()`, which sends what changed to the front end. It may have
`begin(graph)`, called before the first event with the description of the agent's graph (or None). A view that fails is
left out until the next run begins; neither the run nor the other views notice.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from agentkit.events import Event

REFRESH = 1 / 12


class Stage:
    """The views of a workbench. Every call of a view is made under one lock, so a view needs none of its own."""

    def __init__(self):
        self.lock = threading.RLock()
        self.views: list[Any] = []
        self.failed: dict[int, str] = {}  # id of a view: what went wrong in it

    def join(self, view: Any, graph: dict | None, events: list[Event]) -> None:
        """Add a view, and show it what the others have seen."""
        with self.lock:
            self.views.append(view)
            self._tell(view, "begin", graph)
            for event in events:
                self._tell(view, "take", event)
            self._tell(view, "flush")

    def begin(self, graph: dict | None) -> None:
        """A run begins."""
        with self.lock:
            self.failed.clear()
            self._tell_all("begin", graph)

    def take(self, event: Event) -> None:
        """Hand an event to every view."""
        with self.lock:
            self._tell_all("take", event)

    def flush(self) -> None:
        """Let every view draw."""
        with self.lock:
            before = len(self.failed)
            self._tell_all("flush")
            if len(self.failed) > before:  # for a view that shows what failed
                self._tell_all("flush")

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """Draw now and then while the block runs, also when no event comes."""
        over = threading.Event()

        def draw():
            while not over.wait(REFRESH):
                self.flush()

        thread = threading.Thread(target=draw, name="agentkit-draw", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _tell_all(self, what: str, *args: Any) -> None:
        for view in self.views:
            self._tell(view, what, *args)

    def _tell(self, view: Any, what: str, *args: Any) -> None:
        method: Callable | None = getattr(view, what, None)
        if method is None or id(view) in self.failed:
            return
        try:
            method(*args)
        except Exception as error:  # noqa: BLE001 - a picture that cannot be drawn must not end the run
            self.failed[id(view)] = f"{type(view).__name__} stopped drawing: {type(error).__name__}: {error}"
