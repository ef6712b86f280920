"""Listens to the model calls of a run: counts what they cost and tells tokens that a model does not tell by itself."""

import json
import threading
import time
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration

from agentkit import events
from agentkit.loops.result import Usage

try:  # a chat model streams inside `invoke` if a handler of this kind listens; LangGraph's own handlers do the same
    from langchain_core.tracers._streaming import _StreamingCallbackHandler as Streaming
except ImportError:  # without it the answer comes in one piece
    Streaming = object


class Abort(BaseException):
    """Breaks a model call off from inside a callback. Not an Exception: LangChain would log it as an error."""


class Narrator(BaseCallbackHandler, Streaming):
    """Our local models emit `events.Token` themselves; for every other model the streamed chunks become tokens here."""

    raise_error = run_inline = True

    def __init__(self, usage: Usage, cancel: threading.Event):
        self.usage = usage
        self._cancel = cancel
        self._told = 0  # tokens that models emitted themselves
        self._speaking = False
        self._calls: dict[UUID, _Call] = {}

    def hear(self, event: events.Event) -> None:
        """Take note of an event of this run, so that no token is told twice."""
        if isinstance(event, events.Token) and not self._speaking:
            self._told += 1

    def tap_output_iter(self, run_id: UUID, output: Any) -> Any:
        """Asked of a streaming handler: the output itself is left alone."""
        return output

    tap_output_aiter = tap_output_iter

    def on_chat_model_start(self, serialized: dict, messages: list, *, run_id: UUID, **kwargs: Any) -> None:
        self._calls[run_id] = _Call(self._told)

    def on_llm_new_token(self, token: str, *, chunk: Any = None, run_id: UUID, **kwargs: Any) -> None:
        if self._cancel.is_set():
            raise Abort
        if call := self._calls.get(run_id):
            call.saw()
            if self._told == call.told_before and isinstance(getattr(chunk, "message", None), AIMessageChunk):
                call.narrated = self._tell(chunk.message) or call.narrated

    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        call = self._calls.pop(run_id, None)
        made = response.generations[0][0] if response.generations and response.generations[0] else None
        if call is None or not isinstance(made, ChatGeneration):
            return
        if self._told == call.told_before and not call.narrated:
            self._tell(made.message)
        self.usage.add(made.message, call.seconds())

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._calls.pop(run_id, None)

    def _tell(self, message: BaseMessage) -> bool:
        pieces = list(_pieces(message))
        self._speaking = True
        try:
            for channel, text in pieces:
                events.emit(events.Token(text=text, channel=channel))
        finally:
            self._speaking = False
        return bool(pieces)


class _Call:
    def __init__(self, told_before: int):
        self.told_before, self.narrated = told_before, False
        self.first = self.last = None

    def saw(self) -> None:
        self.last = time.perf_counter()
        self.first = self.first or self.last

    def seconds(self) -> float | None:
        return self.last - self.first if self.first and self.last > self.first else None


def _pieces(message: BaseMessage):
    """(channel, text) of what a message or a chunk of one says."""
    # Most are text and nothing else, which LangChain takes long to find out.
    for block in [{"type": "text", "text": message.content}] if _is_text(message) else message.content_blocks:
        kind = block.get("type")
        if kind == "text" and block["text"]:
            yield "answer", block["text"]
        elif kind == "reasoning" and block.get("reasoning"):
            yield "thought", block["reasoning"]
        elif kind == "tool_call_chunk" and (text := (block.get("name") or "") + (block.get("args") or "")):
            yield "call", text
        elif kind == "tool_call":
            yield "call", f"{block['name']}({json.dumps(block['args'], ensure_ascii=False)})"


def _is_text(message: BaseMessage) -> bool:
    if not isinstance(message, AIMessage) or not isinstance(message.content, str):
        return False
    return not (message.additional_kwargs or message.tool_calls or message.invalid_tool_calls)
