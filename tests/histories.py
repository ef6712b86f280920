"""Calls for a tape, and what makes a history valid."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage


def call(name, /, **args):
    """A message that calls one tool."""
    return calls((name, args))


def calls(*pairs, text=""):
    """A message that calls several tools at once."""
    return AIMessage(text, tool_calls=[{"name": name, "args": args, "id": None} for name, args in pairs])


def assert_valid(messages):
    """Every call is answered at once and once, no result stands alone, questions and last words alternate."""
    waiting = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting, "a result without its call"
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting, "a call without its result"
        if isinstance(message, AIMessage):
            waiting = {c["id"] for c in [*message.tool_calls, *message.invalid_tool_calls]}
            assert None not in waiting
    assert not waiting
    turns = [
        m
        for m in messages
        if isinstance(m, HumanMessage) or (isinstance(m, AIMessage) and not m.tool_calls and not m.invalid_tool_calls)
    ]
    assert all(a.type != b.type for a, b in zip(turns, turns[1:]))
