"""Checks for exercises: each says what is right, or what to look at next. They return text and raise nothing."""

from langchain_core.messages import AIMessage, ToolMessage

from agentkit.loops.result import RunResult
from agentkit.models.messages import invalid_calls


def check_call(result: RunResult | None, tool: str, holds: str) -> str:
    """Whether a run called `tool`, the tool succeeded, and the answer holds the text `holds`."""
    if result is None:
        return "Not yet: write a question in the cell above and run it, then run this cell again."
    calls = [call for message in result.messages if isinstance(message, AIMessage) for call in message.tool_calls]
    names = [call["name"] for call in calls]
    if tool not in names:
        made = f"it called {', '.join(names)}" if names else "it answered from memory and called nothing"
        return f"Not yet: the model should call {tool}, but {made}. Say in your question what only {tool} can find out."
    failed = [m for m in result.messages if isinstance(m, ToolMessage) and m.name == tool and m.status == "error"]
    if failed and not any(isinstance(m, ToolMessage) and m.name == tool and m.status != "error" for m in result.messages):
        return f"Nearly: {tool} was called and failed with {failed[-1].text!r}. Compare the arguments with what your question says."
    if holds.lower() not in result.answer.lower():
        return f"Nearly: {tool} ran, but the answer does not say {holds!r}. Look at the timeline: is it in the tool's result?"
    return f"Right: the model called {tool} and used what it returned."


def check_cut(message: AIMessage | None) -> str:
    """Whether a message holds a call that was refused because the token limit cut it."""
    if message is None:
        return "Not yet: put the model's message into the variable, then run this cell again."
    if message.tool_calls:
        return f"Not yet: the call {message.tool_calls[0]['name']} was complete. Allow fewer tokens."
    if not invalid_calls(message):
        return f"Not yet: the model wrote no call at all, only {message.content!r}. It needs a few more tokens to begin one."
    return "Right: the call was cut, so it was refused and its text kept. Nothing ran on half an argument."
