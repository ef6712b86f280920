"""Ending a turn early: the exceptions that do it, and waiting that gives up when the run is cancelled."""

import contextvars
import os
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from langgraph.errors import GraphBubbleUp

from agentkit import cancel

T = TypeVar("T")
GRACE = 0.5  # seconds for what was told to stop
POLL = 0.05  # seconds between two looks at the stop signal
MOST_IDLE = 8


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

    A function that blocks cannot be stopped from outside. It runs in another thread (in this context), which is then
    left behind: models and tools that watch `agentkit.cancel` end soon after.
    """
    event = cancel.current()
    if event.is_set():
        raise Cancelled  # nothing is begun after the stop
    outcome: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()
    _Worker.free().jobs.put((partial(contextvars.copy_context().run, _outcome_of, work), outcome))
    wait = POLL
    while True:
        try:
            result, error = outcome.get(timeout=wait)
            break
        except queue.Empty:
            if wait == GRACE:
                raise Cancelled from None
            wait = GRACE if event.is_set() else POLL
    if error is not None:
        try:
            raise error
        finally:
            del error, outcome  # the traceback holds this frame: do not hold the traceback back
    return result


def _outcome_of(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:
        return None, error


class _Worker:
    """A daemon thread that is used again: to start one for each call would cost more than the rest of a step."""

    idle: list["_Worker"] = []

    @classmethod
    def free(cls) -> "_Worker":
        try:
            return cls.idle.pop()
        except IndexError:
            return cls()

    def __init__(self):
        self.jobs: queue.SimpleQueue[tuple[Callable[[], tuple], queue.SimpleQueue]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="agentkit-call", daemon=True).start()

    def _work(self) -> None:
        stays = True
        while stays:
            job, outcome = self.jobs.get()
            found = job()
            if stays := len(self.idle) < MOST_IDLE:
                self.idle.append(self)  # before the caller wakes, who may have the next job
            outcome.put(found)
            del job, outcome, found  # what the job held, a model's answer perhaps, must not live until the next one


# A forked process has none of these threads.
os.register_at_fork(after_in_child=_Worker.idle.clear)
