"""Looking after a store: names, a check of every byte, repair of what is damaged, export, import and migration."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ormsgpack
from langgraph.checkpoint.base.id import uuid6

from agentkit.checkpoints.envelope import blob_name, check_blob, pack, thread_of, unpack
from agentkit.checkpoints.errors import StoreDamaged
from agentkit.checkpoints.log import Log
from agentkit.checkpoints.records import Record, Segment
from agentkit.checkpoints.stores.base import Head, Store
from agentkit.checkpoints.thread import Thread
from agentkit.checkpoints.trim import copied, rewritten
from agentkit.models.errors import AgentkitError

Tick = Callable[[int, int], None]


@dataclass(frozen=True)
class Finding:
    """What `verify` found in one thread: `problems` is empty if all is well. `orphans` are blobs that nothing needs."""

    key: str
    thread: str
    revision: int
    checkpoints: int
    bytes: int
    orphans: int
    problems: tuple[str, ...] = ()


def names(store: Store) -> list[str]:
    """The names of all threads whose head can be read; damaged ones are for `verify` to find."""
    found = []
    for key in store.keys():
        try:
            head = store.read_head(key)
            if isinstance(head, Head):
                found.append(thread_of(head.data, f"the head under {key}"))
        except StoreDamaged:
            continue
    return sorted(found)


def verify(saver: Any, tick: Tick = lambda done, total: None) -> Iterator[Finding]:
    """Read every byte of every thread and compare it with its checksum, and load every state; a Finding per thread."""
    keys = list(saver.store.keys())
    for number, key in enumerate(keys, 1):
        yield _checked(saver, key)
        tick(number, len(keys))


def _checked(saver: Any, key: str) -> Finding:
    store, problems, size, count, name, revision = saver.store, [], 0, 0, "", 0
    blobs, needed = store.blobs(key), set()
    try:
        head = store.read_head(key)
        if head is None:
            raise StoreDamaged(f"the head under {key}", f"it is missing, though {len(blobs)} blobs of the thread remain")
        size += len(head.data)
        name = thread_of(head.data, f"the head under {key}")
        thread = _thread(saver, name, key)
        log = thread.log(anew=True)
        revision = thread.revision
        needed = {segment.blob for segment in log.index}
        for segment in log.index:
            try:
                log._segment(segment)
            except AgentkitError as error:
                problems.append(str(error))
        if not problems:
            needed = log.blob_names()
            for record in log.in_order():
                count += 1
                for ref in [*record.values.values(), *(write[4] for write in log.writes(record))]:
                    log.value(ref, f"thread {name!r}, checkpoint {record.id}")
    except AgentkitError as error:
        problems.append(str(error))
    for blob in blobs:
        try:
            size += len(check_blob(store.get_blob(key, blob), blob, f"blob {blob[:12]} of thread {name or key!r}"))
        except StoreDamaged as error:
            problems.append(str(error))
    orphans = len(set(blobs) - needed) if not problems else 0
    return Finding(key, name or key, revision, count, size, orphans, tuple(dict.fromkeys(problems)))


def _thread(saver: Any, name: str, key: str) -> Thread:
    thread = Thread(saver.store, name, saver.codec, saver.schema, saver.fingerprint)
    if thread.key != key:
        raise StoreDamaged(f"the head under {key}", f"it is that of thread {name!r} (swapped)")
    return thread


def repair(saver: Any, key: str, write: bool = False) -> str:
    """The last good revision of a damaged thread, in words; with `write` it is put in place.

    In order: the head as it is, without the checkpoints whose values are lost; the head before; what the segments hold.
    """
    store = saver.store
    for source, make in (("the head", _from_head), ("the head before it", _from_previous), ("its segments", _from_segments)):
        try:
            thread, log = make(saver, key)
        except StoreDamaged:
            continue
        kept, lost = _loadable(log)
        if not kept:
            continue
        new = rewritten(log, thread, records=kept)
        tip = new.newest("")
        words = (f"thread {thread.name!r}: {len(kept)} checkpoints from {source}, {lost} lost; newest is "
                 f"{tip.id if tip else 'none on the main line'}")
        if write:
            for name, data in new.new_blobs:
                store.put_blob(key, name, data)
            cipher, body = saver.codec.close(new.body())
            store.restore_head(key, pack("head", body, thread=thread.name, revision=thread.revision + 1,
                                         schema=saver.schema, fingerprint=saver.fingerprint, cipher=cipher))
        return words
    raise StoreDamaged(f"the thread under {key}", "neither head, the head before it nor its segments can be read",
                       "import it from an export, or delete it")


def _from_head(saver: Any, key: str) -> tuple[Thread, Log]:
    head = saver.store.read_head(key)
    return _opened(saver, key, head.data if isinstance(head, Head) else None)


def _from_previous(saver: Any, key: str) -> tuple[Thread, Log]:
    return _opened(saver, key, saver.store.previous_head(key))


def _opened(saver: Any, key: str, data: bytes | None) -> tuple[Thread, Log]:
    what = f"a head under {key}"
    thread = _thread(saver, thread_of(data, what), key)
    found = unpack(data, what, kind="head", thread=thread.name)
    thread.revision = found.revision
    return thread, Log(saver.codec, thread, saver.codec.open(found.cipher, found.body, what))


def _from_segments(saver: Any, key: str) -> tuple[Thread, Log]:
    thread, parts = None, []
    for name in saver.store.blobs(key):
        data = saver.store.get_blob(key, name)
        if data is None or blob_name(data) != name:
            continue
        thread = thread or _thread(saver, thread_of(data, name), key)
        try:
            body = ormsgpack.unpackb(thread.fetch("segment", name))
        except StoreDamaged:
            continue  # a large value, not a segment
        parts.append((body["first"], body["base"], name, len(body["records"]), len(body["items"])))
    if not parts:
        raise StoreDamaged(f"the thread under {key}", "no segment can be read")
    log = Log(saver.codec, thread)
    for first, base, name, records, items in sorted(parts):
        if (first, base) == (log.first, log.base):
            log.append_segment(Segment(first, first + records, base, base + items, "", "\x7f", b"", name))
            log.first, log.base = first + records, base + items
    return thread, log


def _loadable(log: Log) -> tuple[list[Record], int]:
    """The records whose values are all there, in order, and how many are not."""
    records, lost = [], 0
    for segment in log.index:
        try:
            records += log._segment(segment)[0]
        except StoreDamaged:
            lost += segment.end - segment.first
    kept = []
    for record in [*records, *log.records]:
        try:
            for ref in [*record.values.values(), *(write[4] for write in log.writes(record))]:
                log.typed(ref)
            kept.append(record)
        except StoreDamaged:
            lost += 1
    return kept, lost


class _Carried:
    """The blobs of an exported thread, in one dictionary."""

    def __init__(self, held: dict[str, bytes]):
        self.held = held

    def fetch(self, kind: str, name: str) -> bytes:
        return self.held[name]

    def seal(self, kind: str, body: bytes) -> tuple[str, bytes]:
        self.held[blob_name(body)] = body
        return blob_name(body), b""


def export_thread(saver: Any, name: str) -> bytes:
    """A thread with its whole history as one checked file; encrypted if the saver is."""
    thread = saver.thread(name)
    carried = _Carried({})

    def look(log: Log) -> bytes:
        if not log.records:
            raise AgentkitError(f"thread {name!r} does not exist in {saver.store.name}")
        carrier = Thread(saver.store, name, saver.codec)
        carrier.seal, carrier.fetch = carried.seal, carried.fetch
        return rewritten(log, carrier, relieve=False).body()

    cipher, body = saver.codec.close(ormsgpack.packb({"log": thread.read(look), "blobs": carried.held}))
    return pack("export", body, thread=name, schema=saver.schema, cipher=cipher, compress=not cipher)


def import_thread(saver: Any, data: bytes, name: str | None = None, source: str = "the file") -> str:
    """Bring an exported thread in, under its own name or another; returns the name. It must not exist yet."""
    own = thread_of(data, source)
    found = unpack(data, source, kind="export", thread=own)
    body = ormsgpack.unpackb(saver.codec.open(found.cipher, found.body, source))
    target = saver.thread(name or own)

    def make(old: Log) -> Log:
        if old.records:
            raise AgentkitError(f"thread {target.name!r} exists already in {saver.store.name}; choose another name with --as")
        return copied(Log(saver.codec, _Carried(body["blobs"]), body["log"]), target)

    target.replace(make, f"imported from {source}")
    return target.name


def import_sqlite(saver: Any, path: Path, tick: Tick = lambda done, total: None) -> list[str]:
    """Copy every thread of a SqliteSaver's file, history and writes included; returns their names. The file is only read."""
    import sqlite3

    from langgraph.checkpoint.base import WRITES_IDX_MAP
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    try:
        found = [row[0] for row in connection.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id")]
        taken = set(saver.threads())
        if both := [name for name in found if name in taken]:
            raise AgentkitError(f"thread {both[0]!r} exists already in {saver.store.name}; delete it there first")
        old = SqliteSaver(connection, serde=saver.serde)
        old.is_setup = True
        for number, name in enumerate(found, 1):
            for item in reversed(list(old.list({"configurable": {"thread_id": name}}))):
                place = {**item.config["configurable"], "checkpoint_id": None}
                if item.parent_config:
                    place["checkpoint_id"] = item.parent_config["configurable"]["checkpoint_id"]
                # As written by one hand: an old fork is a fork, not a second writer.
                saver.put({"configurable": {**place, "__agentkit_fork": place["checkpoint_id"]}}, item.checkpoint,
                          item.metadata, item.checkpoint["channel_versions"])
                tasks: dict[str, list] = {}
                for task, channel, value in item.pending_writes or []:
                    tasks.setdefault(task, []).append((channel, value))
                for task, writes in tasks.items():
                    plain = [write for write in writes if write[0] not in WRITES_IDX_MAP]
                    special = [write for write in writes if write[0] in WRITES_IDX_MAP]
                    for part in (plain, special):
                        if part:
                            saver.put_writes(item.config, part, task)
            tick(number, len(found))
        return found
    except sqlite3.Error as error:
        raise AgentkitError(f"{path} cannot be read as a file of SqliteSaver: {error}") from None
    finally:
        connection.close()


def migrate(saver: Any, name: str, dry: bool) -> list[dict]:
    """One row for the thread: versions, and which channels come, go and change; none if it is up to date.

    The migrated state becomes a new checkpoint, so the old one stays in the history.
    """
    place = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    record = saver.thread(name).read(lambda log: log.newest(""))
    if record is None or record.schema >= saver.schema:
        return []
    found = saver.get_tuple(place)
    now = found.checkpoint["channel_values"]
    before = saver.thread(name).read(
        lambda log: {channel: log.value(ref, channel) for channel, ref in log.newest("").values.items()})
    row = {
        "thread": name, "from": record.schema, "to": saver.schema,
        "new": ", ".join(sorted(now.keys() - before.keys())), "gone": ", ".join(sorted(before.keys() - now.keys())),
        "changed": ", ".join(sorted(c for c in now.keys() & before.keys() if now[c] != before[c])),
    }
    if not dry:
        checkpoint = {**found.checkpoint, "id": str(uuid6())}
        about = {**found.metadata, "source": "update"}
        config = saver.put(found.config, checkpoint, about, checkpoint["channel_versions"])
        for task, channel, value in found.pending_writes or []:
            saver.put_writes(config, [(channel, value)], task)
    return [row]
