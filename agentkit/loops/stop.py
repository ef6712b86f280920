"""Ending a turn early: the exceptions that do it, and waiting that gives up when the run is cancelled."""

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

from langgraph.errors import GraphBubbleUp

from agentkit import cancel

T = TypeVar("T")
GRACE = 0.5


class TurnEnded(GraphBubbleUp):
    """Ends the turn: `reason` for `events.RunEnded`, the text for the user.

    A GraphBubbleUp, because that is the one kind of exception which LangGraph's error handlers for tools, its retries
    and its checkpoints let pass.
    """

    def __init__(self, reason: str, text: str):
        super().__init__(text)
        self.reason = reason


class Cancelled(TurnEnded):
    """The user stopped the run."""

    def __init__(self):
        super().__init__("cancel", "Stopped.")


def or_cancelled(work: Callable[[], T]) -> T:
    """The result of `work()`, or Cancelled once the run is cancelled and `work` has not ended within GRACE seconds.

    A function that blocks cannot be stopped from outside. It runs in a thread of its own (in this context), which is
    left behind: models and tools that watch `agentkit.cancel` end soon after.
    """
    event, done, box = cancel.current(), threading.Event(), []

    def run():
        try:
            box.append((work(), None))
        except BaseException as error:
            box.append((None, error))
        done.set()

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="agentkit-call", daemon=True).start()
    while not done.wait(0.05):
        if event.is_set():
            if not done.wait(GRACE):
                raise Cancelled
    result, error = box[0]
    if error is not None:
        try:
            raise error
        finally:
            del error, box  # the traceback holds this frame: do not hold the traceback back
    return result
