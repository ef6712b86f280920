"""One thread of a store: read its head, change its log, write blobs first and then the head if nobody was faster.

If somebody was, only the change to the log is made again, on what is there now. What led to the change (a model's
answer) is never asked for a second time.
"""

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from agentkit.checkpoints.envelope import blob_name, check_blob, pack, unpack
from agentkit.checkpoints.errors import SchemaNewer, StoreDamaged, StoreUnavailable
from agentkit.checkpoints.log import Log
from agentkit.checkpoints.stores.base import UNCHANGED, Changed, Head, Store, key_of
from agentkit.checkpoints.values import Codec
from agentkit.events import StoreLogged, emit, heard

PATIENCE = 120.0
"""Seconds for which a change is tried against other writers."""


def told(action: str, thread: str, revision: int, detail: str = "") -> None:
    """Emit what was done with a thread, if anybody listens."""
    if heard():
        emit(StoreLogged(action=action, thread=thread, revision=revision, detail=detail))


class Thread:
    """A thread of the store, with its log as last read. May be used from several threads of the process at once."""

    def __init__(self, store: Store, name: str, codec: Codec, schema: int = 1, fingerprint: str = ""):
        self.store, self.name, self.codec = store, name, codec
        self.schema, self.fingerprint = schema, fingerprint
        self.key, self.lock = key_of(name), threading.RLock()
        self.revision = 0
        self._log: Log | None = None
        self._tag: str | None = None

    def fetch(self, kind: str, name: str) -> bytes:
        """The plain body of a blob, its bytes checked against its name."""
        what = f"{kind} {name[:12]} of thread {self.name!r}"
        data = check_blob(self.store.get_blob(self.key, name), name, what)
        found = unpack(data, what, kind=kind, thread=self.name)
        return self.codec.open(found.cipher, found.body, what)

    def seal(self, kind: str, body: bytes) -> tuple[str, bytes]:
        """Name and bytes of a blob with this body. The same body gets the same name, unless it is encrypted."""
        # A cipher's output does not shrink: what is worth it is compressed before.
        cipher, closed = self.codec.close(body)
        data = pack(kind, closed, thread=self.name, cipher=cipher, compress=not cipher, at=0)
        return blob_name(data), data

    def log(self, anew: bool = False) -> Log:
        """The log as the store has it now; an empty one where there is no such thread."""
        known = None if anew or self._log is None else self._tag
        head = self.store.read_head(self.key, known)
        if head is UNCHANGED:
            return self._log
        self._take(head)
        return self._log

    def _take(self, head: Head | None) -> None:
        older = self._log
        if head is None:
            self._log, self._tag, self.revision = Log(self.codec, self), None, 0
            return
        what = f"the head of thread {self.name!r}"
        found = unpack(head.data, what, kind="head", thread=self.name)
        if found.schema > self.schema:
            raise SchemaNewer(
                f"thread {self.name!r} was written under schema version {found.schema}, this code knows {self.schema}: "
                "run the newer code, or go back to a copy from before"
            )
        body = self.codec.open(found.cipher, found.body, what)
        self._log, self._tag, self.revision = Log(self.codec, self, body, older), head.tag, found.revision
        told("read", self.name, self.revision, f"{len(head.data)} bytes")

    def read(self, look: Callable[[Log], Any]) -> Any:
        """What `look` finds in the log. A blob that is gone may have been pruned by another process: looked at anew once."""
        with self.lock:
            log = self.log()
            try:
                return look(log)
            except StoreDamaged:
                tag = self._tag
                log = self.log(anew=True)
                if self._tag == tag:
                    raise
                return look(log)

    def change(self, make: Callable[[Log], Any], why: str) -> Any:
        """Let `make` change the log and write it durably; on a conflict it is made again on the newer log."""
        end, tries = time.monotonic() + PATIENCE, 0
        with self.lock:
            while True:
                try:
                    return self._attempt(make, why)
                except Changed:
                    tries += 1
                    self._log = None
                    told("conflict", self.name, self.revision, f"{why}: another writer was faster")
                except BaseException:
                    self._log = None  # it holds a change that was not written
                    raise
                if time.monotonic() > end:
                    raise StoreUnavailable(
                        f"thread {self.name!r} could not be written in {PATIENCE:g} seconds and {tries} tries: other "
                        "writers were always faster; the last revision is intact"
                    )
                time.sleep(random.uniform(0, 0.002 * min(tries, 25)))
                told("retry", self.name, self.revision, f"{why}: try {tries + 1}, the commit only")

    def _attempt(self, make: Callable[[Log], Any], why: str) -> Any:
        # What was last read will do: if it is outdated, the conditional write says so.
        log = self._log or self.log()
        result = make(log)
        log.relieve()
        self.write(log, why)
        return result

    def write(self, log: Log, why: str) -> None:
        """Write the blobs that are new, then the head; Changed if the head is no longer the one that was read."""
        for name, data in log.new_blobs:
            self.store.put_blob(self.key, name, data)
        cipher, body = self.codec.close(log.body())
        data = pack("head", body, thread=self.name, revision=self.revision + 1, schema=self.schema,
                    fingerprint=self.fingerprint, cipher=cipher)
        self._tag = self.store.put_head(self.key, data, self._tag)
        self._log, self.revision, log.new_blobs = log, self.revision + 1, []
        told("write", self.name, self.revision, f"{why}, {len(data)} bytes")

    def replace(self, make: Callable[[Log], Log | None], why: str) -> None:
        """Put another log in the place of this one, then remove the blobs that only the old one needed."""
        with self.lock:
            for _ in range(100):
                old = self.log(anew=True)
                new = make(old)
                if new is None:
                    return
                before = set(self.store.blobs(self.key))
                try:
                    self.write(new, why)
                except Changed:
                    continue
                for name in before - new.blob_names():
                    self.store.delete_blob(self.key, name)
                return
            raise StoreUnavailable(f"thread {self.name!r}: {why} did not come to a quiet moment; try again later")

    def delete(self) -> None:
        """Remove the thread from the store."""
        with self.lock:
            self.store.delete(self.key)
            self._log, self._tag, self.revision = None, None, 0
        told("delete", self.name, 0)
