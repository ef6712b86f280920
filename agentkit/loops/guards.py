"""Code owns the invariants: guards that look before each model call and each tool call, and tell what they decide.

Nothing is counted on the side: the history itself says which calls came before. So a guard knows after a crash what it
knew before, and works in every loop that hands it the messages.
"""

import contextlib
import contextvars
import json
import threading
from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice, takewhile
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables.config import var_child_runnable_config

from agentkit.events import GuardVerdict, args_text, emit
from agentkit.loops.result import Usage
from agentkit.loops.stop import TurnEnded
from agentkit.models.errors import BadField

HINT = "[tool_loop_hint]"
MOST_REPEATED = 4000  # characters of an earlier result that a hint carries
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode


class ToolLoopDetected(TurnEnded):
    """The model made the same call again though a hint had told it the result."""

    def __init__(self, text: str):
        super().__init__("guard", text)


def fingerprint(call: dict) -> str:
    """Tool name and arguments as one text; calls are the same if it is. For `web_search` case and spaces do not count."""
    args = _searched(call["args"]) if call["name"] == "web_search" else call["args"]
    return _encode([call["name"], args])


def before_tool(call: dict, messages: Sequence[BaseMessage]) -> ToolMessage | None:
    """None if the call may run; else the hint that stands for its result. `messages` end with the call's own message.

    Raises ToolLoopDetected for a call whose repetition was hinted at before.
    """
    here = next((n for n in reversed(range(len(messages))) if _calls_of(messages[n])), None)
    if here is None:
        return None
    # Read backwards, and no farther than needed: to walk the whole turn for each of its calls would be quadratic.
    same, its, run = fingerprint(call), "", []
    before = _calls_before(call, messages, here)
    for place, other in before:
        if (its := fingerprint(other)) != same:
            break
        run.append((place, other))
    if not run:
        _report_alternating(call, chain([same, its], (fingerprint(other) for _, other in before)))
        return None
    # Only a hint that the model could read counts: calls beside this one in the same message were written with it.
    if sum(place < here for place, _ in run) >= 2:
        text = (
            f"Stopped: the model asked for {_shown(call)} {len(run) + 1} times in a row and did not use the result it has. "
            "Ask in other words or in smaller steps, or choose a larger model."
        )
        emit(GuardVerdict(guard="repeated_call", verdict="stop", detail=text))
        raise ToolLoopDetected(text)
    emit(GuardVerdict(guard="repeated_call", verdict="hint", detail=f"{_shown(call)} was asked for again and not run"))
    return _hint(call, _result_of(run[-1], messages))  # run[-1] came first: it is the one that ran


def before_model() -> None:
    """Raise TurnEnded once the turn has used up its token budget; BadField for a limit where LangGraph ignores it."""
    check_config(var_child_runnable_config.get() or {})
    if limits := _limits.get():
        limits.check_budget()


def malformed(attempt: int, most: int, reason: str) -> None:
    """Report the `attempt`-th malformed call in a row; at `most` the loop ends the turn."""
    verdict = "hint" if attempt < most else "stop"
    emit(GuardVerdict(guard="malformed_call", verdict=verdict, detail=f"{attempt} of {most} in a row: {reason}"))


def check_config(config: Any) -> None:
    """Raise BadField for a recursion limit inside `configurable`: LangGraph ignores it and allows 10007 steps."""
    if "recursion_limit" in (config.get("configurable") or {}):
        raise BadField(
            f"recursion_limit is {config['configurable']['recursion_limit']!r} inside `configurable`, where it has no "
            "effect; put it at the top level of the config, or into the profile"
        )


class Limits:
    """Token budget and wall clock of one turn. A loop that ends as cancelled asks `over` whether the clock did it."""

    def __init__(self, tokens: int, seconds: float, usage: Usage):
        self.tokens, self.seconds, self.usage = tokens, seconds, usage
        self.over: TurnEnded | None = None

    def check_budget(self) -> None:
        """Raise TurnEnded if the tokens read (what a cache gave is free) and written reach the budget."""
        used = self.usage.prompt - self.usage.cached + self.usage.generated
        if self.tokens and used >= self.tokens:
            text = (
                f"This turn has used up its budget: {used} tokens read and written, {self.tokens} are allowed, and there "
                "is no answer yet. Ask for a part of it, or raise token_budget in the profile."
            )
            emit(GuardVerdict(guard="token_budget", verdict="stop", detail=text))
            raise TurnEnded("budget", text)

    @contextlib.contextmanager
    def watching(self, cancel: threading.Event) -> Iterator[None]:
        """Guard the turn in this context. When its time is up `cancel` is set: what stops for a user stops for a clock."""
        token = _limits.set(self)
        lock, done = threading.Lock(), False

        def ring() -> None:
            with lock:
                if done or cancel.is_set():
                    return
                self.over = TurnEnded(
                    "clock",
                    f"This turn took longer than the {self.seconds:g} seconds allowed and was stopped. Ask for a part of "
                    "it, or raise time_limit in the profile.",
                )
                emit(GuardVerdict(guard="wall_clock", verdict="stop", detail=str(self.over)))
                cancel.set()

        timer = threading.Timer(self.seconds, contextvars.copy_context().run, [ring])
        timer.daemon = True
        if self.seconds:
            timer.start()
        try:
            yield
        finally:
            with lock:
                done = True
            timer.cancel()
            _limits.reset(token)


_limits: contextvars.ContextVar[Limits | None] = contextvars.ContextVar("agentkit_limits", default=None)


def _searched(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, dict):
        return {key: _searched(held) for key, held in value.items()}
    return [_searched(held) for held in value] if isinstance(value, list) else value


def _calls_of(message: BaseMessage) -> list[dict]:
    return message.tool_calls if isinstance(message, AIMessage) else []


def _calls_before(call: dict, messages: Sequence[BaseMessage], here: int) -> Iterator[tuple[int, dict]]:
    """The turn's earlier calls, the latest first, each with the place of its message; `here` is the call's own.

    Ids are trusted within one message only.
    """
    beside = list(takewhile(lambda other: other["id"] != call["id"], _calls_of(messages[here])))
    for other in reversed(beside):
        yield here, other
    for place in reversed(range(here)):
        if isinstance(messages[place], HumanMessage):
            return
        for other in reversed(_calls_of(messages[place])):
            yield place, other


def _result_of(earlier: tuple[int, dict], messages: Sequence[BaseMessage]) -> ToolMessage | None:
    place, call = earlier
    for message in messages[place + 1 :]:
        if isinstance(message, ToolMessage) and message.tool_call_id == call["id"]:
            return message
    return None


def _hint(call: dict, earlier: ToolMessage | None) -> ToolMessage:
    if earlier is None:  # it runs at this moment, beside this one
        text = f"{HINT} This call stands in your message more than once. It is run once; the result is beside this one."
    else:
        result = str(earlier.text)
        result = result if len(result) <= MOST_REPEATED else result[:MOST_REPEATED] + "… (cut; the whole is above)"
        text = (
            f"{HINT} You made exactly this call before, so it was not run again. Use its result, change the arguments, or "
            f"give your answer. The result was:\n{result}"
        )
    status = earlier.status if earlier else "success"
    return ToolMessage(content=text, name=call["name"], tool_call_id=call["id"], status=status)


def _report_alternating(call: dict, prints: Iterator[str]) -> None:
    """A, B, A, B looks like a loop and may be none (check, wait, check): it is told and not stopped.

    `prints` are the fingerprints of the call, of the one before, and so on.
    """
    pair = list(islice(prints, 2))
    length = len(pair) + sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(cycle(pair), prints)))
    if length >= 4 and length % 2 == 0:
        detail = f"two calls alternate, {length // 2} times by now; the last is {_shown(call)}"
        emit(GuardVerdict(guard="alternating_calls", verdict="warn", detail=detail))


def _shown(call: dict) -> str:
    args = args_text(call["args"])
    return f"{call['name']}({args if len(args) <= 200 else args[:199] + '…'})"
