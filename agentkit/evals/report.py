"""What an evaluation found: one outcome per case, counted per kind, as a dictionary or as a text table.

Shared by the tool-calling set and by BFCL; it knows neither models nor prompts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Progress = Callable[[int, int], None]
"""Called after each case with the cases done and the cases in total."""


@dataclass
class Outcome:
    """One case after the model answered it.

    `marks` holds a verdict per measure; `reason` is empty only when every mark is true; `calls` are the calls made,
    each {"name", "arguments"}; `tokens` is None where the model does not count what it generates.
    """

    id: str
    kind: str
    marks: dict[str, bool]
    reason: str = ""
    request: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""
    seconds: float = 0.0
    tokens: int | None = None

    @property
    def right(self) -> bool:
        """True when every measure is met."""
        return all(self.marks.values())


@dataclass
class Report:
    """All outcomes of one evaluation; `measures` names the columns from the mildest to the strictest."""

    name: str
    measures: tuple[str, ...]
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Wall time spent inside the model."""
        return sum(o.seconds for o in self.outcomes)

    @property
    def tokens(self) -> int | None:
        """Generated tokens; None unless the model reported them for some case."""
        known = [o.tokens for o in self.outcomes if o.tokens is not None]
        return sum(known) if known else None

    @property
    def kinds(self) -> list[str]:
        """Kinds of case in the order they were first met."""
        return list(dict.fromkeys(o.kind for o in self.outcomes))

    @property
    def failures(self) -> list[Outcome]:
        """Outcomes that miss at least one measure."""
        return [o for o in self.outcomes if not o.right]

    def count(self, measure: str, kind: str | None = None) -> tuple[int, int]:
        """How many cases meet `measure` and how many there are, of one kind or of all; KeyError for another measure."""
        rows = [o for o in self.outcomes if kind is None or o.kind == kind]
        return sum(o.marks[measure] for o in rows), len(rows)

    def percent(self, measure: str, kind: str | None = None) -> float:
        """Share of cases that meet `measure`, 0 to 100 with one decimal; 0.0 when there are none."""
        met, total = self.count(measure, kind)
        return round(100 * met / total, 1) if total else 0.0

    def as_dict(self, failures: bool = False) -> dict[str, Any]:
        """Plain JSON data: cases, seconds, tokens, `overall` and `kinds`; `failures=True` adds the cases missed."""
        data: dict[str, Any] = {
            "eval": self.name,
            "cases": len(self.outcomes),
            "seconds": round(self.seconds, 3),
            "tokens": self.tokens,
            "overall": self._summary(None),
            "kinds": {kind: {"cases": self.count(self.measures[0], kind)[1], **self._summary(kind)}
                      for kind in self.kinds},
        }
        if failures:
            data["failures"] = [
                {"id": o.id, "kind": o.kind, "request": o.request, "reason": o.reason, "marks": o.marks,
                 "calls": o.calls, "text": o.text}
                for o in self.failures
            ]
        return data

    def table(self) -> str:
        """Aligned text: a row per kind, then all of them, then time and tokens."""
        rows = [["kind", "cases", *self.measures]]
        kinds: list[str | None] = [*self.kinds] if len(self.kinds) > 1 else []
        for kind in [*kinds, None]:
            label = kind or (self.kinds[0] if len(self.kinds) == 1 else "all")
            rows.append([label, str(self.count(self.measures[0], kind)[1]),
                         *(f"{self.count(m, kind)[0]} ({self.percent(m, kind):.1f}%)" for m in self.measures)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
                 for row in rows]
        pace = f"{self.seconds:.1f} s in the model"
        if self.tokens is not None:
            pace += f", {self.tokens} tokens generated"
            if self.seconds > 0:
                pace += f" ({self.tokens / self.seconds:.1f} per second, prompts included in the time)"
        return "\n".join([*lines, pace])

    def _summary(self, kind: str | None) -> dict[str, dict[str, float]]:
        return {m: {"right": self.count(m, kind)[0], "percent": self.percent(m, kind)} for m in self.measures}
