"""A thread as it is kept: an append-only log of checkpoints and of the values they share, behind one small head.

A list in a state (the messages) is kept as numbers of items: each item is stored once, and a history of a thousand
messages is `[0, 1000]`, in every checkpoint anew. The newest entries lie in the head itself, so a superstep is one
conditional write; when there are too many, the older ones move into a segment, an immutable blob that the head names.
"""

import bisect
import hashlib
from collections.abc import Iterator
from typing import Any

import ormsgpack

from agentkit.checkpoints.records import Record, Ref, Rows, Segment, mark, runs, unpack_record, unpack_segment
from agentkit.checkpoints.values import Codec

MOST, KEPT = 48, 12  # entries at which the head is relieved, and how many stay in it
MOST_BYTES = 96_000
LARGE = 16_384  # bytes from which a value is a blob of its own
FOLD = 32  # runs of a list that become one rope: other values lie between the messages, so a long list has many runs

class Log:
    """The log of one thread in memory. `vault` fetches blobs (`fetch(kind, name)`) and seals new ones.

    Changing it changes nothing in the store: `body()` is what the next head has to hold, `new_blobs` (name, bytes) what
    has to be written before it. `older`: a log of the same thread whose loaded segments may be used.
    """

    def __init__(self, codec: Codec, vault: Any, body: bytes | None = None, older: "Log | None" = None):
        self.codec, self.vault = codec, vault
        found = ormsgpack.unpackb(body) if body else {"records": [], "items": [], "first": 0, "base": 0, "index": [],
                                                      "late": [], "shape": None}
        self.records = Rows(found["records"], unpack_record)
        self._packed: list[bytes | None] = list(found["records"])
        self.first, self.base = found["first"], found["base"]
        self.items: list[list] = found["items"]
        self.index = Rows(found["index"], unpack_segment)
        self._entries: list[bytes] = list(found["index"])  # the index as it is written
        self.late: list[list] = found["late"]
        self.shape: dict | None = found["shape"]
        self._numbers: dict[bytes, int] = {}
        self._numbered: set[str] = set()
        self._loaded: dict[str, tuple[Rows, list[list]]] = {}
        self._older = older._loaded if older else {}
        self.new_blobs: list[tuple[str, bytes]] = []
        self._inline_bytes = sum(len(item[1]) for item in self.items) + sum(map(len, found["records"]))

    # Reading

    def newest(self, ns: str) -> Record | None:
        """The tip of a namespace: the last checkpoint that was put on its main line."""
        for record in reversed(self.records):
            if record.ns == ns and record.side is None:
                return record
        for segment in reversed(self.index):
            if segment.has_space(ns):
                for record in reversed(self._segment(segment)[0]):
                    if record.ns == ns and record.side is None:
                        return record
        return None

    def find(self, ns: str, id: str) -> Record | None:
        """The checkpoint with this id, or None."""
        for record in reversed(self.records):
            if record.id == id and record.ns == ns:
                return record
        for segment in reversed(self.index):
            if segment.low <= id <= segment.high and segment.has_space(ns):
                for record in reversed(self._segment(segment)[0]):
                    if record.id == id and record.ns == ns:
                        return record
        return None

    def in_order(self) -> Iterator[Record]:
        """Every checkpoint as it was put, all segments read."""
        for segment in self.index:
            yield from self._segment(segment)[0]
        yield from self.records

    def newest_first(self, ns: str | None, before: str | None = None) -> Iterator[Record]:
        """Checkpoints by descending id (of one namespace, or of all), each once; segments are read as they are needed."""
        at, ready, seen = len(self.index), list(reversed(self.records)), set()
        while True:
            bound = self.index[at - 1].high if at else ""
            ready = [r for r in ready if (ns is None or r.ns == ns) and (before is None or r.id < before)]
            ready.sort(key=lambda record: record.id, reverse=True)
            while ready and ready[0].id > bound:
                record = ready.pop(0)
                if (record.ns, record.id) not in seen:
                    seen.add((record.ns, record.id))
                    yield record
            if not at:
                return
            at -= 1
            segment = self.index[at]
            if (ns is None or segment.has_space(ns)) and (before is None or segment.low < before):
                ready += reversed(self._segment(segment)[0])

    def writes(self, record: Record) -> list[list]:
        """The pending writes of a checkpoint."""
        found = {(write[0], write[2]): write for write in record.writes}
        found |= {(write[0], write[2]): write for ns, id, write in self.late if (ns, id) == (record.ns, record.id)}
        return sorted(found.values(), key=lambda write: (write[1], write[0], write[2]))

    def numbers(self, ref: Ref) -> list[int]:
        """The items of a value in order."""
        if ref[0] == "v":
            return [ref[1]]
        parts = [ref[1:] if ref[0] == "l" else ref[2:]]
        for rope in self._ropes(ref):
            parts.append(rope[1])
        return [n for part in reversed(parts) for at in range(0, len(part), 2)
                for n in range(part[at], part[at] + part[at + 1])]

    def _ropes(self, ref: Ref) -> Iterator[list]:
        """The ropes of a list, last one first."""
        number = ref[1] if ref[0] == "r" else None
        while number is not None:
            first, items = self._part(number)
            rope = ormsgpack.unpackb(items[number - first][1])
            yield rope
            number = rope[0]

    def listed(self, numbers: list[int]) -> Ref:
        """The ref of a list of items. A longer list folds as the shorter one did, so its ropes are known already."""
        found, rope = runs(numbers), None
        while len(found) > 3 * FOLD:
            rope = self.take("rope", ormsgpack.packb([rope, found[: 2 * FOLD]]))
            found = found[2 * FOLD :]
        return ["l", *found] if rope is None else ["r", rope, *found]

    def typed(self, ref: Ref) -> list[tuple[str, bytes]]:
        """Type and bytes of the items of a value, in order."""
        out, first, items = [], 0, []
        for number in self.numbers(ref):
            if not first <= number < first + len(items):
                first, items = self._part(number)
            item = items[number - first]
            if len(item) > 2:
                out.append((item[0][5:], self.vault.fetch("value", item[1].decode())))
            else:
                out.append((item[0], item[1]))
        return out

    def _part(self, number: int) -> tuple[int, list[list]]:
        """The items of the head or segment that holds this one, and the number of their first."""
        if number >= self.base:
            return self.base, self.items
        segment = self.index[self._at(number)]
        return segment.items, self._segment(segment)[1]

    def value(self, ref: Ref, where: str) -> Any:
        """The value that a ref stands for."""
        found = self.codec.load_all(self.typed(ref), where)
        return found[0] if ref[0] == "v" else found

    def _segment(self, segment: Segment) -> tuple["Rows", list[list]]:
        if segment.blob not in self._loaded:
            loaded = self._older.get(segment.blob)
            if loaded is None:
                body = ormsgpack.unpackb(self.vault.fetch("segment", segment.blob))
                loaded = Rows(body["records"], unpack_record), body["items"]
            self._loaded[segment.blob] = loaded
        return self._loaded[segment.blob]

    def blob_names(self) -> set[str]:
        """Every blob that this head needs, those inside segments included."""
        names = {segment.blob for segment in self.index}
        for items in [self.items, *(self._segment(segment)[1] for segment in self.index)]:
            names |= {item[1].decode() for item in items if item[0].startswith("blob:")}
        return names

    # Writing

    def keep(self, value: Any, where: str, known: Ref | None = None) -> Ref:
        """A ref for a value; `known` is a value whose items are likely to come again."""
        for segment in self._segments(known) if known else []:
            self._number(segment.blob, segment.items, self._segment(segment)[1])
        if type(value) is not list or not value or all(isinstance(part, int | float | None) for part in value):
            return ["v", self.take(*self.codec.dump(value, where))]
        old, numbers = (self.typed(known), self.numbers(known)) if known and known[0] != "v" else ([], [])
        found = []
        for place, typed in enumerate(self.codec.dump_all(value, where)):
            # Most of a history is where it was before: comparing bytes is cheaper than looking for them.
            same = place < len(old) and old[place] == typed
            found.append(numbers[place] if same else self.take(*typed))
        return self.listed(found)

    def _segments(self, ref: Ref) -> list[Segment]:
        """Those that hold items of a value."""
        found: dict[str, Segment] = {}
        segment = None
        for number in [*self.numbers(ref), *(rope[0] for rope in self._ropes(ref) if rope[0] is not None), *ref[1:2]]:
            if number < self.base and not (segment and segment.items <= number < segment.items_end):
                segment = self.index[self._at(number)]
                found[segment.blob] = segment
        return list(found.values())

    def _at(self, number: int) -> int:
        """The place in the index of the segment that holds this item."""
        place = bisect.bisect_right(self.index, number, key=lambda segment: segment.items) - 1
        while number >= self.index[place].items_end:  # a segment without items begins where the next one does
            place -= 1
        return place

    def take(self, kind: str, data: bytes) -> int:
        """The number of an item of this type with these bytes, which is kept once."""
        self._number("", self.base, self.items)
        item = [kind, bytes(data)]
        digest = _digest(item)
        if digest not in self._numbers:
            if len(data) > LARGE:
                name, blob = self.vault.seal("value", item[1])
                self.new_blobs.append((name, blob))
                item = [f"blob:{kind}", name.encode(), digest]
            self._numbers[digest] = self.base + len(self.items)
            self.items.append(item)
            self._inline_bytes += len(item[1])
        return self._numbers[digest]

    def _number(self, part: str, first: int, items: list[list]) -> None:
        """Learn the numbers of a segment's items (part: its blob) or of those in the head, for values that come again."""
        if part not in self._numbered:
            self._numbered.add(part)
            for place, item in enumerate(items):
                self._numbers.setdefault(_digest(item), first + place)

    def add(self, record: Record) -> None:
        """Append a checkpoint; one of the same id that lies in the head is replaced."""
        place = self._place(record.ns, record.id)
        if place is not None:
            record.writes = record.writes or self.records[place].writes
            self.records[place], self._packed[place] = record, None
            return
        self.records.append(record)
        self._packed.append(None)
        self._inline_bytes += len(record.rest) + len(record.metadata) + 200

    def _place(self, ns: str, id: str) -> int | None:
        for place in range(len(self.records) - 1, -1, -1):
            record = self.records[place]
            if record.id == id and record.ns == ns:
                return place
        return None

    def add_writes(self, ns: str, id: str, writes: list[list], replace: bool) -> None:
        """Append pending writes. Of one task and index only the first counts, or with `replace` the last."""
        place = self._place(ns, id)
        record = self.records[place] if place is not None else self.find(ns, id)
        held = self.writes(record) if record else [w for n, i, w in self.late if (n, i) == (ns, id)]
        taken = {(old[0], old[2]) for old in held}
        writes = [write for write in writes if replace or (write[0], write[2]) not in taken]
        if place is None:
            self.late += [[ns, id, write] for write in writes]
            return
        names = {(write[0], write[2]) for write in writes}
        record.writes = [old for old in record.writes if (old[0], old[2]) not in names] + writes
        self._packed[place] = None
        self._inline_bytes += 100 * len(writes)

    def touched(self, record: Record) -> None:
        """Tell that a record in the head was changed."""
        self._packed[self._place(record.ns, record.id)] = None

    def relieve(self, fully: bool = False) -> None:
        """Move older entries into a segment if the head has grown too large (`fully`: all but the newest few)."""
        if not fully and len(self.records) < MOST and self._inline_bytes < MOST_BYTES:
            return
        count = len(self.records) - (KEPT if len(self.records) > KEPT else 1)
        if count <= 0:
            return
        gone, self.records = (Rows(part, unpack_record) for part in (self.records[:count], self.records[count:]))
        packed = [data or record.pack() for data, record in zip(self._packed, gone)]
        self._packed = self._packed[count:]
        name, blob = self.vault.seal("segment", ormsgpack.packb(
            {"records": packed, "items": self.items, "first": self.first, "base": self.base}))
        self.new_blobs.append((name, blob))
        ids = [record.id for record in gone]
        spaces = b"".join(sorted({mark(record.ns) for record in gone}))
        end = self.base + len(self.items)
        high = max([*ids, *(self.index[place].high for place in range(len(self.index))[-1:])])
        self.append_segment(Segment(self.first, self.first + count, self.base, end, min(ids), high, spaces, name))
        self._loaded[name] = gone, self.items
        self._numbered.add(name)
        self.first, self.base, self.items = self.first + count, end, []
        self._inline_bytes = sum(len(data or b"") for data in self._packed)

    def append_segment(self, segment: Segment) -> None:
        """Name one more segment."""
        self.index.append(segment)
        self._entries.append(ormsgpack.packb(list(vars(segment).values())))

    def body(self) -> bytes:
        """What the head has to hold now."""
        for place, data in enumerate(self._packed):
            if data is None:
                self._packed[place] = self.records[place].pack()
        return ormsgpack.packb({
            "records": self._packed, "items": self.items, "first": self.first, "base": self.base,
            "index": self._entries, "late": self.late, "shape": self.shape,
        })


def _digest(item: list) -> bytes:
    if len(item) > 2:
        return item[2]
    return hashlib.blake2b(item[0].encode() + b"\0" + item[1], digest_size=16).digest()
