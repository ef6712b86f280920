"""A thread written anew: with only its newest checkpoints, without some runs, or under another name."""

from collections.abc import Callable, Iterable

from agentkit.checkpoints.log import Log
from agentkit.checkpoints.records import Record, Ref
from agentkit.checkpoints.thread import Thread


def rewritten(
    log: Log,
    thread: Thread,
    keep: Callable[[Record], bool] = lambda record: True,
    records: Iterable[Record] | None = None,
    relieve: bool = True,
) -> Log:
    """A log for `thread` with the records of `log` that are to be kept, in their order, and only the values they need.

    `records`: these instead of all; `relieve`: with segments, else everything lies in the head.
    """
    new = Log(thread.codec, thread)
    new.shape = log.shape
    numbers: dict[int, int] = {}

    def number(old: int) -> int:
        if old not in numbers:
            numbers[old] = new.take(*log.typed(["v", old])[0])
        return numbers[old]

    def moved(ref: Ref) -> Ref:
        found = [number(old) for old in log.numbers(ref)]
        return ["v", found[0]] if ref[0] == "v" else new.listed(found)

    for record in log.in_order() if records is None else records:
        if keep(record):
            writes = [[*write[:4], moved(write[4])] for write in log.writes(record)]
            values = {channel: moved(ref) for channel, ref in record.values.items()}
            new.add(Record(record.ns, record.id, record.parent, record.rest, record.metadata, values, record.schema,
                           record.fingerprint, record.side, record.landed, writes))
            if relieve:
                new.relieve()
    return new


def copied(log: Log, thread: Thread) -> Log:
    """The whole log for a thread of another name."""
    return rewritten(log, thread)


def only_latest(log: Log, thread: Thread) -> Log | None:
    """The newest checkpoint of each namespace, open side lines, and what a DeltaChannel needs to be rebuilt."""
    if not log.records:
        return None
    kept: set[tuple[str, str]] = set()
    for ns in {record.ns for record in log.newest_first(None)}:
        record = log.newest(ns)
        while record is not None:
            kept.add((ns, record.id))
            about = thread.codec.load(("msgpack", record.metadata), "metadata")
            # The value of a delta channel lies in the writes of its ancestors, up to one that holds it whole.
            deltas = set(about.get("counters_since_delta_snapshot") or {}) - set(record.values)
            record = log.find(ns, record.parent) if deltas and record.parent else None
    sides = [record for record in log.in_order() if record.side is not None]
    ended = {record.side for record in sides if record.landed}
    for record in sides:
        if record.side not in ended:
            kept |= {(record.ns, record.id), (record.ns, record.side)}
    return rewritten(log, thread, lambda record: (record.ns, record.id) in kept)


def without_runs(log: Log, runs: set[str], thread: Thread) -> Log | None:
    """The log without the checkpoints of these runs; None if it has none of them."""

    def gone(record: Record) -> bool:
        return thread.codec.load(("msgpack", record.metadata), "metadata").get("run_id") in runs

    if not any(gone(record) for record in log.newest_first(None)):
        return None
    return rewritten(log, thread, lambda record: not gone(record))
