"""A valid history: every call has its result, no result stands alone, every turn ends with the assistant."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

UNFINISHED = "Error: this call was not finished, it has no result."
BROKEN_OFF = "This turn broke off before it reached an answer."


def repaired(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The same messages, with a synthetic result (status "error") for each call that has none.

    Results without a call are left out: chat templates and servers refuse or misread them.
    """
    out: list[BaseMessage] = []
    waiting: dict[str, str] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            if waiting.pop(message.tool_call_id, None) is not None:
                out.append(message)
            continue
        out += _synthetic(waiting)
        out.append(message)
        waiting = calls_of(message)
    return out + _synthetic(waiting)


def closed(messages: Sequence[BaseMessage], note: str = BROKEN_OFF, reason: str = "error") -> list[BaseMessage]:
    """`repaired`, and with `note` as the assistant's last word if the turn has none: the next question can follow."""
    out = repaired(messages)
    if out and not is_answer(out[-1]):
        out.append(AIMessage(content=note, response_metadata={"ended": reason}))
    return out


def this_turn(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What came after the last question."""
    start = max((place for place, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
    return list(messages[start + 1 :])


def is_answer(message: BaseMessage) -> bool:
    """Whether this message ends a turn: the assistant speaks and asks for no tool."""
    return isinstance(message, AIMessage) and not calls_of(message) and not message.invalid_tool_calls


def calls_of(message: BaseMessage) -> dict[str, str]:
    """Names of the calls that need a result, by id. A malformed call needs one, too: that is how its error is told."""
    if not isinstance(message, AIMessage):
        return {}
    return {
        call["id"]: call["name"] or "unknown"
        for call in [*message.tool_calls, *message.invalid_tool_calls]
        if call["id"]
    }


def _synthetic(waiting: dict[str, str]) -> list[BaseMessage]:
    return [ToolMessage(content=UNFINISHED, name=name, tool_call_id=id, status="error") for id, name in waiting.items()]
