"""A store in one SQLite file: easy to copy, and safe for several processes of one machine."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from agentkit.checkpoints.errors import StoreUnavailable
from agentkit.checkpoints.stores.base import UNCHANGED, Changed, Head, Store
from agentkit.checkpoints.stores.lease import file_lease

_TABLES = """
PRAGMA journal_mode=WAL;
CREATE TABLE IF NOT EXISTS heads (key TEXT PRIMARY KEY, revision INTEGER NOT NULL, data BLOB NOT NULL, before BLOB);
CREATE TABLE IF NOT EXISTS blobs (key TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (key, name))
WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counter (value INTEGER NOT NULL);
INSERT INTO counter SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM counter);
"""


class SqliteStore(Store):
    """Heads and blobs in two tables; the file has mode 0600. Every write is on the disk when it returns."""

    def __init__(self, path: Path):
        self.path, self.name = Path(path), f"the SQLite file {path}"
        self._lock = threading.Lock()
        with self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            # The timeout is SQLite's busy timeout: a second process waits for its turn instead of failing as "locked".
            self._db = sqlite3.connect(self.path, check_same_thread=False, timeout=30, isolation_level=None)
            self._db.executescript("PRAGMA synchronous=FULL;" + _TABLES)

    def get_blob(self, key: str, name: str) -> bytes | None:
        row = self._one("SELECT data FROM blobs WHERE key=? AND name=?", key, name)
        return row[0] if row else None

    def put_blob(self, key: str, name: str, data: bytes) -> None:
        with self._told(), self._lock:
            self._db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", (key, name, data))

    def read_head(self, key: str, known: str | None = None) -> Head | None | object:
        if known is not None:
            row = self._one("SELECT revision FROM heads WHERE key=?", key)
            if row and str(row[0]) == known:
                return UNCHANGED
        row = self._one("SELECT data, revision FROM heads WHERE key=?", key)
        return Head(row[0], str(row[1])) if row else None

    def put_head(self, key: str, data: bytes, tag: str | None) -> str:
        with self._told(), self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                row = self._db.execute("SELECT revision FROM heads WHERE key=?", (key,)).fetchone()
                if (str(row[0]) if row else None) != tag:
                    raise Changed
                # One counter for all threads: a thread deleted and begun anew does not meet its old tags.
                self._db.execute("UPDATE counter SET value = value + 1")
                revision = self._db.execute("SELECT value FROM counter").fetchone()[0]
                self._db.execute(
                    "INSERT INTO heads VALUES (?1, ?2, ?3, NULL) ON CONFLICT (key) DO UPDATE SET "
                    "before = data, revision = ?2, data = ?3",
                    (key, revision, data),
                )
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise
            return str(revision)

    def previous_head(self, key: str) -> bytes | None:
        row = self._one("SELECT before FROM heads WHERE key=?", key)
        return row[0] if row else None

    def keys(self) -> Iterator[str]:
        with self._told(), self._lock:
            return iter([row[0] for row in self._db.execute("SELECT key FROM heads UNION SELECT key FROM blobs")])

    def blobs(self, key: str) -> list[str]:
        with self._told(), self._lock:
            return [row[0] for row in self._db.execute("SELECT name FROM blobs WHERE key=? ORDER BY name", (key,))]

    def delete_blob(self, key: str, name: str) -> None:
        with self._told(), self._lock:
            self._db.execute("DELETE FROM blobs WHERE key=? AND name=?", (key, name))

    def delete(self, key: str) -> None:
        with self._told(), self._lock:
            self._db.execute("DELETE FROM heads WHERE key=?", (key,))
            self._db.execute("DELETE FROM blobs WHERE key=?", (key,))

    def lease(self, key: str, cancel: threading.Event, seconds: float) -> "contextlib.AbstractContextManager":
        folder = self.path.with_name(self.path.name + ".leases")
        with self._told():
            folder.mkdir(mode=0o700, exist_ok=True)
        return file_lease(folder / key, key, cancel, seconds)

    def close(self) -> None:
        self._db.close()

    def _one(self, query: str, *values: str) -> tuple | None:
        with self._told(), self._lock:
            return self._db.execute(query, values).fetchone()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"threads cannot be kept in {self.name}: {error}; the last revision is intact") from error
