"""Rows, the form in which panels and timelines show a run: who, and what.

`Rows` holds what a panel shows and notes what changed since it was last drawn, so that a front end gets only that.
"""

import html
import json
from collections.abc import Iterable
from dataclasses import dataclass

from agentkit.events import args_text

# Kind of a row: its colour in a still picture. The front end has its own, for a light and a dark page.
COLOURS = {
    "human": "#3b6ea5",
    "ai": "#4b7f52",
    "thought": "#7a7a7a",
    "writes": "#a06a00",
    "call": "#a06a00",
    "tool": "#7d5bb5",
    "prompt": "#7a7a7a",
    "system": "#7a7a7a",
    "guard": "#a06a00",
    "error": "#c0392b",
}


@dataclass
class Row:
    """One row: its kind (a key of COLOURS), who speaks, and the text. `note` is a small remark, shown live only."""

    kind: str
    who: str
    text: str
    note: str = ""


class Rows:
    """Rows with keys 0, 1, 2, ... and a footer.

    `drain()` gives the changes since the last time as short lists, which `front/rows.js` follows:
    ["clear"], ["add", key, before, kind, who, text, note], ["text", key, more], ["set", key, kind, who, text, note],
    ["foot", text]. `before` is the key of the row that the new one stands in front of, or -1.
    """

    def __init__(self, empty: str = ""):
        self.empty = empty  # the footer as long as nothing was shown
        self._ops: list[list] = []
        self.clear()

    def clear(self, footer: str | None = None) -> None:
        """Forget all rows."""
        self._rows: dict[int, Row] = {}
        self._order: list[int] = []
        self._next = 0
        self.footer = self.empty if footer is None else footer
        self._ops = [["clear"], ["foot", self.footer]]

    def add(self, kind: str, who: str, text: str = "", note: str = "", before: int | None = None) -> int:
        """A new row, at the end or in front of the row `before`. Returns its key."""
        key, self._next = self._next, self._next + 1
        self._rows[key] = Row(kind, who, text, note)
        self._order.insert(len(self._order) if before is None else self._order.index(before), key)
        self._ops.append(["add", key, -1 if before is None else before, kind, who, text, note])
        return key

    def append(self, key: int, more: str) -> None:
        """Let a row's text grow; what one drawing brings is sent in one piece."""
        self._rows[key].text += more
        last = self._ops[-1] if self._ops else [None]
        if last[0] == "text" and last[1] == key:
            last[2] += more
        elif last[0] == "add" and last[1] == key:
            last[5] += more
        else:
            self._ops.append(["text", key, more])

    def set(self, key: int, **changes: str) -> None:
        """Change kind, who, text or note of a row."""
        row = self._rows[key]
        for name, value in changes.items():
            setattr(row, name, value)
        self._ops.append(["set", key, row.kind, row.who, row.text, row.note])

    def foot(self, text: str) -> None:
        """What stands below the rows."""
        if text != self.footer:
            self.footer = text
            self._ops.append(["foot", text])

    def drain(self) -> list[list]:
        """The changes since the last call."""
        ops, self._ops = self._ops, []
        return ops

    def whole(self) -> list[list]:
        """Changes that lead from nothing to what is shown now."""
        rows = [(key, self._rows[key]) for key in self._order]
        return [
            ["clear"],
            *(["add", key, -1, row.kind, row.who, row.text, row.note] for key, row in rows),
            ["foot", self.footer],
        ]

    def get(self, key: int) -> Row:
        """One row; change it through `set` and `append` only."""
        return self._rows[key]

    @property
    def rows(self) -> list[Row]:
        """The rows in the order shown."""
        return [self._rows[key] for key in self._order]

    def text(self) -> str:
        """Everything shown, as plain text."""
        return "\n".join(filter(None, [as_text(self.rows), self.footer]))


class Still:
    """Rows that stand still: HTML in a notebook, also without a kernel, and text elsewhere."""

    def __init__(self, rows: Iterable[Row], footer: str = ""):
        self.rows, self.footer = list(rows), footer

    def __repr__(self) -> str:
        return "\n".join(filter(None, [as_text(self.rows), self.footer]))

    def _repr_html_(self) -> str:
        cells = "".join(map(_cell, self.rows))
        # A still of a timeline has none.
        foot = f'<div style="opacity:.7;margin:6px 0 0 94px;font-size:12px">{html.escape(self.footer)}</div>'
        return f'<div style="max-width:860px">{cells}{foot if self.footer else ""}</div>'


def as_text(rows: Iterable[Row]) -> str:
    """One line a row, who in front; a text of several lines goes on as it is."""
    return "\n".join(f"{row.who:>9} | {row.text}" for row in rows)


def call_text(name: str, args: dict) -> str:
    """A call as one would write it: name(key="value")."""
    return f"{name}({args_text(args)})"


def as_json(value: object) -> str:
    """A value as JSON in its own letters; what JSON does not know as text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def took(seconds: float | None) -> str:
    """A duration in words; nothing where none was measured."""
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "under 1 ms"


def _cell(row: Row) -> str:
    colour = COLOURS[row.kind]
    return (
        f'<div style="display:flex;gap:10px;margin:3px 0;align-items:baseline">'
        f'<span style="flex:0 0 84px;text-align:right;font:600 12px sans-serif;color:{colour}">'
        f"{html.escape(row.who)}</span>"
        f'<span style="flex:1;border-left:3px solid {colour};padding:2px 10px;white-space:pre-wrap;'
        f'overflow-wrap:anywhere;font-size:13px" dir="auto">{html.escape(row.text) or "&nbsp;"}</span></div>'
    )
