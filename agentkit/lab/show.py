"""Still pictures for a notebook: the versions line, and a conversation as a timeline that reads without a kernel."""

import html
import json
from importlib.metadata import version

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentkit.models.messages import invalid_calls

LIBRARIES = ("agentkit", "mlx", "mlx-lm", "langgraph", "langchain-core")
_COLOURS = {"human": "#3b6ea5", "ai": "#4b7f52", "call": "#8a5a00", "tool": "#6b4e9b", "system": "#666666", "error": "#b3261e"}


def versions() -> str:
    """The versions this lesson was run with, on one line; they must be those of the lock."""
    return " · ".join(f"{name} {version(name)}" for name in LIBRARIES)


class timeline:  # noqa: N801 - reads as a function in a lesson: timeline(result.messages)
    """A conversation, one row a message or call: who, and what. Shows as HTML in a notebook and as text elsewhere."""

    def __init__(self, messages: list[BaseMessage]):
        self.rows = [row for message in messages for row in _rows(message)]

    def __repr__(self) -> str:
        return "\n".join(f"{who:>9} | {text}" for _, who, text in self.rows)

    def _repr_html_(self) -> str:
        cells = "".join(
            f'<div style="display:flex;gap:10px;margin:3px 0;align-items:baseline">'
            f'<span style="flex:0 0 84px;text-align:right;font:600 12px sans-serif;color:{_COLOURS[kind]}">{html.escape(who)}</span>'
            f'<span style="flex:1;border-left:3px solid {_COLOURS[kind]};padding:2px 10px;white-space:pre-wrap;'
            f'overflow-wrap:anywhere;font-size:13px" dir="auto">{html.escape(text) or "&nbsp;"}</span></div>'
            for kind, who, text in self.rows)
        return f'<div style="max-width:860px">{cells}</div>'


def _rows(message: BaseMessage):
    if isinstance(message, ToolMessage):
        failed = message.status == "error"
        yield ("error" if failed else "tool"), ("error" if failed else "result"), str(message.text)
        return
    if message.text or not isinstance(message, AIMessage):
        who = {"human": "you", "ai": "model"}.get(message.type, message.type)
        yield message.type if message.type in _COLOURS else "system", who, str(message.text)
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            arguments = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call["args"].items())
            yield "call", "call", f"{call['name']}({arguments})"
        for call in invalid_calls(message):
            yield "error", "refused", f"{call['error'] or 'malformed'}: {call['args']}"
