"""Putting two changes of one thread together: what both made of the same base, channel by channel, without a model.

Lists are joined: what our side added is put behind what the other side has; what it removed or replaced (messages, by
their id) is removed or replaced there, too. Of any other value that both changed the later one counts, and is told.
"""

from collections.abc import Callable
from typing import Any

Merge = Callable[[Any, Any, Any], Any]
"""(base, ours, theirs) -> merged; base is None where there was no value."""


def control(channel: str, value: Any) -> bool:
    """Whether a channel steers a run rather than holding its state: what is in it has still to be done."""
    if channel.startswith(("branch:to:", "__start__")):
        return True
    return channel.startswith(("join:", "__pregel")) and bool(value)


def finished(values: dict[str, Any]) -> bool:
    """Whether a checkpoint's run is at its end: nothing in it asks for another step."""
    return not any(control(channel, value) for channel, value in values.items())


def merged(base: Any, ours: Any, theirs: Any) -> tuple[Any, bool]:
    """The merged value, and whether the other side's change had to give way."""
    if ours == base:
        return theirs, False
    if theirs == base:
        return ours, False
    if isinstance(ours, list) and isinstance(theirs, list) and isinstance(base, list | None):
        return _lists(base or [], ours, theirs), False
    if isinstance(ours, dict) and isinstance(theirs, dict) and isinstance(base, dict | None):
        return _dicts(base or {}, ours, theirs)
    return ours, ours != theirs


def _lists(base: list, ours: list, theirs: list) -> list:
    if ours[: len(base)] == base:
        return theirs + [part for part in ours[len(base) :] if not _among(part, theirs)]
    before = {_id(part): part for part in base if _id(part)}
    now = {_id(part): part for part in ours if _id(part)}
    kept = []
    for part in theirs:
        name = _id(part)
        if name and name in before and name not in now:
            continue  # we removed it
        kept.append(now[name] if name in now and now[name] != before.get(name) else part)
    return kept + [part for part in ours if not _among(part, base) and not _among(part, kept)]


def _among(part: Any, others: list) -> bool:
    name = _id(part)
    return any(_id(other) == name for other in others) if name else False


def _dicts(base: dict, ours: dict, theirs: dict) -> tuple[dict, bool]:
    out, gave_way = dict(theirs), False
    for key in ours.keys() | base.keys():
        mine, old, other = ours.get(key, _NONE), base.get(key, _NONE), theirs.get(key, _NONE)
        if mine is old or mine == old:
            continue
        gave_way |= other != old and other != mine
        if mine is _NONE:
            out.pop(key, None)
        else:
            out[key] = mine
    return out, gave_way


def _id(part: Any) -> Any:
    return part.get("id") if isinstance(part, dict) else getattr(part, "id", None)


_NONE = object()
