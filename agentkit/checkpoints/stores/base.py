"""The interface of a store: blobs that are written once, and one head per thread that is replaced only if unchanged.

A store knows nothing of LangGraph and looks into nothing. Keys are made by `key_of`, so a thread's name may be anything.
"""

import contextlib
import hashlib
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentkit.checkpoints.errors import StoreRefused
from agentkit.models.errors import BadField

UNCHANGED = object()
"""What `read_head` gives when the head still has the tag that the caller knows."""


class Changed(Exception):
    """The head is not the one that the caller has read: somebody else wrote in between. Nothing was written."""


@dataclass(frozen=True)
class Head:
    """A head as it was read; `tag` is what a replacement has to name."""

    data: bytes
    tag: str


class Store(ABC):
    """A place for threads. Errors of the place itself come out as StoreUnavailable, with the last revision intact."""

    name = "store"

    @abstractmethod
    def get_blob(self, key: str, name: str) -> bytes | None:
        """The bytes written under this name, or None."""

    @abstractmethod
    def put_blob(self, key: str, name: str, data: bytes) -> None:
        """Write the bytes durably unless the name is taken already (then it holds the same bytes)."""

    @abstractmethod
    def read_head(self, key: str, known: str | None = None) -> Head | None | object:
        """The head and its tag, None where the thread does not exist, UNCHANGED if the tag is still `known`."""

    @abstractmethod
    def put_head(self, key: str, data: bytes, tag: str | None) -> str:
        """Replace the head that has this tag (None: there must be none) durably; returns the new tag, or Changed."""

    @abstractmethod
    def keys(self) -> Iterator[str]:
        """The keys of all threads, and of those whose head is lost while blobs remain."""

    @abstractmethod
    def blobs(self, key: str) -> list[str]:
        """The names of a thread's blobs."""

    @abstractmethod
    def delete_blob(self, key: str, name: str) -> None:
        """Remove one blob; nothing happens if there is none."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove a thread: its head first, so that no head is left that names what is gone."""

    def previous_head(self, key: str) -> bytes | None:
        """The head before this one, where the store keeps it: what `repair` can go back to."""
        return None

    def restore_head(self, key: str, data: bytes) -> None:
        """Put a good head in the place of a damaged one, whatever its tag; only for `repair`, with no writer at work."""
        head = self.read_head(key)
        self.put_head(key, data, head.tag if isinstance(head, Head) else None)

    def lease(self, key: str, cancel: threading.Event, seconds: float) -> "contextlib.AbstractContextManager":
        """Hold the thread for one turn. Stores without one return at once: then only the merge protects a turn."""
        return contextlib.nullcontext()

    def close(self) -> None:  # noqa: B027 - most stores have nothing to close
        """Give back what the store holds open."""

    def check(self) -> None:
        """Try every condition the design rests on, on a probe thread; StoreRefused if one is not kept."""
        key = key_of(f"probe {os.getpid()} {threading.get_ident()} {os.urandom(4).hex()}")
        try:
            tag = self.put_head(key, b"one", None)
            self._refuses(key, None, "a second creation")
            tag2 = self.put_head(key, b"two", tag)
            self._refuses(key, tag, "a write on an outdated head")
            head = self.read_head(key)
            if not isinstance(head, Head) or head.data != b"two" or head.tag != tag2:
                raise StoreRefused(f"{self.name} does not give back what was just written; choose another store")
        finally:
            self.delete(key)

    def _refuses(self, key: str, tag: str | None, what: str) -> None:
        try:
            self.put_head(key, b"lost", tag)
        except Changed:
            return
        raise StoreRefused(
            f"{self.name} accepted {what}: it has no conditional writes, and two writers would overwrite each other. "
            "Choose a store that has them (S3 with If-Match, GCS, Azure, a local folder, SQLite)"
        )


def key_of(thread: str) -> str:
    """A name that every file system and bucket takes: readable, and different for threads that differ in case only."""
    slug = re.sub(r"[^a-z0-9_.-]+", "-", thread.lower())[:40].strip(".-")
    return f"{slug}-{hashlib.sha256(thread.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


def open_store(address: str | Path, **options: str) -> Store:
    """The store at an address: `memory:`, `sqlite:FILE`, `s3://bucket/prefix`, `gs://`, `az://`, or a local folder.

    `options` go to obstore (endpoint, region, ...). BadField for an address of no known kind.
    """
    text = str(address)
    kind, colon, rest = text.partition(":")
    if text == "memory:":
        from agentkit.checkpoints.stores.memory import MemoryStore

        return MemoryStore()
    if kind == "sqlite" and colon:
        from agentkit.checkpoints.stores.sqlite import SqliteStore

        return SqliteStore(Path(rest))
    if rest.startswith("//") and kind != "file":
        if kind not in ("s3", "gs", "az", "azure", "abfs"):
            raise BadField(f"store {text!r}: {kind!r} is no known kind; known are a folder, memory:, sqlite:FILE, s3://")
        from agentkit.checkpoints.stores.objects import ObjectStore

        return ObjectStore.at(text, **options)
    from agentkit.checkpoints.stores.local import LocalStore

    return LocalStore(Path(rest[2:] if kind == "file" and colon else text))
