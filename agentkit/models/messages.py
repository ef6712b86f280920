"""LangChain messages as a chat template and as a server reads them: what becomes of a refused call in each."""

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from agentkit.models.errors import BadField

_ROLES = {HumanMessage: "user", SystemMessage: "system", AIMessage: "assistant", ToolMessage: "tool"}


def as_dicts(messages: list[BaseMessage]) -> list[dict]:
    """Role and content of each message, calls and reasoning where a template can show them.

    Raises BadField for an image or another part that a text model cannot read: it must never guess pixels.
    """
    return [_as_dict(message) for message in messages]


def _as_dict(message: BaseMessage) -> dict:
    if isinstance(message, ChatMessage):
        return {"role": message.role, "content": text_of(message)}
    role = next((role for kind, role in _ROLES.items() if isinstance(message, kind)), None)
    if role is None:
        raise BadField(f"message of type {type(message).__name__!r} cannot be shown to the model")
    shown = {"role": role, "content": text_of(message)}
    if isinstance(message, AIMessage):
        # A refused call stays in view as the model wrote it, so that the correction after it makes sense.
        raw = "\n".join(call["args"] or "" for call in invalid_calls(message))
        shown["content"] = "\n".join(part for part in (shown["content"], raw) if part)
        if message.tool_calls:
            shown["tool_calls"] = [{"type": "function", "id": call["id"], "function": {"name": call["name"], "arguments": call["args"]}}
                                   for call in message.tool_calls]
        if reasoning := message.additional_kwargs.get("reasoning_content"):
            shown["reasoning_content"] = reasoning
    if isinstance(message, ToolMessage):
        shown["tool_call_id"] = message.tool_call_id
        if message.name:
            shown["name"] = message.name
    return shown


def disarmed(messages: list[dict], control: list[str]) -> list[dict]:
    """The same messages with the tokenizer's control tokens broken up in what users and tools wrote.

    A file that holds `<|im_end|>` could otherwise end its own message and speak as the system.
    """
    marks = [mark for mark in control if len(mark) > 1]

    def plain(text: str) -> str:
        for mark in marks:
            text = text.replace(mark, mark[0] + "\u200b" + mark[1:])
        return text

    return [m | {"content": plain(m["content"])} if m["role"] in ("user", "tool") else m for m in messages]


def text_of(message: BaseMessage) -> str:
    """The message's text; BadField for parts that are not text."""
    if isinstance(message.content, str):
        return message.content
    parts = []
    for part in message.content:
        if isinstance(part, str):
            parts.append(part)
        elif part.get("type") == "text":
            parts.append(part["text"])
        elif part.get("type") not in ("tool_use", "tool_call", "reasoning", "thinking"):
            raise BadField(f"content of type {part.get('type')!r}: this model reads text only; choose one with vision")
    return "".join(parts)


def invalid_calls(message: AIMessage) -> list[dict]:
    """Refused calls with their reasons, also of a message that was merged from streamed chunks.

    LangChain's merge of chunks drops the `error` of an invalid call; the model leaves a copy beside it.
    """
    return message.additional_kwargs.get("refused_calls") or list(message.invalid_tool_calls)


def sendable(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Messages as servers take them: each refused call as one whose single argument is what the model wrote.

    Servers read the arguments of old calls as JSON and want a call for every result, so torn text fails the request.
    """
    return [_sendable(m) if isinstance(m, AIMessage) and m.invalid_tool_calls else m for m in messages]


def _sendable(message: AIMessage) -> AIMessage:
    refused, written = message.invalid_tool_calls, invalid_calls(message)
    calls = list(message.tool_calls)
    for number, (call, text) in enumerate(zip(refused, written if len(written) == len(refused) else refused)):
        id, args = call["id"] or f"refused_{number}", {"text": text["args"] or ""}
        calls.append(tool_call(name=call["name"] or "unknown", args=args, id=id))
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": []})
