"""A store in a local folder, the default: no server, no dependency, safe against a crash at any moment.

A thread is a folder: `blobs/` and two slots for the head. A new head goes into the slot with the older one, in place,
and one fdatasync makes it count: that is what SQLite does with its log, and takes a third of what a temporary file, a
rename and the two fsyncs of file and folder take (which is how blobs and new slots are written). Every page of a slot
has a stamp, so a write that a crash cut off (pages of two revisions) is told from damage (a page that is neither).
"""

import contextlib
import fcntl
import os
import shutil
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

from agentkit.checkpoints.errors import StoreDamaged, StoreUnavailable
from agentkit.checkpoints.stores.base import UNCHANGED, Changed, Head, Store
from agentkit.checkpoints.stores.lease import file_lease

PAGE = 4096
STAMP = struct.Struct(">QII")  # revision of the slot; length of its data; checksum of both and of the page number
ROOM = PAGE - STAMP.size
GROWTH = 16  # pages: a slot grows in such steps, so that few writes change its size


class LocalStore(Store):
    """Threads in a folder; folders have mode 0700, files 0600."""

    def __init__(self, folder: Path):
        self.folder, self.name = Path(folder), f"the folder {folder}"
        with _told(self.name):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def get_blob(self, key: str, name: str) -> bytes | None:
        with _told(self.name):
            try:
                return (self.folder / key / "blobs" / name).read_bytes()
            except FileNotFoundError:
                return None

    def put_blob(self, key: str, name: str, data: bytes) -> None:
        path = self.folder / key / "blobs" / name
        with _told(self.name):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                _replace(path, data)

    def read_head(self, key: str, known: str | None = None) -> Head | None | object:
        with _told(self.name):
            if known is not None and self._newest_tag(key) == known:
                return UNCHANGED
            try:
                return self._head(key)
            except _Torn:
                # Perhaps somebody is writing just now: under the lock nobody is, and what is torn then was cut off.
                with self._lock(key, fcntl.LOCK_SH):
                    return self._head(key, settled=True)

    def put_head(self, key: str, data: bytes, tag: str | None) -> str:
        with _told(self.name):
            if tag is None:
                (self.folder / key).mkdir(mode=0o700, exist_ok=True)
            with self._lock(key, fcntl.LOCK_EX):
                starts = self._starts(key)
                revision, place, found = max(starts, default=(0, 1, None))
                if found is None or found != tag:
                    # Not what the caller knows to be whole: another head, none, or a write that was cut off.
                    newest = self._choose(key, self._slots(key), settled=True)
                    place, found = (newest[0], newest[1].tag) if newest else (1, None)
                if found != tag:
                    raise Changed
                return self._write(f"{self.folder}/{key}/head.{1 - place}", revision + 1, data)

    def previous_head(self, key: str) -> bytes | None:
        """The whole slot that is not the newest."""
        slots = sorted((slot for slot in self._slots(key) if slot and slot.data), key=lambda slot: slot.revision)
        return slots[0].data if len(slots) == 2 else None

    def restore_head(self, key: str, data: bytes) -> None:
        with _told(self.name), self._lock(key, fcntl.LOCK_EX):
            place = self.folder / key
            (place / "head.new").unlink(missing_ok=True)
            tag = self._write(f"{place}/head.new", 1, data)
            os.replace(place / "head.new", place / "head.0")
            (place / "head.1").unlink(missing_ok=True)
            assert self._choose(key, self._slots(key), settled=True)[1].tag == tag

    def keys(self) -> Iterator[str]:
        with _told(self.name):
            yield from sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir() and self._holds(entry))

    def blobs(self, key: str) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.folder / key / "blobs") if "." not in name)
        except FileNotFoundError:
            return []

    def delete_blob(self, key: str, name: str) -> None:
        with _told(self.name):
            (self.folder / key / "blobs" / name).unlink(missing_ok=True)

    def delete(self, key: str) -> None:
        with _told(self.name):
            if not (self.folder / key).is_dir():
                return
            with self._lock(key, fcntl.LOCK_EX):
                for place in (0, 1):
                    (self.folder / key / f"head.{place}").unlink(missing_ok=True)
                shutil.rmtree(self.folder / key / "blobs", ignore_errors=True)
            # The lock file stays: another writer may wait on it, and two files under one name would be two locks.

    def lease(self, key: str, cancel: threading.Event, seconds: float) -> "contextlib.AbstractContextManager":
        with _told(self.name):
            (self.folder / key).mkdir(mode=0o700, exist_ok=True)
        return file_lease(self.folder / key / "lease", key, cancel, seconds)

    @staticmethod
    def _holds(entry: os.DirEntry) -> bool:
        # Blobs without a head are listed, too: a lost head must be noticed.
        return any(os.path.exists(os.path.join(entry.path, name)) for name in ("head.0", "head.1", "blobs"))

    @contextlib.contextmanager
    def _lock(self, key: str, how: int) -> Iterator[None]:
        descriptor = os.open(f"{self.folder}/{key}/lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)

    def _newest_tag(self, key: str) -> str | None:
        """Tag of the slot whose first page is newest: 64 bytes of each slot are read."""
        return max(self._starts(key), default=(0, 0, None))[2]

    def _starts(self, key: str) -> list[tuple[int, int, str]]:
        """Revision, place and tag of each slot whose first page is genuine."""
        found = []
        for place in (0, 1):
            try:
                descriptor = os.open(f"{self.folder}/{key}/head.{place}", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                start = os.read(descriptor, 64)
            finally:
                os.close(descriptor)
            if len(start) == 64 and _genuine(start, 0):
                found.append((STAMP.unpack_from(start)[0], place, _tag(start[STAMP.size :])))
        return found

    def _slots(self, key: str) -> list["_Slot | None"]:
        slots = []
        for place in (0, 1):
            try:
                slots.append(_Slot.read((self.folder / key / f"head.{place}").read_bytes()))
            except FileNotFoundError:
                slots.append(None)
        return slots

    def _head(self, key: str, settled: bool = False) -> Head | None:
        newest = self._choose(key, self._slots(key), settled)
        return newest[1] if newest else None

    def _choose(self, key: str, slots: list["_Slot | None"], settled: bool) -> tuple[int, Head] | None:
        """Place and content of the newest whole slot. A torn one raises _Torn; `settled`: it is passed over."""
        for place, slot in enumerate(slots):
            wrong = slot.wrong if slot else "it is missing" if any(s and s.revision > 1 for s in slots) else ""
            if wrong and settled:
                raise StoreDamaged(f"{self.folder / key / f'head.{place}'}", wrong)
            if wrong or (slot and slot.data is None and not settled):
                raise _Torn
        whole = [(slot.revision, place) for place, slot in enumerate(slots) if slot and slot.data is not None]
        if not whole:
            return None
        place = max(whole)[1]
        return place, Head(slots[place].data, _tag(slots[place].data))

    @staticmethod
    def _write(path: str, revision: int, data: bytes) -> str:
        pages = [data[start : start + ROOM] for start in range(0, len(data), ROOM)]
        image = b"".join(_stamp(revision, len(data), number) + page for number, page in enumerate(pages))
        try:
            size = os.stat(path).st_size
        except FileNotFoundError:
            size = 0
        if len(image) > size:
            # A longer slot: written beside and renamed, so that its length is as safe as its content.
            _replace(Path(path), image.ljust(-(-len(image) // (PAGE * GROWTH)) * PAGE * GROWTH, b"\0"))
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                written = os.pwrite(descriptor, image, 0)
                if written < len(image):
                    raise OSError(f"only {written} of {len(image)} bytes could be written")
                getattr(os, "fdatasync", os.fsync)(descriptor)
            finally:
                os.close(descriptor)
        return _tag(data)


class _Torn(Exception):
    """A slot holds pages of two revisions: a write is going on, or was cut off."""


class _Slot:
    """What a slot file holds: revision, the bytes (None: torn) and what is wrong beyond that."""

    def __init__(self, revision: int, data: bytes | None, wrong: str = ""):
        self.revision, self.data, self.wrong = revision, data, wrong

    @classmethod
    def read(cls, image: bytes) -> "_Slot":
        """What a slot file says, told by its stamps; the bytes themselves are checked by their envelope."""
        if len(image) < STAMP.size:
            return cls(0, b"", f"it has {len(image)} bytes (truncated)")
        revision, length, _ = STAMP.unpack_from(image)
        if not _genuine(image, 0):
            return cls(revision, b"", "its first stamp was never written")
        parts = []
        for number in range(-(-length // ROOM)):
            page = image[number * PAGE : (number + 1) * PAGE]
            if len(page) < STAMP.size:
                return cls(revision, b"", f"it ends after {len(image)} bytes (truncated)")
            if page[: STAMP.size] != image[:12] + STAMP.pack(0, 0, _check(revision, length, number))[12:]:
                if _genuine(page, number) or not any(page[: STAMP.size]):
                    return cls(revision, None)
                return cls(revision, b"", f"the stamp of page {number} was never written")
            parts.append(page[STAMP.size :])
        return cls(revision, b"".join(parts)[:length])


def _check(revision: int, length: int, number: int) -> int:
    return zlib.crc32(struct.pack(">QII", revision, length, number))


def _stamp(revision: int, length: int, number: int) -> bytes:
    return STAMP.pack(revision, length, _check(revision, length, number))


def _genuine(page: bytes, number: int) -> bool:
    revision, length, check = STAMP.unpack_from(page)
    return check == _check(revision, length, number)


def _tag(data: bytes) -> str:
    # Magic and checksum of the envelope; shorter data (the probe's) as they are.
    return data[:36].rstrip(b"\0").hex()


def _replace(path: Path, data: bytes) -> None:
    """Write beside, fsync, rename, fsync the folder: the name has the old content or the new, never a part."""
    beside = path.with_name(f"{path.name}.{os.urandom(6).hex()}.tmp")
    descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"threads cannot be kept in {name}: {error.strerror or error}; the last revision is intact"
        ) from error
