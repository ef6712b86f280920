"""What a widget needs that grows while a run goes on: one small message for each drawing.

The whole is never a synced trait: that would send it again with every token. A page that comes later (a second view, a
reload) asks for everything once. `front/wire.js` is the other half of `Live`, `front/rows.js` that of `LiveRows`.
"""

import threading
from pathlib import Path

import anywidget
import traitlets

from agentkit.lab.rows import Rows, Still

FRONT = Path(__file__).parent / "front"


def script(name: str) -> str:
    """A front-end file behind the part that all live widgets share; anywidget takes one text for each widget."""
    return "\n".join((FRONT / part).read_text(encoding="utf-8") for part in ("wire.js", name))


class Live(anywidget.AnyWidget):
    """Sends changes as lists ("ops"), numbered, so that a page notices that it missed one and asks for all.

    A widget defines `_changes` (ops since the last drawing, which count as drawn then) and `_whole` (ops that lead from
    nothing to what is there). Whoever changes what is shown holds `lock` (the stage's), and calls `flush()`.
    """

    label = traitlets.Unicode("").tag(sync=True)  # what a screen reader says it is

    def __init__(self, label: str, lock: threading.RLock):
        self.lock, self._number = lock, 0
        super().__init__(label=label)
        self.on_msg(self._asked)

    def flush(self) -> None:
        """Send what changed since the last time, if anything did."""
        with self.lock:
            if ops := self._changes():
                self._say({"ops": ops})

    def _asked(self, _: object, content: object, buffers: object) -> None:
        if isinstance(content, dict) and content.get("want") == "all":
            with self.lock:
                self._say({"all": True, "ops": self._whole()})

    def _say(self, message: dict) -> None:
        self._number += 1
        self.send({"n": self._number, **message})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label!r})"


class LiveRows(Live):
    """Shows `rows`. `status` is one line about a run under way, above the rows: how far, and a few words."""

    _esm = script("rows.js")
    _css = FRONT / "rows.css"

    def __init__(self, rows: Rows, label: str, lock: threading.RLock):
        self.rows = rows
        self._status, self._drawn = [None, ""], [None, ""]
        super().__init__(label, lock)

    def status(self, share: float | None, words: str) -> None:
        """Set the status line; `share` is 0 to 1, or None for no bar."""
        self._status = [share if share is None else round(share, 3), words]

    def text(self) -> str:
        """The rows and the footer as plain text."""
        with self.lock:
            return self.rows.text()

    def still(self) -> Still:
        """The rows as a still picture."""
        with self.lock:
            return Still(self.rows.rows, self.rows.footer)

    def _changes(self) -> list[list]:
        ops = self.rows.drain()
        if self._status != self._drawn:
            ops.append(["stat", *self._status])
            self._drawn = self._status
        return _sendable(ops)

    def _whole(self) -> list[list]:
        self._changes()  # what is noted as changed is part of the whole
        return _sendable([*self.rows.whole(), ["stat", *self._status]])


def _sendable(ops: list[list]) -> list[list]:
    # Half a surrogate pair, which a model may write, cannot be sent.
    return [[item.encode("utf-8", "replace").decode() if isinstance(item, str) else item for item in op] for op in ops]
