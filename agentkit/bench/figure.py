"""A measured figure beside its goal, and how two sides are compared: in turn, by the median of their ratios."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

Tick = Callable[[int, int], None]
"""Called as a measurement goes on, with what is done and what there is to do."""


@dataclass(frozen=True)
class Figure:
    """One line of the report. `higher`: whether more is better.

    A module declares its figures without a measurement and gives them one with `found`. `measured` stays None where
    nothing could be measured or the figure does not apply, and `how` then says why. `spread` holds the quartiles of
    what `measured` is the median of.
    """

    name: str
    title: str
    unit: str
    goal: float
    higher: bool
    measured: float | None = None
    how: str = ""
    spread: tuple[float, float] | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def found(self, measured: float | None, how: str, spread: tuple[float, float] | None = None, **details) -> "Figure":
        """The figure with what was measured; `details` are the single measurements."""
        return replace(self, measured=measured, how=how, spread=spread, details=details)

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None where nothing was measured."""
        if self.measured is None:
            return None
        return self.measured >= self.goal if self.higher else self.measured <= self.goal

    def as_dict(self) -> dict[str, Any]:
        """The figure as JSON-ready data."""
        return {"name": self.name, "title": self.title, "measured": _rounded(self.measured), "unit": self.unit,
                "goal": {"at least" if self.higher else "at most": self.goal}, "met": self.met,
                "spread": [_rounded(x) for x in self.spread] if self.spread else None, "how": self.how,
                **({"details": {key: _rounded(value) for key, value in self.details.items()}} if self.details else {})}


@dataclass(frozen=True)
class Pairs:
    """What two sides took (or gave), one pair a round."""

    first: list[float]
    second: list[float]

    @property
    def ratios(self) -> list[float]:
        """first / second, round by round: what slowed the machine in a round slowed both sides."""
        return [a / b for a, b in zip(self.first, self.second, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the ratios, not the ratio of medians."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """Quartiles of the ratios."""
        return quartiles(self.ratios)


def in_turn(number: int, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """Results of both, the first one run first in even rounds and last in odd ones, so that a drift favours neither."""
    if number % 2:
        later = second()
        return first(), later
    return first(), second()


def pairs(first: Callable[[], float], second: Callable[[], float], rounds: int, tick: Tick) -> Pairs:
    """Measure two sides in turn, A B, B A, A B, ..."""
    found = []
    for number in range(rounds):
        found.append(in_turn(number, first, second))
        tick(number + 1, rounds)
    return Pairs([a for a, _ in found], [b for _, b in found])


def quartiles(values: list[float]) -> tuple[float, float]:
    """Between which two values the middle half lies."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
