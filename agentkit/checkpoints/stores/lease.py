"""A lease on a thread: one writer takes a turn, the others wait. On one machine a file lock, which dies with its
process; on a bucket an object with an end date that its holder renews."""

import contextlib
import fcntl
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentkit.checkpoints.errors import ThreadBusy
from agentkit.checkpoints.stores.base import Changed, Head, Store

TERM = 15.0
"""Seconds for which a lease on a bucket holds without being renewed: so long others wait for a killed machine."""


class LeaseCancelled(Exception):
    """The wait for a lease was called off by its `cancel` event."""


def waited(attempt: Callable[[], bool], what: str, cancel: threading.Event, seconds: float, pause: float = 0.002) -> None:
    """Try until it succeeds. ThreadBusy after `seconds`, LeaseCancelled once `cancel` is set."""
    end = time.monotonic() + seconds
    while not attempt():
        if time.monotonic() > end:
            raise ThreadBusy(
                f"thread {what}: another writer has held it for {seconds:g} seconds; wait for its turn to end or stop it"
            )
        if cancel.wait(pause * random.uniform(0.5, 1.5)):
            raise LeaseCancelled
        pause = min(pause * 1.5, 0.1)


@contextlib.contextmanager
def file_lease(path: Path, what: str, cancel: threading.Event, seconds: float) -> Iterator[None]:
    """Hold an exclusive lock on a file, against threads and processes alike."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        waited(lambda: _locked(descriptor), what, cancel, seconds)
        yield
    finally:
        os.close(descriptor)  # and with it the lock


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


class ObjectLease:
    """A lease kept as a conditional object of the store itself: `{"owner": ..., "until": Unix time}`."""

    def __init__(self, store: Store, key: str, term: float = TERM):
        self.store, self.key, self.term = store, key, term
        self.owner = os.urandom(8).hex()
        self._tag: str | None = None
        self._done = threading.Event()
        # Clocks of two machines differ: an end date is judged by how long it stays the same here.
        self._seen: tuple[str, float] = ("", 0.0)

    @contextlib.contextmanager
    def held(self, cancel: threading.Event, seconds: float) -> Iterator[None]:
        """Wait for the lease, renew it while the body runs, give it back."""
        waited(self._take, self.key, cancel, seconds, pause=0.02)
        renewer = threading.Thread(target=self._renew, name="agentkit-lease", daemon=True)
        renewer.start()
        try:
            yield
        finally:
            self._done.set()
            renewer.join()
            with contextlib.suppress(Changed):
                self.store.put_head(self.key, self._text(""), self._tag)

    def _text(self, owner: str) -> bytes:
        return json.dumps({"owner": owner, "term": self.term, "nonce": os.urandom(4).hex()}).encode()

    def _take(self) -> bool:
        head: Any = self.store.read_head(self.key)
        if isinstance(head, Head) and json.loads(head.data)["owner"]:
            if self._seen[0] != head.tag:
                self._seen = (head.tag, time.monotonic())
            if time.monotonic() - self._seen[1] < json.loads(head.data)["term"]:
                return False
        try:
            self._tag = self.store.put_head(self.key, self._text(self.owner), head.tag if head else None)
            return True
        except Changed:
            return False

    def _renew(self) -> None:
        while not self._done.wait(self.term / 3):
            try:
                self._tag = self.store.put_head(self.key, self._text(self.owner), self._tag)
            except Changed:
                return  # lost, after a pause longer than the term: what is written now is merged
            except Exception:
                continue  # the store is away for a moment; the next renewal or the merge puts it right
