"""`AgentkitSaver`: LangGraph's checkpointer over a store, in which no turn and no state is lost in silence.

A checkpoint becomes one conditional write of the thread's head. If two runs overlap on a thread, the first that ends
is on the main line; the other runs on undisturbed on a side line, and when it ends its changes are merged into the main
line (`lines.py`). `with saver.turn("thread"):` lets runs take turns instead; agentkit's agents do so by themselves.
"""

from __future__ import annotations  # the method `list` hides the type in annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from agentkit.checkpoints.errors import GraphChanged
from agentkit.checkpoints.lines import FORK, Lines, next_version
from agentkit.checkpoints.log import Log
from agentkit.checkpoints.merge import Merge, finished
from agentkit.checkpoints.migrations import (
    Migration,
    check_pending,
    differences,
    fingerprint_of,
    migrated,
    path,
    shape_of,
)
from agentkit.checkpoints.records import Record
from agentkit.checkpoints.stores.base import Store, open_store
from agentkit.checkpoints.thread import Thread, told
from agentkit.checkpoints.trim import copied, only_latest, without_runs
from agentkit.checkpoints.values import Codec, made_strict
from agentkit.models.errors import AgentkitError, BadField

OPEN_THREADS = 32


class AgentkitSaver(BaseCheckpointSaver[int]):
    """A checkpointer over `store` (a Store, or an address that `open_store` takes).

    `allow`: classes of your own that may be in the state; every other is refused. `serde`: another serializer, such as
    LangGraph's EncryptedSerializer. `schema`, `migrations`: see `migrations.py`. `merge`: how to merge a channel that
    two runs changed at once, `{channel: (base, ours, theirs) -> value}`.
    """

    def __init__(
        self,
        store: Store | str | Path,
        *,
        serde: SerializerProtocol | None = None,
        allow: Collection[type] = (),
        schema: int = 1,
        migrations: Sequence[Migration] = (),
        merge: dict[str, Merge] | None = None,
    ):
        if schema < 1:
            raise BadField(f"schema is {schema}; versions count from 1")
        super().__init__(serde=made_strict(serde, tuple(allow)))
        self.store = store if isinstance(store, Store) else open_store(store)
        self.schema, self.migrations = schema, tuple(migrations)
        self.shape: dict | None = None
        self.fingerprint, self.changed = "", "refuse"
        self.lines = Lines(merge or {})
        self._fresh()

    def _fresh(self) -> None:
        self.codec = Codec(self.serde)
        self._threads: OrderedDict[str, Thread] = OrderedDict()
        self._lock = threading.Lock()

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> AgentkitSaver:
        """A saver over the same store that allows these classes, too; LangGraph calls it in its strict mode."""
        clone = super().with_allowlist(extra_allowlist)
        if clone is not self:
            clone._fresh()
        return clone

    def bind(self, graph: Any, changed: str = "refuse") -> Any:
        """Let a compiled graph keep its threads here, and check them against it; returns the graph.

        A thread that another graph has written raises GraphChanged unless migrations lead to this one. With `changed`
        "when finished" that is so only where a turn is still open in a node that is gone.
        """
        if changed not in ("refuse", "when finished"):
            raise BadField(f"changed is {changed!r}; allowed are 'refuse' and 'when finished'")
        clone = AgentkitSaver(self.store, serde=self.serde, schema=self.schema, migrations=self.migrations)
        clone.lines, clone.shape, clone.changed = self.lines, shape_of(graph), changed
        clone.fingerprint = fingerprint_of(clone.shape)
        graph.checkpointer = clone
        return graph

    def thread(self, name: str) -> Thread:
        """The thread of this name, there or not; the last few stay open with what was read of them."""
        with self._lock:
            thread = self._threads.get(name)
            if thread is None:
                thread = Thread(self.store, name, self.codec, self.schema, self.fingerprint)
                self._threads[name] = thread
            self._threads.move_to_end(name)
            while len(self._threads) > OPEN_THREADS:
                self._threads.popitem(last=False)
            return thread

    def threads(self) -> list[str]:
        """The names of all threads in the store."""
        from agentkit.checkpoints.upkeep import names

        return names(self.store)

    def turn(self, thread: str, cancel: threading.Event | None = None, seconds: float = 600) -> Any:
        """A context manager that holds the thread's lease: other writers that ask for it wait.

        Raises ThreadBusy after `seconds`, LeaseCancelled once `cancel` is set.
        """
        from agentkit.checkpoints.stores.base import key_of

        return self.store.lease(key_of(thread), cancel or threading.Event(), seconds)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The version of a channel after this one."""
        return next_version(current)

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, else the newest of its thread; None if there is none."""
        place = config["configurable"]
        name, ns, id = str(place["thread_id"]), place.get("checkpoint_ns", ""), get_checkpoint_id(config)
        thread = self.thread(name)

        def look(log: Log) -> tuple | None:
            tip = log.newest(ns)
            record = log.find(ns, id) if id else tip
            forks = bool(id and record) and self.lines.forks(log, record, tip, self.codec)
            return record and (record, forks, self._raw(log, record, name), log.shape)

        found = thread.read(look)
        if not found:
            return None
        record, forks, raw, shape = found
        got = self._tuple(name, record, raw)
        self._fits(name, ns, record, got.checkpoint, shape)
        # A run that begins at an old checkpoint forks the thread; LangGraph hands this mark on to every put of the run.
        if forks:
            got.config["configurable"][FORK] = id
        return got

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first, of the config's thread and namespace where it names them; only what is asked for is read."""
        place = (config or {}).get("configurable", {})
        names = [str(place["thread_id"])] if "thread_id" in place else self.threads()
        end = get_checkpoint_id(before) if before else None
        left = limit if limit is not None else float("inf")
        for name in names:
            for record, raw in self._matching(name, place, filter or {}, end, left):
                left -= 1
                yield self._tuple(name, record, raw)

    def _matching(self, name: str, place: dict, wanted: dict, before: str | None, limit: float) -> list[tuple]:
        def look(log: Log) -> list[tuple]:
            id, found = place.get("checkpoint_id"), []
            for record in log.newest_first(place.get("checkpoint_ns"), before):
                if len(found) >= limit:
                    break
                if id and record.id != id:
                    continue
                metadata = self.codec.load(("msgpack", record.metadata), f"thread {name!r}, metadata of {record.id}")
                if all(key in metadata and metadata[key] == value for key, value in wanted.items()):
                    found.append((record, self._raw(log, record, name)))
            return found

        return self.thread(name).read(look) if limit > 0 else []

    def _raw(self, log: Log, record: Record, name: str) -> tuple[dict, list]:
        """What a tuple needs, still as bytes: loading it is work for outside the lock."""
        values = {channel: (ref[0], log.typed(ref)) for channel, ref in record.values.items()}
        writes = [(w[0], w[3], (w[4][0], log.typed(w[4]))) for w in log.writes(record)]
        return values, writes

    def _tuple(self, name: str, record: Record, raw: tuple[dict, list]) -> CheckpointTuple:
        where = f"thread {name!r}, checkpoint {record.id}"

        def load(channel: str, found: tuple) -> Any:
            parts = self.codec.load_all(found[1], f"{where}, channel {channel!r}")
            return parts[0] if found[0] == "v" else parts

        checkpoint = self.codec.load(("msgpack", record.rest), where)
        checkpoint["channel_values"] = {channel: load(channel, found) for channel, found in raw[0].items()}
        if record.schema < self.schema:
            steps = path(record.schema, self.schema, self.migrations, name)
            checkpoint = migrated(checkpoint, steps)
            told("migration", name, 0, f"{where}: schema {record.schema} to {self.schema}")
        return CheckpointTuple(
            _config(name, record.ns, record.id),
            checkpoint,
            self.codec.load(("msgpack", record.metadata), f"{where}, metadata"),
            _config(name, record.ns, record.parent) if record.parent else None,
            [(task, channel, load(channel, found)) for task, channel, found in raw[1]],
        )

    def _fits(self, name: str, ns: str, record: Record, checkpoint: Checkpoint, shape: dict | None) -> None:
        if self.shape is None or ns:
            return
        check_pending(checkpoint["channel_values"], self.shape, name)
        same = record.fingerprint in ("", self.fingerprint) or record.schema < self.schema
        if not same and self.changed == "refuse":
            raise GraphChanged(
                f"thread {name!r} was written by another graph ({record.fingerprint}, this is {self.fingerprint}): "
                f"{differences(shape, self.shape)}. Raise `schema` and write a @migration for what changed, or bind with "
                "changed='when finished' if old state is good as it is"
            )

    # Writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint durably; where another run has moved the thread on, on a side line that is merged."""
        place = config["configurable"]
        name, ns, parent = str(place["thread_id"]), place.get("checkpoint_ns", ""), place.get("checkpoint_id")
        about = get_checkpoint_metadata(config, metadata)
        where = f"thread {name!r}"
        values = checkpoint["channel_values"]
        rest = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        rest_bytes = self.codec.dump(rest, where)[1]
        about_bytes = self.codec.dump(dict(about), f"{where}, metadata")[1]

        def make(log: Log) -> str | None:
            before = log.find(ns, parent) if parent else None
            known = before.values if before and before.schema == self.schema else {}
            versions = self._versions(before)
            refs = {}
            for channel, value in values.items():
                unchanged = channel not in new_versions and channel in known
                if unchanged and versions.get(channel) == checkpoint["channel_versions"].get(channel):
                    refs[channel] = known[channel]
                else:
                    refs[channel] = log.keep(value, f"channel {channel!r}", known.get(channel))
            record = Record(ns, checkpoint["id"], parent, rest_bytes, about_bytes, refs, self.schema, self.fingerprint)
            record.versions = dict(checkpoint["channel_versions"])
            if self.shape is not None and not ns:
                log.shape = self.shape
            side = self.lines.side(log, record, before, place.get(FORK), about, values)
            if side is None:
                log.add(record)
                return None
            record.side = side
            record.landed = finished(values)
            log.add(record)
            if not record.landed:
                return "side"
            self.lines.land(log, record, rest, self.codec, name)
            return "merged"

        thread = self.thread(name)
        outcome = thread.change(make, f"checkpoint {checkpoint['id']}")
        if outcome == "side":
            told("conflict", name, thread.revision, f"checkpoint {checkpoint['id']} lies on a side line until its run ends")
        elif outcome:
            told("merge", name, thread.revision, f"the run that ended in checkpoint {checkpoint['id']}")
        return _config(place["thread_id"], ns, checkpoint["id"])

    def _versions(self, record: Record | None) -> dict:
        if record is None:
            return {}
        if record.versions is None:
            record.versions = self.codec.load(("msgpack", record.rest), "checkpoint")["channel_versions"]
        return record.versions

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task of a superstep gave, before the superstep is whole."""
        place = config["configurable"]
        name, ns, id = str(place["thread_id"]), place.get("checkpoint_ns", ""), place["checkpoint_id"]
        replace = all(channel in WRITES_IDX_MAP for channel, _ in writes)

        def make(log: Log) -> None:
            kept = [
                [task_id, task_path, WRITES_IDX_MAP.get(channel, number), channel, log.keep(value, f"channel {channel!r}")]
                for number, (channel, value) in enumerate(writes)
            ]
            log.add_writes(ns, id, kept, replace)

        self.thread(name).change(make, f"writes of task {task_id}")

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread and everything of it."""
        self.thread(str(thread_id)).delete()

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of these runs from every thread, and with them their writes."""
        for name in self.threads():
            thread = self.thread(name)
            thread.replace(lambda log, t=thread: without_runs(log, set(run_ids), t), "runs removed")

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history; AgentkitError if there is one of the new name already."""
        source, target = self.thread(str(source_thread_id)), self.thread(str(target_thread_id))
        with source.lock:
            log = source.log(anew=True)
            if not log.records:
                return

            def make(old: Log) -> Log:
                if old.records:
                    raise AgentkitError(f"thread {target.name!r} exists already; delete it first or copy to another name")
                return copied(log, target)

            target.replace(make, f"copied from {source.name!r}")

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of every namespace ("keep_latest"), or nothing ("delete")."""
        if strategy not in ("keep_latest", "delete"):
            raise BadField(f"strategy is {strategy!r}; allowed are 'keep_latest' and 'delete'")
        for name in map(str, thread_ids):
            thread = self.thread(name)
            if strategy == "delete":
                thread.delete()
            else:
                thread.replace(lambda log, t=thread: only_latest(log, t), "pruned")

    # LangGraph's asynchronous half: the same work in a worker thread, for files and sockets block.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        found, done = self.list(config, **options), object()
        while (one := await asyncio.to_thread(next, found, done)) is not done:
            yield one

    async def aput(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata,
                   new_versions: ChannelVersions) -> RunnableConfig:
        """As `put`."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str,
                          task_path: str = "") -> None:
        """As `put_writes`."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)


def _config(thread: Any, ns: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}
