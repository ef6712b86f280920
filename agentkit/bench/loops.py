"""Figures: what the loops `react` and `handmade` cost beside LangChain's `create_agent`, the model's own time left out.

Both sides run the same turn: 50 times a call of one tool and its result, then the answer. The model speaks from a list
and the tool doubles a number, so what is timed is the loop around them. Ours runs with its guards, its stop signal
and a listener for its events; `create_agent` runs plain. No side has a checkpointer. `handmade` gets the same function
as its own kind of `Tool`, which no framework wraps; how it does with LangChain's is in the details.
"""

import gc
import time
from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from pydantic import PrivateAttr

from agentkit.bench.figure import Figure, Pairs, Tick, pairs
from agentkit.events import Event, listening
from agentkit.models.errors import AgentkitError
from agentkit.models.profile import GenerationProfile

REACT = Figure("loops", "react against create_agent, overhead per superstep", "x", 1.0, higher=False)
HANDMADE = Figure("loops", "handmade against create_agent, the same way", "x", 0.25, higher=False)
FIGURES = (REACT, HANDMADE)
ROUNDS = 50
STEPS = 2 * ROUNDS + 1  # supersteps of a graph: model and tool in turn, and the answer
PROFILE = GenerationProfile(recursion_limit=STEPS, max_steps=ROUNDS + 1)
QUESTION, ANSWER = "Double the numbers from 0 on.", "done"


class Speaker(BaseChatModel):
    """Gives prepared messages, one a call, and takes no time for it. The last one ends the turn."""

    _messages: Any = PrivateAttr()

    def __init__(self, messages: Iterable[AIMessage]):
        super().__init__()
        self._messages = iter(list(messages))

    @property
    def _llm_type(self) -> str:
        return "agentkit-bench"

    def _get_ls_params(self, *args, **kwargs):  # LangChain asks models for it: its fallback searches their attributes
        return {"ls_provider": "agentkit", "ls_model_name": "speaker", "ls_model_type": "chat"}

    def bind_tools(self, tools: Any, **kwargs: Any) -> "Speaker":
        """Itself: what it says is fixed."""
        return self

    def _generate(self, messages, *args, **kwargs):  # LangChain inspects the signature in each call: a short one
        return ChatResult(generations=[ChatGeneration(message=next(self._messages))])


@tool
def double(number: int) -> str:
    """Double a number."""
    return str(2 * number)


def measure(quick: bool, tick: Tick) -> list[Figure]:
    """Seconds of a turn here over seconds of the same turn there."""
    rounds = 10 if quick else 40
    sides = {"react": turn_of_react, "handmade": turn_of_handmade, "langchain": lambda: turn_of_handmade(double)}
    found: dict[str, Pairs] = {}
    for number, (name, side) in enumerate(sides.items()):
        side(), turn_of_create_agent()  # first runs make what later ones find made
        found[name] = pairs(
            side, turn_of_create_agent, rounds, lambda done, _, n=number: tick(n * rounds + done, len(sides) * rounds)
        )
    return [
        _figure(REACT, found["react"], ""),
        _figure(HANDMADE, found["handmade"], f"; {found['langchain'].ratio:.2f} with LangChain's tool",
                with_langchain_tool=found["langchain"].ratios),
    ]


def _figure(figure: Figure, found: Pairs, remark: str, **details: Any) -> Figure:
    here, there = (min(seconds) / STEPS * 1e6 for seconds in (found.first, found.second))
    how = f"best {here:.0f} against {there:.0f} µs a superstep; {len(found.first)} pairs of {ROUNDS} tool rounds{remark}"
    return figure.found(found.ratio, how, found.spread, here=found.first, create_agent=found.second, **details)


def turn_of_create_agent() -> float:
    """Seconds of the turn in LangChain's agent as it comes."""
    from langchain.agents import create_agent

    graph = create_agent(Speaker(_calls()), [double])
    seconds, state = _timed(lambda: graph.invoke({"messages": [HumanMessage(QUESTION)]}, {"recursion_limit": STEPS + 1}))
    return _checked(seconds, str(state["messages"][-1].text), sum(m.type == "tool" for m in state["messages"]))


def turn_of_react() -> float:
    """Seconds of the turn in our `react` loop, events listened to."""
    return _ours("react", _calls(), double)


def turn_of_handmade(with_tool: BaseTool | None = None) -> float:
    """Seconds of the turn in our `handmade` loop, which speaks in text; with its own kind of tool if none is given."""
    from agentkit.loops.handmade import Tool

    own = Tool("double", double.description, double.func, {"properties": double.args, "required": ["number"]})
    return _ours("handmade", _texts(), with_tool or own)


def _ours(loop: str, says: Iterable[AIMessage], with_tool: Any) -> float:
    from agentkit.loops.build import build_agent

    agent = build_agent(loop, model=Speaker(says), tools=[with_tool], profile=PROFILE)
    heard: list[Event] = []
    with listening(heard.append):
        seconds, result = _timed(lambda: agent.run(QUESTION))
    returned = sum(type(event).__name__ == "ToolReturned" and event.status == "success" for event in heard)
    return _checked(seconds, result.answer, returned)


def _timed(turn: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()  # of what the other side left
    began = time.perf_counter()
    result = turn()
    return time.perf_counter() - began, result


def _checked(seconds: float, answer: str, tools_run: int) -> float:
    if (answer, tools_run) != (ANSWER, ROUNDS):
        raise AgentkitError(f"the turn ended with {answer!r} after {tools_run} tools, not after {ROUNDS}")
    return seconds


def _calls() -> Iterable[AIMessage]:
    for n in range(ROUNDS):
        yield AIMessage("", tool_calls=[{"name": "double", "args": {"number": n}, "id": f"call_{n}"}])
    yield AIMessage(ANSWER)


def _texts() -> Iterable[AIMessage]:
    for n in range(ROUNDS):
        yield AIMessage(f'Thought: the next one\nAction: double\nAction Input: {{"number": {n}}}')
    yield AIMessage(f"Thought: that was the last\nFinal Answer: {ANSWER}")
