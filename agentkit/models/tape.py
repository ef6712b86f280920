"""The tape of a scripted model: its steps, what each will say, and how a tape is written to and read from JSON."""

import builtins
import json
import re
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message

from agentkit.models import errors
from agentkit.models.errors import AgentkitError, BadField

FAULTS = ("malformed", "cut", "repeat", "raise")
_MESSAGE_KEYS = (
    "content",
    "tool_calls",
    "invalid_tool_calls",
    "additional_kwargs",
    "response_metadata",
    "usage_metadata",
    "id",
    "name",
)
_STEP_KEYS = ("delay", "fault", "after", "error")


class TapeEnded(AgentkitError):
    """The model was asked more often than its tape has messages."""


@dataclass(frozen=True)
class Step:
    """One answer on the tape, `delay` seconds late, with at most one fault.

    `message` is a text, an AIMessage or a dict with its fields (`content`, `tool_calls`, ...). `fault`: an exception
    (raised; in a stream after `after` words), "malformed" (its calls arrive as invalid calls), "cut" (ended after
    `after` words, finish_reason length), "repeat" (given for ever; without a message, the step before it is).
    """

    message: AIMessage | str | dict | None = None
    delay: float = 0.0
    fault: str | Exception | None = None
    after: int = 0

    def __post_init__(self):
        object.__setattr__(self, "message", _as_message(self.message))
        if isinstance(self.delay, bool) or not isinstance(self.delay, int | float) or not 0 <= self.delay <= 3600:
            raise BadField(f"delay is {self.delay!r}; allowed are seconds from 0 to 3600")
        if isinstance(self.after, bool) or not isinstance(self.after, int) or self.after < 0:
            raise BadField(f"after is {self.after!r}; allowed is a whole number of words, 0 or more")
        if self.fault == "raise":
            object.__setattr__(self, "fault", RuntimeError("scripted fault"))
        if self.fault is not None and not isinstance(self.fault, Exception) and self.fault not in FAULTS:
            raise BadField(f"fault is {self.fault!r}; allowed are an exception, {', '.join(FAULTS)}")
        if self.message is None and self.fault != "repeat" and not isinstance(self.fault, Exception):
            raise BadField("a step needs a message, an exception or the fault 'repeat'")
        if self.fault == "malformed" and not self.message.tool_calls:
            raise BadField("fault 'malformed' needs a message with tool_calls")


def _as_message(value: Any) -> AIMessage | None:
    if isinstance(value, AIMessageChunk):
        return message_chunk_to_message(value)
    if value is None or isinstance(value, AIMessage):
        return value
    if isinstance(value, str):
        return AIMessage(content=value)
    if not isinstance(value, dict):
        raise BadField(
            f"message is a {type(value).__name__}; allowed are a text, an AIMessage and a dict of its fields"
        )
    if unknown := [key for key in value if key not in _MESSAGE_KEYS]:
        raise BadField(f"message field {unknown[0]!r} is unknown; known are {', '.join(_MESSAGE_KEYS)}")
    try:
        calls = [{"id": None, **call} for call in value.get("tool_calls", [])]
        return AIMessage(**{"content": "", **value, "tool_calls": calls})
    except (TypeError, ValueError) as error:
        raise BadField(f"message {str(value)[:80]} is not understood: {str(error).splitlines()[0]}") from None


def as_step(item: Any) -> Step:
    """A tape item as a Step: text, AIMessage, exception, Step, or a flat dict of message and step fields."""
    if isinstance(item, Step):
        return item
    if isinstance(item, Exception):
        return Step(fault=item)
    if not isinstance(item, dict):
        return Step(item)
    step = {key: item[key] for key in _STEP_KEYS if key in item}
    message = {key: value for key, value in item.items() if key not in _STEP_KEYS}
    text = step.pop("error", None)
    if step.get("fault") == "raise" and text:
        step["fault"] = _exception(text)
    return Step(message or None, **step)


def _exception(text: str) -> Exception:
    """`Kind: text` as an exception: a Python or agentkit error of that name, else RuntimeError with the whole text."""
    kind, _, detail = text.partition(": ")
    found = getattr(builtins, kind, None) or getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            return found(detail)
        except TypeError:  # UnicodeDecodeError and others want more than a text
            pass
    return RuntimeError(text)


def as_json(step: Step) -> dict:
    """The step as `as_step` reads it back; empty fields are left out."""
    message = step.message.model_dump(include=set(_MESSAGE_KEYS), exclude_none=True) if step.message else {}
    fault = (
        {"fault": "raise", "error": f"{type(step.fault).__name__}: {step.fault}"}
        if isinstance(step.fault, Exception)
        else {"fault": step.fault}
    )
    whole = message | {"delay": step.delay, "after": step.after} | fault
    return {key: value for key, value in whole.items() if value} or {"content": ""}


def read(path: Path | str) -> list[Step]:
    """The steps of a tape file (a JSON list). Raises `BadField` that names the file and the step."""
    try:
        items = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadField(f"tape {path} cannot be read: {error}") from None
    if not isinstance(items, list):
        raise BadField(f"tape {path} is not a JSON list of messages")
    return steps(items, f"tape {path}")


def steps(items: list, tape: str = "tape") -> list[Step]:
    """All items as steps; a bad one is named by its number, and "repeat" without a message gets the one before it."""
    made: list[Step] = []
    for number, item in enumerate(items, 1):
        try:
            step = as_step(item)
            if step.fault == "repeat" and step.message is None:
                if not made or made[-1].message is None:
                    raise BadField("fault 'repeat' without a message has no message before it")
                step = replace(step, message=made[-1].message)
        except BadField as error:
            raise BadField(f"{tape}, step {number}: {error}") from None
        made.append(step)
    return made


@dataclass(frozen=True)
class Asked:
    """What one call to the model brought: the messages, the bound tools (OpenAI form) and the other arguments."""

    messages: list[BaseMessage]
    tools: list[dict]
    options: dict


@dataclass
class Tape:
    """Steps and the place reached, shared by all copies of a model. Threads may take turns on it."""

    steps: list[Step]
    calls: list[Asked] = field(default_factory=list)
    position: int = 0
    repeats: int = 0
    numbers: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __deepcopy__(self, memo: dict) -> "Tape":
        return self

    def take(self, asked: Asked) -> tuple[Step, int]:
        """The next step, and how often it was given before; raises `TapeEnded` past the last."""
        with self._lock:
            self.calls.append(asked)
            if self.position >= len(self.steps):
                count = len(self.steps)
                raise TapeEnded(
                    f"the tape has {count} message{'' if count == 1 else 's'} and the model was asked once more"
                )
            step, again = self.steps[self.position], self.repeats
            if step.fault == "repeat":
                self.repeats += 1
            else:
                self.position, self.repeats = self.position + 1, 0
            return step, again

    def call_id(self) -> str:
        """The id of the next call that has none on the tape: call_1, call_2, ..."""
        with self._lock:
            self.numbers += 1
            return f"call_{self.numbers}"


def words(text: str) -> list[str]:
    """The text in words, each with the white space before it; joined they are the text. A scripted model's tokens."""
    return re.findall(r"\s*\S+|\s+", text)
