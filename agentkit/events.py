"""The one stream of events: what a run does, as typed values that every view reads.

A run opens `listening(sink)`; whatever happens inside, in any room and any worker that inherits the context, reaches
the sink through `emit`. Without a listener `emit` costs one lookup. Nothing here prints.
"""

import contextlib
import contextvars
import dataclasses
import json
import time
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events; `at` is seconds of the wall clock (Unix time)."""

    at: float = field(default_factory=time.time)

    def as_dict(self) -> dict:
        """The event as JSON-ready data, its class name under `event`."""
        return {"event": type(self).__name__, **dataclasses.asdict(self)}


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """A run begins: which loop and model, on which question, under which limit of steps."""

    loop: str
    model: str
    question: str
    thread: str | None = None
    limit: int = 0


@dataclass(frozen=True, kw_only=True)
class StepStarted(Event):
    """A superstep begins in a node; `step` counts from 1."""

    step: int
    node: str


@dataclass(frozen=True, kw_only=True)
class StepEnded(Event):
    """A superstep ended; `change` is the node's partial update in JSON-ready form."""

    step: int
    node: str
    change: dict


@dataclass(frozen=True, kw_only=True)
class Token(Event):
    """One token: its text, probability (0..1) and entropy (nats) where measured.

    `origin` is "sampled" or "forced"; `channel` is "thought", "answer" or "call".
    """

    text: str
    id: int | None = None
    probability: float | None = None
    entropy: float | None = None
    origin: str = "sampled"
    channel: str = "answer"


@dataclass(frozen=True, kw_only=True)
class PrefixReuse(Event):
    """What the prefix cache saved for one model call: token counts, why, and the prefill's seconds.

    `slow_hit`: most of the prompt was reused and the prefill was no faster than a cold one; something is wrong.
    """

    prompt: int
    reused: int
    reason: str
    first_difference: str | None = None
    seconds: float = 0.0
    slow_hit: bool = False


@dataclass(frozen=True, kw_only=True)
class ToolCalled(Event):
    """The model asked for a tool; `invalid` says why a malformed call is not run."""

    id: str
    name: str
    args: dict
    invalid: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolReturned(Event):
    """A tool's result as the model will see it; `status` is "success" or "error"."""

    id: str
    name: str
    content: str
    status: str = "success"
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class GuardVerdict(Event):
    """A guard looked and decided: `verdict` is "hint", "stop" or "warn"."""

    guard: str
    verdict: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class FaultInjected(Event):
    """A fault that was put in on purpose acted: its kind, and what it did (see `agentkit.lab.faults`)."""

    fault: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved(Event):
    """The saver wrote a checkpoint of the thread."""

    thread: str
    checkpoint: str
    step: int


@dataclass(frozen=True, kw_only=True)
class StoreLogged(Event):
    """The store of threads did something: what, with which revision of the head, and how it came about.

    `action` is "read", "write", "conflict", "retry", "merge", "migration" or "delete".
    """

    action: str
    thread: str
    revision: int
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class RunEnded(Event):
    """A run is over, and what it cost.

    Why: "answer", "limit", "guard", "cancel", "malformed", "budget", "clock", "error", or "interrupt" (it waits for a
    reply).
    """

    reason: str
    answer: str
    usage: dict


def from_dict(data: dict) -> Event:
    """The event that `as_dict` wrote. ValueError says which event or field is wrong, and what was given."""
    if not isinstance(data, dict) or not isinstance(data.get("event"), str):
        raise ValueError(f"not an event: {str(data)[:80]}")
    kinds = {kind.__name__: kind for kind in Event.__subclasses__()}
    name, fields = data["event"], {key: value for key, value in data.items() if key != "event"}
    if name not in kinds:
        raise ValueError(f"event {name!r} is unknown; known are {', '.join(kinds)}")
    hints = typing.get_type_hints(kinds[name])
    for key, value in fields.items():
        if key not in hints:
            raise ValueError(f"{name} has no field {key!r}")
        allowed = typing.get_args(hints[key]) or (hints[key],)
        # JSON writes 1.0 as 1 in some hands, and True is an int in Python.
        fits = isinstance(value, allowed + (int,) * (float in allowed)) and (type(value) is not bool or bool in allowed)
        if not fits:
            wanted = " or ".join("null" if kind is type(None) else kind.__name__ for kind in allowed)
            raise ValueError(f"{name}.{key} is {str(value)[:80]!r}, not {wanted}")
    for missing in (f.name for f in dataclasses.fields(kinds[name]) if f.name not in fields):
        if missing == "at" or missing in _required(kinds[name]):
            raise ValueError(f"{name} has no {missing}")
    return kinds[name](**fields)


def _required(kind: type) -> list[str]:
    none = dataclasses.MISSING
    return [f.name for f in dataclasses.fields(kind) if f.default is none and f.default_factory is none]


def args_text(args: dict) -> str:
    """A call's arguments as one would write them: key="value", key=2; what JSON does not know as text."""
    return ", ".join(f"{key}={json.dumps(value, ensure_ascii=False, default=str)}" for key, value in args.items())


Sink = Callable[[Event], None]
_sink: contextvars.ContextVar[Sink | None] = contextvars.ContextVar("agentkit_sink", default=None)


def emit(event: Event) -> None:
    """Hand an event to the run that listens in this context, if any."""
    if sink := _sink.get():
        sink(event)


def heard() -> bool:
    """Whether anybody listens; lets a caller skip building events."""
    return _sink.get() is not None


@contextlib.contextmanager
def listening(sink: Sink) -> Iterator[None]:
    """Send every event emitted in this context to `sink`, and to the outer listener if there is one."""
    outer = _sink.get()

    def both(event):
        sink(event)
        if outer:
            outer(event)

    token = _sink.set(both)
    try:
        yield
    finally:
        _sink.reset(token)


@contextlib.contextmanager
def retold(change: Callable[[Event], Event]) -> Iterator[None]:
    """Let every event emitted in this context pass through `change` on its way to the listeners."""
    outer = _sink.get()
    token = _sink.set(outer and (lambda event: outer(change(event))))
    try:
        yield
    finally:
        _sink.reset(token)
