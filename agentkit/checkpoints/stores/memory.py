"""A store in memory: for tests and lessons; gone with the process."""

import contextlib
import itertools
import threading
from collections.abc import Iterator

from agentkit.checkpoints.stores.base import UNCHANGED, Changed, Head, Store
from agentkit.checkpoints.stores.lease import waited


class MemoryStore(Store):
    """Heads and blobs in dictionaries, under one lock."""

    name = "the memory store"

    def __init__(self):
        self._heads: dict[str, Head] = {}
        self._before: dict[str, bytes] = {}
        self._blobs: dict[str, dict[str, bytes]] = {}
        self._leases: dict[str, threading.Lock] = {}
        self._lock, self._tags = threading.Lock(), itertools.count(1)

    def get_blob(self, key: str, name: str) -> bytes | None:
        return self._blobs.get(key, {}).get(name)

    def put_blob(self, key: str, name: str, data: bytes) -> None:
        with self._lock:
            self._blobs.setdefault(key, {}).setdefault(name, data)

    def read_head(self, key: str, known: str | None = None) -> Head | None | object:
        head = self._heads.get(key)
        return UNCHANGED if head and head.tag == known else head

    def put_head(self, key: str, data: bytes, tag: str | None) -> str:
        with self._lock:
            head = self._heads.get(key)
            if (head.tag if head else None) != tag:
                raise Changed
            if head:
                self._before[key] = head.data
            self._heads[key] = Head(data, str(next(self._tags)))
            return self._heads[key].tag

    def previous_head(self, key: str) -> bytes | None:
        return self._before.get(key)

    def keys(self) -> Iterator[str]:
        return iter(sorted(self._heads.keys() | self._blobs.keys()))

    def blobs(self, key: str) -> list[str]:
        return sorted(self._blobs.get(key, {}))

    def delete_blob(self, key: str, name: str) -> None:
        with self._lock:
            self._blobs.get(key, {}).pop(name, None)

    def delete(self, key: str) -> None:
        with self._lock:
            for held in (self._heads, self._before, self._blobs):
                held.pop(key, None)

    @contextlib.contextmanager
    def lease(self, key: str, cancel: threading.Event, seconds: float) -> Iterator[None]:
        with self._lock:
            lock = self._leases.setdefault(key, threading.Lock())
        waited(lambda: lock.acquire(blocking=False), key, cancel, seconds)
        try:
            yield
        finally:
            lock.release()
