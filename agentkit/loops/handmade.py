"""The `handmade` loop: ReAct in plain Python. The model writes text, this file reads it, runs a tool, and goes on.

No framework decides anything here: the protocol is text (`react_text.py` reads it), the conversation is a list, and
whatever ends a turn early is an exception. Steps, results and endings are told like those of every other loop.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentkit.events import StepEnded, StepStarted, ToolCalled, ToolReturned, emit
from agentkit.loops import guards
from agentkit.loops.agent import Agent, Turn, own_profile
from agentkit.loops.calls import answered, run_tool
from agentkit.loops.history import UNFINISHED
from agentkit.loops.react_text import FORMAT, STOP, Reply, parse
from agentkit.loops.stop import TurnEnded
from agentkit.models.call_values import whole_json

MISTAKES = 3  # so many unreadable replies in a row end the turn
UNREADABLE = f"""The model did not keep to the format, {MISTAKES} times in a row. \
Ask in other words, or choose a larger model."""
TOO_LARGE = """This task is too large for one turn: {limit} steps were used up and there is no answer yet. \
Split it: ask for its first part alone, or name fewer items at once. A higher max_steps in the profile allows more."""

PROMPT = """Answer the question. You have these tools:
{tools}

{format}

Think before you act. Use one tool at a time and wait for its Observation. If it is an error, try another way.
When you know the answer, give a Final Answer."""


class BadFormat(Exception):
    """The reply cannot be acted on. The text says why; it goes back to the model."""


@dataclass(frozen=True)
class Tool:
    """A function the model may call. `parameters` is a JSON schema, an object whose properties are the arguments."""

    name: str
    description: str
    func: Callable[..., Any]
    parameters: dict = field(default_factory=dict)

    @classmethod
    def of(cls, tool: "BaseTool | Tool") -> "Tool":
        """The same tool, if it comes from LangChain."""
        if isinstance(tool, Tool):
            return tool
        schema = convert_to_openai_tool(tool)["function"]
        return cls(tool.name, schema["description"], lambda **args: tool.invoke(args), schema["parameters"])

    def run(self, /, **args: Any) -> str:
        """Call the function; its result as text, as JSON where it is not text already."""
        result = self.func(**args)
        if isinstance(result, str):
            return result
        try:
            return json.dumps(result, ensure_ascii=False, default=str)
        except (TypeError, ValueError):  # keys that JSON does not have, a list that holds itself
            return str(result)

    def arguments(self, given: dict | str) -> dict:
        """An Action Input as arguments: plain text becomes the only parameter, or the only required one."""
        if isinstance(given, dict) or not given:
            return given or {}
        properties = self.parameters.get("properties", {})
        names = list(properties) if len(properties) == 1 else self.parameters.get("required", [])
        if len(names) != 1:
            raise BadFormat(f"{self.name} takes a JSON object with {', '.join(properties) or 'nothing in it'}")
        try:
            value = whole_json(given)
        except ValueError:
            return {names[0]: given}
        is_text = properties.get(names[0], {}).get("type") == "string"
        return {names[0]: given if is_text and not isinstance(value, str) else value}

    def __str__(self) -> str:
        """The tool as the prompt shows it."""
        properties, required = self.parameters.get("properties", {}), self.parameters.get("required", [])
        needs = f" (required: {', '.join(required)})" if required else ""
        return f"- {self.name}: {self.description} Parameters{needs}: {json.dumps(properties, ensure_ascii=False)}"


class Handmade(Agent):
    """Think, act, observe, at most `max_steps` times (default: the profile's). Tools are LangChain's or `Tool`s.

    There are no threads.
    """

    loop = "handmade"

    def __init__(self, model, tools: Sequence = (), checkpointer=None, profile=None, max_steps: int | None = None):
        super().__init__(model, list(tools), checkpointer, profile or own_profile(model))
        if max_steps is not None:
            self.profile = self.profile.but(max_steps=max_steps)
        self.limit = self.profile.max_steps
        self.by_name = {tool.name: Tool.of(tool) for tool in tools}
        self.format = FORMAT.format(names=", ".join(self.by_name) or "(there are no tools)")
        shown = "\n".join(map(str, self.by_name.values())) or "(none)"
        self.prompt = PROMPT.format(tools=shown, format=self.format)

    def _turn(self, turn: Turn) -> tuple[str, str]:
        turn.messages = [HumanMessage(turn.question)]
        acts, mistakes = [], 0
        for number in range(1, self.limit + 1):
            with _step(turn, number):
                reply = self._ask(turn)
                if reply.answer is not None:
                    return "answer", reply.answer
                try:
                    observation, mistakes = self._act(reply, f"call_{number}", acts), 0
                except BadFormat as problem:
                    observation, mistakes = self._refuse(reply, f"call_{number}", str(problem)), mistakes + 1
                    guards.malformed(mistakes, MISTAKES, str(problem))
                turn.messages.append(HumanMessage(observation))
            if mistakes == MISTAKES:
                raise TurnEnded("malformed", UNREADABLE)
        raise TurnEnded("limit", TOO_LARGE.format(limit=self.limit))

    def _ask(self, turn: Turn) -> Reply:
        """One call of the model. What it wrote is in the history afterwards, without what it invented."""
        guards.before_model()
        asked, options = [SystemMessage(self.prompt), *turn.messages], {"callbacks": [turn.narrator]}
        message = answered(lambda: self.model.invoke(asked, options, stop=STOP))
        reply, told = parse(str(message.text)), message.response_metadata
        # Text alone: a native tool call has no place in this protocol, and some servers refuse an empty message.
        kept = {"id": message.id, "usage_metadata": message.usage_metadata, "response_metadata": told}
        turn.messages.append(AIMessage(reply.text or "(nothing)", **kept))
        cut = {"length", "max_tokens"} & {told.get(key) for key in ("finish_reason", "stop_reason", "done_reason")}
        if cut and reply.answer is None and not isinstance(reply.input, dict):
            return Reply(reply.text, action=reply.action, problem="the reply was cut by the token limit; be brief")
        return reply

    def _act(self, reply: Reply, id: str, acts: list) -> str:
        """Run the tool that the reply asks for; its result, or its error, is the observation.

        `acts` are the turn's calls and results as messages, the form in which the guard against repetition reads them.
        """
        if reply.problem:
            raise BadFormat(reply.problem)
        if reply.action not in self.by_name:
            return self._refuse(reply, id, f"there is no tool {reply.action}")
        tool = self.by_name[reply.action]
        args = tool.arguments(reply.input)
        emit(ToolCalled(id=id, name=tool.name, args=args))
        call = {"id": id, "name": tool.name, "args": args}
        acts.append(AIMessage("", tool_calls=[call]))
        result = run_tool(call, acts, lambda: ToolMessage(tool.run(**args), name=tool.name, tool_call_id=id))
        acts.append(result)
        return f"Observation: {result.text}"

    def _refuse(self, reply: Reply, id: str, why: str) -> str:
        """The nudge: what was wrong, and the format once more."""
        nudge, name = f"Error: {why}.\n\n{self.format}", reply.action or "unknown"
        emit(ToolCalled(id=id, name=name, args={"text": reply.text}, invalid=why))
        emit(ToolReturned(id=id, name=name, content=nudge, status="error"))
        return nudge

    def _close(self, turn: Turn, answer: str, reason: str) -> None:
        if reason == "answer":
            return
        if isinstance(turn.messages[-1], AIMessage):  # its action was not finished
            turn.messages.append(HumanMessage(f"Observation: {UNFINISHED}"))
        turn.messages.append(AIMessage(answer, response_metadata={"ended": reason}))


@contextlib.contextmanager
def _step(turn: Turn, number: int) -> Iterator[None]:
    """Tells a step's beginning and, however it ends, the messages it added."""
    before = len(turn.messages)
    emit(StepStarted(step=number, node="step"))
    try:
        yield
    finally:
        added = [{"type": message.type, "content": message.content} for message in turn.messages[before:]]
        emit(StepEnded(step=number, node="step", change={"messages": added}))


def build(model: Any, tools: list, checkpointer: Any, profile: Any) -> Handmade:
    """The agent; `build_agent` checks the arguments."""
    return Handmade(model, tools, checkpointer, profile)
