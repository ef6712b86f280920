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
GRACE = 0.5
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
    event, done, box = cancel.current(), threading.Event(), []
    if event.is_set():
        raise Cancelled  # nothing is begun after the stop

    def run():
        try:
            box.append((work(), None))
        except BaseException as error:
            box.append((None, error))

    _Worker.free().jobs.put((partial(contextvars.copy_context().run, run), done))
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
        self.jobs: queue.SimpleQueue[tuple[Callable[[], None], threading.Event]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="agentkit-call", daemon=True).start()

    def _work(self) -> None:
        stays = True
        while stays:
            job, done = self.jobs.get()
            job()
            if stays := len(self.idle) < MOST_IDLE:
                self.idle.append(self)  # before the caller wakes, who may have the next job
            done.set()
            del job, done  # what the job held, a model's answer perhaps, must not live until the next one


# A forked process has none of these threads.
os.register_at_fork(after_in_child=_Worker.idle.clear)
