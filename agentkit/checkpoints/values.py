"""Values of a state as bytes and back: strict msgpack, named refusals, and encryption of whole bodies.

LangGraph's serializer in its strict form gives back the raw fields of a class it does not know, with a line in a log.
Here that is an error: a state that silently turned into a dict is lost state, and a class that nobody allowed is either
a mistake or an attack.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agentkit.checkpoints.errors import CannotStore, ClassRefused, StoreUnavailable

_blocked: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("agentkit_blocked", default=None)


def _listen(event: Any) -> None:
    seen = _blocked.get()
    if seen is not None and event["kind"].endswith("_blocked"):
        seen.append(f"{event['module']}.{event['name']}")


register_serde_event_listener(_listen)


def strict(allow: tuple = ()) -> JsonPlusSerializer:
    """LangGraph's serializer with its list of safe types and the classes in `allow`, and no others."""
    return JsonPlusSerializer(allowed_msgpack_modules=None).with_msgpack_allowlist(allow)


def made_strict(serde: SerializerProtocol | None, allow: tuple) -> SerializerProtocol:
    """The serializer to use: never one that loads any class a row names."""
    if serde is None:
        return strict(allow)
    inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
    if isinstance(inner, JsonPlusSerializer):
        if inner._allowed_msgpack_modules is True:
            inner = strict()
        inner = inner.with_msgpack_allowlist(allow) if allow else inner
    return EncryptedSerializer(serde.cipher, inner) if isinstance(serde, EncryptedSerializer) else inner


class Codec:
    """One serializer for values, and, with an EncryptedSerializer, its cipher for the bodies that hold them.

    Values are written plainly inside a body and the body is encrypted as a whole: equal messages are still found equal
    and stored once, and nothing of a thread but its name, revision, schema and times can be read without the key.
    """

    def __init__(self, serde: SerializerProtocol):
        closed = isinstance(serde, EncryptedSerializer)
        self.inner, self.cipher = (serde.serde, serde.cipher) if closed else (serde, None)

    def dump(self, value: Any, where: str) -> tuple[str, bytes]:
        """Type and bytes of a value; CannotStore names the path to what has no known form."""
        try:
            return self.inner.dumps_typed(value)
        except Exception as error:
            path, culprit = _culprit(self.inner, value, where)
            raise CannotStore(
                f"{path} holds a {type(culprit).__module__}.{type(culprit).__qualname__}, which cannot be stored "
                f"({error}); keep plain data, messages, dataclasses or pydantic models in the state"
            ) from error

    def dump_all(self, values: list, where: str) -> list[tuple[str, bytes]]:
        """As `dump` for each part of a list."""
        try:
            return [self.inner.dumps_typed(value) for value in values]
        except Exception:
            return [self.dump(value, f"{where}[{place}]") for place, value in enumerate(values)]

    def load(self, typed: tuple[str, bytes], where: str) -> Any:
        """The value; ClassRefused if it names a class or function that is not allowed (nothing of it is run)."""
        with _watching() as blocked:
            value = self.inner.loads_typed((typed[0], typed[1]))
        if blocked:
            raise ClassRefused(
                f"{where} names {blocked[0]}, which is not on the allow list; nothing of it was loaded. If the class is "
                "yours, pass allow=[it] to AgentkitSaver; if not, somebody else wrote here"
            )
        return value

    def load_all(self, typed: list[tuple[str, bytes]], where: str) -> list:
        """As `load` for the parts of a list, in one go where they allow it: msgpack of a list is that of its parts."""
        if isinstance(self.inner, JsonPlusSerializer) and typed and all(kind == "msgpack" for kind, _ in typed):
            count = len(typed).to_bytes(4, "big")
            return self.load(("msgpack", b"\xdd" + count + b"".join(data for _, data in typed)), where)
        return [self.load(part, where) for part in typed]

    def close(self, body: bytes) -> tuple[str, bytes]:
        """Name of the cipher ("" without one) and the body as it may be stored."""
        return self.cipher.encrypt(body) if self.cipher else ("", body)

    def open(self, cipher: str, body: bytes, what: str) -> bytes:
        """The plain body; StoreUnavailable without the key, or with another."""
        if not cipher:
            return body
        if self.cipher is None:
            raise StoreUnavailable(f"{what} is encrypted ({cipher}); give the saver the EncryptedSerializer with its key")
        try:
            return self.cipher.decrypt(cipher, body)
        except Exception as error:
            raise StoreUnavailable(f"{what} cannot be decrypted: {error}; is this the key it was written with?") from error


@contextlib.contextmanager
def _watching() -> Iterator[list[str]]:
    token = _blocked.set([])
    try:
        yield _blocked.get()
    finally:
        _blocked.reset(token)


def _culprit(serde: Any, value: Any, where: str) -> tuple[str, Any]:
    """The innermost part of a value that cannot be written, and the path to it."""
    if isinstance(value, dict):
        parts = [(f"{where}[{key!r}]", part) for key, part in value.items()]
    elif isinstance(value, list | tuple | set):
        parts = [(f"{where}[{number}]", part) for number, part in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [(f"{where}.{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value)]
    else:
        parts = [(f"{where}.{name}", part) for name, part in getattr(value, "__dict__", {}).items()]
    for path, part in parts:
        try:
            serde.dumps_typed(part)
        except Exception:
            return _culprit(serde, part, path)
    return where, value
