"""What a log consists of, as it is written: records of checkpoints, entries for segments, and lists of them that are
unpacked only where somebody looks."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ormsgpack

Ref = list
"""A value: ["v", item]; or a list as ["l", first, count, first, count, ...], or ["r", rope, first, count, ...] where the
item `rope` holds what comes before, as [rope or None, [first, count, ...]]."""


@dataclass
class Record:
    """One checkpoint: `rest` is the checkpoint without its values, `values` maps channels to refs.

    `side` is None on the main line, else the id of the checkpoint ("" for none) where its line left it. `writes` are
    [task, task path, index, channel, ref].
    """

    ns: str
    id: str
    parent: str | None
    rest: bytes
    metadata: bytes
    values: dict[str, Ref]
    schema: int = 1
    fingerprint: str = ""
    side: str | None = None
    landed: bool = False
    writes: list[list] = field(default_factory=list)
    versions: dict | None = field(default=None, compare=False)  # the channel versions in `rest`, once somebody asked

    def pack(self) -> bytes:
        """As it is written."""
        return ormsgpack.packb([self.ns, self.id, self.parent, self.rest, self.metadata, self.values, self.schema,
                                self.fingerprint, self.side, self.landed, self.writes])


@dataclass
class Segment:
    """What the head knows of a segment: sequence numbers, items, ids, namespaces, and the blob's name.

    `low` is its lowest id, `high` the highest in it or any segment before it.
    """

    first: int
    end: int
    items: int
    items_end: int
    low: str
    high: str
    spaces: bytes
    blob: str

    def has_space(self, ns: str) -> bool:
        """Whether the namespace may be in it; four bytes a namespace are kept, so it may err, in this direction only."""
        wanted = mark(ns)
        return any(self.spaces[at : at + 4] == wanted for at in range(0, len(self.spaces), 4))


class Rows(list):
    """Records or segments that are unpacked when they are looked at: most of a head's never are."""

    def __init__(self, packed: list, unpack: Callable[[bytes], Any]):
        super().__init__(packed)
        self.unpack = unpack

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        if isinstance(found, bytes):
            found = self.unpack(found)
            self[place] = found
        return found

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self) - 1, -1, -1))


def unpack_segment(data: bytes) -> Segment:
    """An entry of the index as it was written."""
    return Segment(*ormsgpack.unpackb(data))


def unpack_record(data: bytes) -> Record:
    """A record as it was written."""
    return Record(*ormsgpack.unpackb(data))


def runs(numbers: list[int]) -> list[int]:
    """Numbers as starts and counts: 4, 5, 6, 9 becomes 4, 3, 9, 1."""
    out: list[int] = []
    for number in numbers:
        if out and number == out[-2] + out[-1]:
            out[-1] += 1
        else:
            out += [number, 1]
    return out


def mark(ns: str) -> bytes:
    """Four bytes that stand for a namespace."""
    return zlib.crc32(ns.encode()).to_bytes(4, "big")
