"""Stop a run from outside: an event that models and tools of the run look at."""

import contextlib
import contextvars
import threading
from collections.abc import Iterator

_current: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("agentkit_cancel", default=None)


@contextlib.contextmanager
def cancelled_by(event: threading.Event) -> Iterator[None]:
    """Everything in this context stops soon after `event` is set: a model within one token."""
    token = _current.set(event)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> threading.Event:
    """The event to watch here; a fresh one that nobody sets outside a run."""
    return _current.get() or threading.Event()
