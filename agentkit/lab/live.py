"""`LiveRows`: rows in a notebook that grow while a run goes on, one small message for each drawing.

The whole text is never a synced trait: that would send it again with every token. A page that comes later (a second
view, a reload) asks for everything once. `front/rows.js` is the other half.
"""

import threading
from pathlib import Path

import anywidget
import traitlets

from agentkit.lab.rows import Rows, Still

FRONT = Path(__file__).parent / "front"


class LiveRows(anywidget.AnyWidget):
    """Shows `rows`. Whoever changes them holds `lock` (the stage's), and calls `flush()` to have the changes drawn.

    Each message is numbered, so that a page notices that it missed one and asks for all. `status` is one line about a
    run under way, above the rows: how far (0..1, or None for no bar) and a few words.
    """

    _esm = FRONT / "rows.js"
    _css = FRONT / "rows.css"
    label = traitlets.Unicode("").tag(sync=True)  # what a screen reader says it is

    def __init__(self, rows: Rows, label: str, lock: threading.RLock):
        self.rows, self.lock = rows, lock
        self._number, self._status, self._drawn = 0, [None, ""], [None, ""]
        super().__init__(label=label)
        self.on_msg(self._asked)

    def status(self, share: float | None, words: str) -> None:
        """Set the status line."""
        self._status = [share if share is None else round(share, 3), words]

    def flush(self) -> None:
        """Send what changed since the last time, if anything did."""
        with self.lock:
            ops = self.rows.drain()
            if self._status != self._drawn:
                ops.append(["stat", *self._status])
                self._drawn = self._status
            if ops:
                self._number += 1
                self.send({"n": self._number, "ops": _sendable(ops)})

    def text(self) -> str:
        """The rows and the footer as plain text."""
        with self.lock:
            return self.rows.text()

    def still(self) -> Still:
        """The rows as a still picture."""
        with self.lock:
            return Still(self.rows.rows, self.rows.footer)

    def _asked(self, _: object, content: object, buffers: object) -> None:
        if isinstance(content, dict) and content.get("want") == "all":
            with self.lock:
                # What is noted as changed is part of the whole.
                self.rows.drain()
                self._drawn = self._status
                self._number += 1
                ops = [*self.rows.whole(), ["stat", *self._status]]
                self.send({"n": self._number, "all": True, "ops": _sendable(ops)})

    def __repr__(self) -> str:
        return f"LiveRows({self.label!r})"


def _sendable(ops: list[list]) -> list[list]:
    # Half a surrogate pair, which a model may write, cannot be sent.
    return [[item.encode("utf-8", "replace").decode() if isinstance(item, str) else item for item in op] for op in ops]
