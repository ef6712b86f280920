"""The envelope around everything that is stored: who wrote it, in which format, and a checksum over every byte of it.

A file is MAGIC, the SHA-256 of all that follows, and one msgpack map: the header's fields and the body. Heads are
replaced, so a head carries the name of its thread and a revision; everything else is written once under the SHA-256 of
its bytes. A truncated, flipped or swapped object is therefore noticed when it is read, whatever the store is.
"""

import hashlib
import time
import zlib
from dataclasses import dataclass

import ormsgpack

from agentkit.checkpoints.errors import SchemaNewer, StoreDamaged

FORMAT = 1
MAGIC = b"AKCP"
START = len(MAGIC) + 32  # bytes before the map


@dataclass(frozen=True)
class Envelope:
    """An opened envelope. `at` is Unix time in seconds, `cipher` the cipher that the body is still closed with."""

    kind: str
    thread: str
    revision: int
    schema: int
    fingerprint: str
    at: float
    cipher: str
    body: bytes
    checksum: str


def pack(
    kind: str,
    body: bytes,
    *,
    thread: str,
    revision: int = 0,
    schema: int = 1,
    fingerprint: str = "",
    cipher: str = "",
    compress: bool = False,
    at: float | None = None,
) -> bytes:
    """The bytes to store. A body that is to be encrypted has to be already: here it is only framed and checked."""
    squeezed = compress and len(body) > 256
    header = {
        "format": FORMAT,
        "kind": kind,
        "thread": thread,
        "revision": revision,
        "schema": schema,
        "fingerprint": fingerprint,
        "at": time.time() if at is None else at,
        "cipher": cipher,
        "z": squeezed,
        "body": zlib.compress(body, 6) if squeezed else body,
    }
    rest = ormsgpack.packb(header)
    return MAGIC + hashlib.sha256(rest).digest() + rest


def unpack(data: bytes | None, what: str, *, kind: str, thread: str) -> Envelope:
    """Open an envelope. `what` names the object in errors: StoreDamaged, or SchemaNewer for a later format."""
    if data is None:
        raise StoreDamaged(what, "it is missing, though something refers to it")
    if data[: len(MAGIC)] != MAGIC:
        raise StoreDamaged(what, f"it does not begin as agentkit writes it ({len(data)} bytes)")
    rest = data[START:]
    if hashlib.sha256(rest).digest() != data[len(MAGIC) : START]:
        raise StoreDamaged(what, f"its checksum does not fit its {len(data)} bytes (truncated or changed)")
    found = ormsgpack.unpackb(rest)
    if found["format"] > FORMAT:
        raise SchemaNewer(f"{what} has format {found['format']}, this agentkit reads up to {FORMAT}: update agentkit")
    if (found["kind"], found["thread"]) != (kind, thread):
        raise StoreDamaged(
            what, f"it is the {found['kind']} of thread {found['thread']!r}, not the {kind} of {thread!r} (swapped)"
        )
    body = zlib.decompress(found["body"]) if found["z"] else found["body"]
    fields = {name: found[name] for name in ("revision", "schema", "fingerprint", "at", "cipher")}
    return Envelope(kind=kind, thread=thread, body=body, checksum=data[len(MAGIC) : START].hex(), **fields)


def thread_of(data: bytes | None, what: str) -> str:
    """The name of the thread that an envelope belongs to; StoreDamaged where even that cannot be read."""
    if data is None or hashlib.sha256(data[START:]).digest() != data[len(MAGIC) : START]:
        raise StoreDamaged(what, "its checksum does not fit")
    return ormsgpack.unpackb(data[START:])["thread"]


def blob_name(data: bytes) -> str:
    """The content address of a stored object: SHA-256 of its bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def check_blob(data: bytes | None, name: str, what: str) -> bytes:
    """The bytes, if they are those that the name promises; else StoreDamaged."""
    if data is None:
        raise StoreDamaged(what, "it is missing, though something refers to it")
    if blob_name(data) != name:
        raise StoreDamaged(what, f"its {len(data)} bytes are not those it was written with (truncated, changed, swapped)")
    return data
