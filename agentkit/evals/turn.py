"""One answer of a chat model, timed, with what every evaluation needs to read from it."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentkit.models.errors import ContextFull

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable


@dataclass
class Turn:
    """A model's answer; `message` is None when the prompt did not fit, and `error` then says so."""

    message: "AIMessage | None"
    seconds: float
    error: str = ""

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The decoded tool calls as {"name", "arguments"}."""
        return [{"name": c["name"], "arguments": c["args"]} for c in self.message.tool_calls] if self.message else []

    @property
    def text(self) -> str:
        """The written part of the answer, its text blocks joined."""
        content = self.message.content if self.message else ""
        if isinstance(content, str):
            return content
        return "".join(b if isinstance(b, str) else b.get("text") or "" for b in content)

    @property
    def broken(self) -> str:
        """Why a call could not be decoded, or "": an invalid call, or the start of one left in the text."""
        if self.message is None:
            return self.error
        if self.message.invalid_tool_calls:
            bad = self.message.invalid_tool_calls[0]
            return f"call not decoded: {bad.get('args')!r}"
        return "call left in the text" if "<tool_call" in self.text else ""

    @property
    def tokens(self) -> int | None:
        """Tokens generated, where the model reports them."""
        usage = self.message.usage_metadata if self.message else None
        return usage["output_tokens"] if usage else None


def take_turn(bound: "Runnable", messages: list) -> Turn:
    """Ask once and time it; a prompt too long for the model becomes a turn without message, other errors pass."""
    start = time.perf_counter()
    try:
        message = bound.invoke(messages)
    except ContextFull as error:
        return Turn(None, time.perf_counter() - start, f"prompt too long: {error}")
    return Turn(message, time.perf_counter() - start)


def add_tokens(total: int | None, turn: Turn) -> int | None:
    """Sum of generated tokens that stays None as long as no turn reports any."""
    return total if turn.tokens is None else (total or 0) + turn.tokens
