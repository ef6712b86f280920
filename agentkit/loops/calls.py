"""Calls on their way between model and tools: announced, corrected when malformed, run with their errors caught."""

import time
import uuid
from collections.abc import Callable

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import ToolException
from langgraph.errors import GraphBubbleUp, is_invalid_resume

from agentkit import events
from agentkit.loops.stop import or_cancelled
from agentkit.models.errors import AgentkitError
from agentkit.models.messages import invalid_calls

RETRIES = 2  # how often a model may correct a malformed call before the turn ends


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


def run_tool(call: dict, execute: Callable[[], ToolMessage]) -> ToolMessage:
    """The tool's result, timed and emitted; an exception of the tool becomes a result with status "error".

    Interrupts, TurnEnded (guards, cancel) and everything else that LangGraph lets pass are not tool errors: they go on.
    """
    began = time.perf_counter()
    try:
        result = or_cancelled(execute)
    except GraphBubbleUp:
        raise
    except (Exception, SystemExit) as error:  # a tool that says exit() ends itself, not the run
        if is_invalid_resume(error):
            raise
        result = ToolMessage(content=error_text(error), name=call["name"], tool_call_id=call["id"], status="error")
    if isinstance(result, ToolMessage):
        events.emit(
            events.ToolReturned(
                id=call["id"] or "",
                name=call["name"],
                content=str(result.text),
                status=result.status,
                seconds=round(time.perf_counter() - began, 4),
            )
        )
    return result


def error_text(error: BaseException) -> str:
    """A tool's exception as one line for the model."""
    told = isinstance(error, AgentkitError | ToolException) and str(error)
    return f"Error: {_line(str(error))}" if told else f"Error: {type(error).__name__}: {_line(str(error))}"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 500 else line[:499] + "…"
