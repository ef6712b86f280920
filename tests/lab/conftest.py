"""For tests of panels: what goes over the wire to the front end is counted."""

import json

import comm
import pytest


class Wire:
    """Messages to the front end since the last `clear()`, as (widget's comm id, data, bytes)."""

    def __init__(self):
        self.messages: list[tuple[str, dict, int]] = []

    def clear(self) -> None:
        self.messages.clear()

    @property
    def bytes(self) -> int:
        return sum(size for _, _, size in self.messages)

    def custom(self) -> list[dict]:
        """The contents of the custom messages (those of `LiveRows`)."""
        return [data["content"] for _, data, _ in self.messages if data and data.get("method") == "custom"]


@pytest.fixture
def wire(monkeypatch):
    """Widgets made in this test send to this wire."""
    line = Wire()

    class Counting(comm.base_comm.BaseComm):
        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
            size = len(json.dumps([data, metadata])) + sum(len(buffer) for buffer in buffers or ())
            line.messages.append((self.comm_id, data or {}, size))

    monkeypatch.setattr(comm, "create_comm", lambda *args, **kwargs: Counting(*args, **kwargs))
    return line
