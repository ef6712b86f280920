"""One thread owns MLX: it loads, evaluates and generates, for every model of the process.

MLX streams belong to the thread that made them, so work begun on one thread cannot be evaluated on another, and a
process whose worker generated aborts at exit unless that worker cleans up. Callers hand in functions (`call`) or
generators (`stream`) and get plain Python values back.
"""

import atexit
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

_END = object()


class Owner:
    """The thread and its queue of work. Use the process-wide one: `owner()`."""

    def __init__(self):
        self._jobs: queue.SimpleQueue = queue.SimpleQueue()
        self._closing: list[Callable[[], None]] = []
        self._running: threading.Event | None = None
        self._thread = threading.Thread(target=self._work, name="agentkit-mlx", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def call(self, work: Callable[..., Any], *args) -> Any:
        """Run `work(*args)` on the owner thread and return its result (or raise what it raised)."""
        if threading.current_thread() is self._thread:
            return work(*args)
        future: Future = Future()
        self._jobs.put((future, work, args))
        return future.result()

    def stream(self, work: Callable[[threading.Event], Iterator], cancel: threading.Event | None = None) -> Iterator:
        """Yield what the generator `work(cancel)` yields on the owner thread.

        Closing this iterator (or setting `cancel`) stops the generator before its next item.
        """
        cancel = cancel or threading.Event()
        items: queue.SimpleQueue = queue.SimpleQueue()

        def pump():
            # Whatever fails, the reader must hear of it: it waits on the queue.
            self._running = cancel
            try:
                with contextlib.closing(work(cancel)) as generator:
                    for item in generator:
                        items.put(item)
                items.put(_END)
            except BaseException as error:
                items.put(error)
            finally:
                self._running = None

        self._jobs.put((Future(), pump, ()))
        try:
            while (item := items.get()) is not _END:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            cancel.set()

    def at_close(self, release: Callable[[], None]) -> None:
        """Have `release` run on the owner thread before it ends, to drop models and caches."""
        self._closing.append(release)

    def close(self) -> None:
        """Cancel what runs, drop every model, empty MLX's streams and end the thread. Safe to call twice."""
        if self._thread.is_alive():
            if self._running:
                self._running.set()
            self._jobs.put(None)
            self._thread.join(30)

    def _work(self):
        while job := self._jobs.get():
            future, work, args = job
            try:
                future.set_result(work(*args))
            except BaseException as error:
                future.set_exception(error)
            # A finished job must not keep a model alive until the next one comes.
            del job, future, work, args
        for release in self._closing:
            release()
        import mlx.core as mx

        mx.synchronize()
        mx.clear_streams()


_owner: Owner | None = None
_lock = threading.Lock()


def owner() -> Owner:
    """The process's owner thread, started at the first call."""
    global _owner
    with _lock:
        if _owner is None or not _owner._thread.is_alive():
            _owner = Owner()
        return _owner
