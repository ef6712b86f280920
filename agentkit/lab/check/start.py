"""Lesson 00: a model answers, and calls a tool."""

from langchain_core.messages import AIMessage, ToolMessage

from agentkit.lab.verdict import Verdict, not_yet, right
from agentkit.loops.result import RunResult
from agentkit.models.messages import invalid_calls

PREDICTIONS = {
    "a sum without tools": (
        "What will the model say 23 times 19 is?",
        ["437", "a different number, without any doubt", "that it cannot do sums"], 1,
        "A language model writes likely text. A wrong number is as fluent as the right one, and nothing in it checks."),
}


def called(result: RunResult | None, tool: str, holds: str) -> Verdict:
    """Whether a run called `tool`, the tool succeeded, and the answer holds the text `holds`."""
    if result is None:
        return not_yet("Write a question in the cell above and run it, then run this cell again.")
    calls = [call for message in result.messages if isinstance(message, AIMessage) for call in message.tool_calls]
    names = [call["name"] for call in calls]
    if tool not in names:
        made = f"it called {', '.join(names)}" if names else "it answered from memory and called nothing"
        return not_yet(f"The model should call {tool}, but {made}. Say in your question what only {tool} can find out.")
    failed = [m for m in result.messages if isinstance(m, ToolMessage) and m.name == tool and m.status == "error"]
    if failed and not any(isinstance(m, ToolMessage) and m.name == tool and m.status != "error" for m in result.messages):
        return not_yet(f"{tool} was called and failed with {failed[-1].text!r}. Compare the arguments with what your question says.")
    if holds.lower() not in result.answer.lower():
        return not_yet(f"{tool} ran, but the answer does not say {holds!r}. Look at the timeline: is it in the tool's result?")
    return right(f"The model called {tool} and used what it returned.")


def cut(message: AIMessage | None) -> Verdict:
    """Whether a message holds a call that was refused because the token limit cut it."""
    if message is None:
        return not_yet("Put the model's message into the variable, then run this cell again.")
    if message.tool_calls:
        return not_yet(f"The call {message.tool_calls[0]['name']} was complete. Allow fewer tokens.")
    if not invalid_calls(message):
        return not_yet(f"The model wrote no call at all, only {message.content!r}. It needs a few more tokens to begin one.")
    return right("The call was cut, so it was refused and its text kept. Nothing ran on half an argument.")
