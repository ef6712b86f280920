"""Two runs on one thread: which checkpoint goes on the main line, which on a side line, and how a side line lands.

A side line is a run that was overtaken: between its reading of the thread and its first write another run wrote. It is
kept whole (its checkpoints, writes and interrupts are found by their ids), but is not the thread's newest state while
it is under way. When it ends, what it changed since it left the main line is merged into the newest checkpoint there,
as one more checkpoint, in the same write.
"""

from typing import Any

from langgraph.checkpoint.base.id import uuid6

from agentkit.checkpoints.errors import CannotMerge
from agentkit.checkpoints.log import Log
from agentkit.checkpoints.merge import Merge, control, merged
from agentkit.checkpoints.records import Record, Ref
from agentkit.checkpoints.thread import told
from agentkit.checkpoints.values import Codec

FORK = "__agentkit_fork"
"""The key of a config under which `get_tuple` notes the checkpoint that a run forks the thread from, by its user's will."""


def next_version(current: Any) -> Any:
    """The version after this one: a number, or text as SqliteSaver writes it, for threads that were begun there."""
    if isinstance(current, str):
        return f"{int(current.split('.')[0]) + 1:032}.{0:016}"
    return 1 if current is None else current + 1


class Lines:
    """The rules; `merges` holds the merge functions that the user gave, by channel."""

    def __init__(self, merges: dict[str, Merge]):
        self.merges = merges

    @staticmethod
    def forks(log: Log, record: Record, tip: Record | None, codec: Codec) -> bool:
        """Whether a run from this checkpoint is a fork: the main line has gone on from it, and not by merges alone."""
        if record.side is not None:
            return False
        while tip is not None and tip.id != record.id and "merged" in codec.load(("msgpack", tip.metadata), "metadata"):
            tip = log.find(record.ns, tip.parent)
        return tip is not None and tip.id != record.id

    def side(self, log: Log, record: Record, before: Record | None, fork: str | None, metadata: Any,
             values: dict) -> str | None:
        """None if the record goes on the main line; else the id of the checkpoint where its line left that ("": none)."""
        if before is not None and before.side is not None:
            return before.id if before.landed else before.side
        tip = log.newest(record.ns)
        if tip is None or record.parent == tip.id or record.id == tip.id:
            return None
        if metadata.get("source") == "fork" or (fork is not None and fork == record.parent) or not values:
            return None
        return record.parent or ""

    def land(self, log: Log, ours: Record, rest: dict, codec: Codec, thread: str) -> None:
        """Append the checkpoint that joins a finished side line with the main line."""
        tip = log.newest(ours.ns)
        base = log.find(ours.ns, ours.side) if ours.side else None
        theirs_rest = codec.load(("msgpack", tip.rest), "checkpoint")
        theirs_about = codec.load(("msgpack", tip.metadata), "metadata")
        ours_about = codec.load(("msgpack", ours.metadata), "metadata")
        if ours_about.get("counters_since_delta_snapshot") or theirs_about.get("counters_since_delta_snapshot"):
            raise CannotMerge(
                f"thread {thread!r}: two runs overlapped and the graph uses a DeltaChannel, whose value lies in the writes of "
                "one line; let runs take turns with `with saver.turn(thread):`"
            )
        changed = self._changed(log, ours, tip, base, codec, thread)
        versions = dict(theirs_rest["channel_versions"])
        seen = {node: dict(found) for node, found in theirs_rest["versions_seen"].items()}
        for channel in changed:
            held = [v for v in (versions.get(channel), rest["channel_versions"].get(channel)) if v is not None]
            versions[channel] = next_version(max(held, default=None))
            for found in seen.values():  # it is no news to any node: a merge starts nothing
                if channel in found:
                    found[channel] = versions[channel]
        done = self._done(ours, tip, base, theirs_rest, codec)
        for node, found in rest["versions_seen"].items():
            for channel in done & found.keys():
                seen.setdefault(node, {})[channel] = max(found[channel], seen.get(node, {}).get(channel, found[channel]))
        values = {channel: ref for channel, ref in {**tip.values, **changed}.items() if channel not in done}
        id = str(uuid6())
        merged_rest = {**theirs_rest, "id": id, "ts": rest["ts"], "channel_versions": versions, "versions_seen": seen,
                       "updated_channels": sorted({*changed, *(theirs_rest.get("updated_channels") or [])} - done)}
        step = max(ours_about.get("step", 0), theirs_about.get("step", 0)) + 1
        about = {"source": "update", "step": step, "parents": theirs_about.get("parents", {}), "merged": ours.id}
        log.add(Record(ours.ns, id, tip.id, codec.dump(merged_rest, "checkpoint")[1], codec.dump(about, "metadata")[1],
                       values, ours.schema, ours.fingerprint))

    @staticmethod
    def _done(ours: Record, tip: Record, base: Record | None, theirs: dict, codec: Codec) -> set[str]:
        """Channels that our side emptied and the other left as they were: what waited in them has been done."""
        emptied = base.values.keys() - ours.values.keys() if base else set()
        if not emptied & tip.values.keys():
            return set()
        versions = codec.load(("msgpack", base.rest), "checkpoint")["channel_versions"]
        return {channel for channel in emptied if versions.get(channel) == theirs["channel_versions"].get(channel)}

    def _changed(self, log: Log, ours: Record, tip: Record, base: Record | None, codec: Codec,
                 thread: str) -> dict[str, Ref]:
        """The channels that differ from the tip after the merge."""
        out: dict[str, Ref] = {}
        for channel, mine in ours.values.items():
            old, other = base.values.get(channel) if base else None, tip.values.get(channel)
            if mine == old or mine == other:
                continue
            value = log.value(mine, channel)
            if control(channel, value):
                continue
            if other == old or other is None:
                out[channel] = mine
                continue
            before = log.value(old, channel) if old else None
            if channel in self.merges:
                result, gave_way = self.merges[channel](before, value, log.value(other, channel)), False
            else:
                result, gave_way = merged(before, value, log.value(other, channel))
            if gave_way:
                told("merge", thread, 0, f"channel {channel!r} was changed by two runs; the later value stands, the other "
                                         f"is in checkpoint {tip.id}")
            out[channel] = log.keep(result, f"channel {channel!r}", other)
        return out
