"""Calls on their way between model and tools: announced, corrected when malformed, guarded, their errors caught.

Every loop that asks through `ask` and acts through `run_tool` has the same guards and tells the same events.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import ToolException
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.types import Command

from agentkit import cancel, events
from agentkit.loops import guards
from agentkit.loops.narrator import Abort
from agentkit.loops.stop import Cancelled, or_cancelled
from agentkit.models.errors import AgentkitError
from agentkit.models.messages import invalid_calls

RETRIES = 2  # how often a model may correct a malformed call before the turn ends


def ask(messages: Sequence[BaseMessage], invoke: Callable[[list[BaseMessage]], AIMessage]) -> list[BaseMessage]:
    """What the model answers to `messages`: its message, and before it those with malformed calls and their feedback."""
    written: list[BaseMessage] = []
    for attempt in range(1, RETRIES + 2):
        guards.before_model()
        message, feedback = announced(answered(partial(invoke, [*messages, *written])))
        written += [message, *feedback]
        # With a sound call among the malformed ones the turn goes on: it runs, and the model reads all results.
        if message.tool_calls or not feedback:
            break
        guards.malformed(attempt, RETRIES + 1, str(feedback[0].text))
    return written


def answered(invoke: Callable[[], AIMessage]) -> AIMessage:
    """One answer of a model. Raises Cancelled if the run was stopped meanwhile."""
    try:
        answer = or_cancelled(invoke)
    except Abort:
        raise Cancelled from None
    if cancel.current().is_set():
        raise Cancelled  # a local model returns what it had; half an answer is none
    return answer


def announced(message: AIMessage) -> tuple[AIMessage, list[ToolMessage]]:
    """Emit the message's calls. Back come the message, every call with an id, and the feedback on malformed calls."""
    for call in message.tool_calls:
        events.emit(events.ToolCalled(id=call["id"] or "", name=call["name"], args=call["args"]))
    if not message.invalid_tool_calls:
        return message, []
    # The model room keeps what was wrong beside the calls, in their order (LangChain's merge of chunks loses it).
    told = invalid_calls(message)
    fixed, feedback = [], []
    for number, call in enumerate(message.invalid_tool_calls):
        reason = (told[number] if number < len(told) else call).get("error") or "its arguments are not a JSON object"
        call = {**call, "id": call["id"] or f"malformed_{uuid.uuid4().hex[:8]}"}
        name = call["name"] or "unknown"
        result = ToolMessage(
            content=f"Error: the call was not run: {_line(reason)}. "
            "Write the whole call again, its arguments as one complete JSON object.",
            name=name,
            tool_call_id=call["id"],
            status="error",
        )
        events.emit(events.ToolCalled(id=call["id"], name=name, args={"text": call["args"] or ""}, invalid=reason))
        events.emit(events.ToolReturned(id=call["id"], name=name, content=result.content, status="error"))
        fixed.append(call)
        feedback.append(result)
    return message.model_copy(update={"invalid_tool_calls": fixed}), feedback


def run_tool(call: dict, messages: Sequence[BaseMessage], execute: Callable[[], Any]) -> Any:
    """The tool's result, timed and emitted; an exception of the tool becomes a result with status "error".

    `messages` are the history up to the call; by them a guard may give a hint instead of running the tool. Interrupts,
    TurnEnded (guards, cancel) and everything else that LangGraph lets pass are not tool errors: they go on.
    """
    if hint := guards.before_tool(call, messages):
        _returned(call, hint, None)
        return hint
    began = time.perf_counter()
    try:
        result = or_cancelled(execute)
    except GraphBubbleUp:
        raise
    except (Exception, SystemExit) as error:  # a tool that says exit() ends itself, not the run
        if is_invalid_resume(error):
            raise
        result = ToolMessage(content=error_text(error), name=call["name"], tool_call_id=call["id"], status="error")
    _returned(call, result, round(time.perf_counter() - began, 4))
    return result


def _returned(call: dict, result: Any, seconds: float | None) -> None:
    messages = [result]
    if isinstance(result, Command):  # it holds the tool's message beside other changes of the state
        messages = result.update.get("messages", []) if isinstance(result.update, dict) else []
    for message in messages:
        if isinstance(message, ToolMessage):
            events.emit(
                events.ToolReturned(
                    id=call["id"] or "",
                    name=call["name"],
                    content=str(message.text),
                    status=message.status,
                    seconds=seconds,
                )
            )


def error_text(error: BaseException) -> str:
    """A tool's exception as one line for the model."""
    told = isinstance(error, AgentkitError | ToolException) and str(error)
    return f"Error: {_line(str(error))}" if told else f"Error: {type(error).__name__}: {_line(str(error))}"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 500 else line[:499] + "…"
