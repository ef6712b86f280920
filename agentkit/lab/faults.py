"""Faults, put in on purpose: a tool or a model that fails in one known way, so that the loop's answer can be seen.

    raises, slow, rubbish     take a tool and give the same tool with the fault in it
    malformed, cut, repeats   take a chat model and give the same model with the fault in it

`times` says how often the fault acts (None: always). Each time it does it emits `events.FaultInjected`. `Fault` is the
same as a choice that a workbench applies to its next run.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool

from agentkit import cancel
from agentkit.lab.faulty_model import Cut, Malformed, Repeating, Uses
from agentkit.loops.handmade import Tool
from agentkit.loops.stop import Cancelled
from agentkit.models.errors import BadField
from agentkit.models.profile import GenerationProfile

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

RUBBISH = "<html><head><title>502 Bad Gateway</title></head><body>\ufffd\ufffd nginx</body></html>"


@dataclass(frozen=True)
class Kind:
    """One kind of fault: on a "tool" or the "model", what it does, what to watch for, and the field it takes."""

    on: str
    does: str
    watch: str
    field: str | None = None


KINDS = {
    "raises": Kind(
        "tool", "{tool} raises an exception.", "A result marked as an error, which the model reads; the run goes on."
    ),
    "slow": Kind(
        "tool",
        "{tool} waits {seconds:g} seconds before it works.",
        "The node tools stays lit. Stop ends the wait at once, and so does time_limit in the profile.",
        "seconds",
    ),
    "rubbish": Kind(
        "tool",
        "{tool} returns an error page of a web server instead of its result.",
        "No error is marked: for the loop this is a result. Does the model notice?",
    ),
    "malformed": Kind(
        "model",
        "The model's call loses its last closing brace on the way to the parser.",
        "A refused call, its reason told to the model. Three in a row end the run as malformed.",
    ),
    "cut": Kind(
        "model",
        "The model's answer ends after {tokens} tokens.",
        "A call that was cut is refused, never completed and run. A cut text is taken as the answer.",
        "tokens",
    ),
    "repeats": Kind(
        "model",
        "The model makes its last call again instead of going on.",
        "The second time a hint instead of a result, the third time the guard ends the run.",
    ),
}


def raises(tool: BaseTool, message: str = "the server closed the connection", times: int | None = None) -> BaseTool:
    """The tool, but it raises ConnectionError(message) instead of working."""

    def fault(work: Callable[[], Any]) -> Any:
        raise ConnectionError(message)

    return _spoiled(tool, "raises", "{} raised an exception", fault, times)


def slow(tool: BaseTool, seconds: float = 30, times: int | None = None) -> BaseTool:
    """The tool, but it waits before it works. When the run is stopped it ends at once, without having worked."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= 3600:
        raise BadField(f"seconds is {seconds!r}; allowed is above 0, to 3600")

    def fault(work: Callable[[], Any]) -> Any:
        if cancel.current().wait(seconds):
            raise Cancelled
        return work()

    return _spoiled(tool, "slow", f"{{}} waits {seconds:g} seconds", fault, times)


def rubbish(tool: BaseTool, text: str = RUBBISH, times: int | None = None) -> BaseTool:
    """The tool, but it returns `text` instead of working."""
    pair = getattr(tool, "response_format", "") == "content_and_artifact"
    return _spoiled(tool, "rubbish", "{} returned rubbish", lambda work: (text, None) if pair else text, times)


def malformed(model: "BaseChatModel", times: int | None = None) -> "BaseChatModel":
    """The model, but its calls (one in the handmade loop's text, too) lose their last brace and are refused."""
    return Malformed(model, times)


def cut(model: "BaseChatModel", tokens: int = 8, times: int | None = None) -> "BaseChatModel":
    """The model, but its answers end after `tokens` tokens; a scripted model counts words."""
    return Cut(model, tokens, times)


def repeats(model: "BaseChatModel", times: int | None = None) -> "BaseChatModel":
    """The model, but after its first call of a turn it makes that call again, `times` times or for ever."""
    return Repeating(model, times)


@dataclass(frozen=True)
class Fault:
    """A fault to put into the next run. `kind` is a key of KINDS; `tool` a tool's name (None: every tool).

    `seconds` count for slow, `tokens` for cut. BadField for anything that is not allowed.
    """

    kind: str
    tool: str | None = None
    seconds: float = 30
    tokens: int = 8
    times: int | None = None

    def __post_init__(self):
        if self.kind not in KINDS:
            raise BadField(f"fault {self.kind!r} is unknown; known are {', '.join(KINDS)}")
        Uses(self.times)

    def apply(
        self, model: "BaseChatModel", tools: Sequence[BaseTool], profile: GenerationProfile
    ) -> "tuple[BaseChatModel, list[BaseTool], GenerationProfile]":
        """Model, tools and profile with the fault in them. BadField if the tool is not among the tools."""
        if KINDS[self.kind].on == "model":
            makers = {"malformed": malformed, "repeats": repeats, "cut": functools.partial(cut, tokens=self.tokens)}
            if self.kind == "cut" and self.times is None:
                profile = profile.but(max_tokens=self.tokens)
            return makers[self.kind](model, times=self.times), list(tools), profile
        names = [tool.name for tool in tools]
        if self.tool is not None and self.tool not in names:
            raise BadField(
                f"fault {self.kind}: tool {self.tool!r} is not switched on; {', '.join(names) or 'none'} are"
            )
        make = {"raises": raises, "slow": functools.partial(slow, seconds=self.seconds), "rubbish": rubbish}[self.kind]
        spoil = [self.tool is None or tool.name == self.tool for tool in tools]
        return model, [make(t, times=self.times) if chosen else t for t, chosen in zip(tools, spoil)], profile

    def __str__(self) -> str:
        often = "" if self.times is None else " Once." if self.times == 1 else f" {self.times} times."
        does = KINDS[self.kind].does.format(tool=self.tool or "Every tool", seconds=self.seconds, tokens=self.tokens)
        return does + often


def _spoiled(tool: Any, kind: str, detail: str, fault: Callable[[Callable], Any], times: int | None) -> Any:
    """A copy of the tool that does `fault(work)` where it did `work()`. Name, description and schema stay.

    An asynchronous call of a tool that has a coroutine of its own does not meet the fault; no loop here makes one.
    """
    if not isinstance(tool, BaseTool | Tool):
        raise BadField(f"tool is a {type(tool).__name__}; a fault needs a LangChain tool or the handmade loop's Tool")
    uses, told = Uses(times), detail.format(tool.name)

    def around(work: Callable) -> Callable:
        @functools.wraps(work)  # LangChain reads the signature: what it injects (state, config) must go on being found
        def run(*args: Any, **kwargs: Any) -> Any:
            call = functools.partial(work, *args, **kwargs)
            return fault(call) if uses.take(kind, told) else call()

        return run

    if isinstance(tool, Tool):
        return dataclasses.replace(tool, func=around(tool.func))
    spoiled = tool.model_copy()
    # On the object itself, where it is found before the method of its class, whatever that class is.
    vars(spoiled)["_run"] = around(tool._run)
    return spoiled
