"""`ScriptedChatModel`: replays a tape of messages, for lessons and tests that need one exact course of events.

It answers without thinking, so it is never a stand-in where the bundled model can serve.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from agentkit import cancel
from agentkit.models.errors import BadField
from agentkit.models.scripted_answer import Answer, answer_of
from agentkit.models.tape import Asked, Step, Tape, TapeEnded, as_json, read, steps

__all__ = ["Asked", "ScriptedChatModel", "Step", "TapeEnded"]


class ScriptedChatModel(BaseChatModel):
    """Gives the messages of its tape in order: texts, AIMessages, dicts, exceptions (raised) or `Step`s.

    Streams by words, or by `chunk_size` characters; the merged chunks equal the invoked message. Tokens are counted in
    words. Calls without an id get `call_1`, `call_2`, ... Raises `TapeEnded` past the end, `BadField` for a bad tape.
    """

    model_name: str = "scripted"
    chunk_size: int | None = None
    tools: list[dict] = []
    tool_choice: Any = None
    _tape: Tape = PrivateAttr()

    def __init__(self, tape: Sequence = (), **fields: Any):
        super().__init__(**fields)
        if self.chunk_size is not None and self.chunk_size < 1:
            raise BadField(f"chunk_size is {self.chunk_size}; allowed is 1 or more")
        self._tape = Tape(steps(list(tape)))

    @classmethod
    def from_json(cls, path: Path | str, **fields: Any) -> "ScriptedChatModel":
        """A model for a tape file: a JSON list of texts and dicts, as `write_json` writes it."""
        return cls(read(path), **fields)

    def write_json(self, path: Path | str) -> None:
        """Write the whole tape, faults and delays included, as a JSON list."""
        Path(path).write_text(
            json.dumps([as_json(step) for step in self.tape], indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )

    @property
    def tape(self) -> list[Step]:
        """All steps, played or not."""
        return list(self._tape.steps)

    @property
    def calls(self) -> list[Asked]:
        """What the model and its copies were asked so far."""
        return list(self._tape.calls)

    @property
    def position(self) -> int:
        """How many steps have been given."""
        return self._tape.position

    @property
    def _llm_type(self) -> str:
        return "agentkit-scripted"

    def bind_tools(self, tools: Sequence, *, tool_choice: Any = None, **kwargs: Any) -> "ScriptedChatModel":
        """A copy that knows these tools and plays on from the same tape; the tape's calls need not be among them."""
        return self.model_copy(
            update={"tools": [convert_to_openai_tool(tool) for tool in tools], "tool_choice": tool_choice}
        )

    def _take(self, messages: list[BaseMessage], stop: list[str] | None, options: dict) -> tuple[Step, Answer | None]:
        options = {
            **options,
            **({"stop": stop} if stop else {}),
            **({"tool_choice": self.tool_choice} if self.tool_choice else {}),
        }
        step, again = self._tape.take(Asked(list(messages), list(self.tools), options))
        return step, answer_of(
            step, messages, self.chunk_size, self.model_name, again, self._tape.call_id
        ) if step.message is not None else None

    def _generate(self, messages, stop=None, run_manager=None, **kwargs: Any) -> ChatResult:
        step, answer = self._take(messages, stop, kwargs)
        event = cancel.current()
        event.wait(step.delay)
        return self._result(step, answer, event)

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs: Any) -> ChatResult:
        step, answer = self._take(messages, stop, kwargs)
        event = cancel.current()
        await _wait(event, step.delay)
        return self._result(step, answer, event)

    def _result(self, step: Step, answer: Answer | None, event: threading.Event) -> ChatResult:
        if isinstance(step.fault, Exception):
            raise step.fault
        for _ in answer.chunks(event):
            pass
        return ChatResult(generations=[ChatGeneration(message=answer.message())])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        step, answer = self._take(messages, stop, kwargs)
        event = cancel.current()
        event.wait(step.delay)
        for chunk in _played(step, answer, event):
            if run_manager and chunk.text:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self, messages, stop=None, run_manager=None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        step, answer = self._take(messages, stop, kwargs)
        event = cancel.current()
        await _wait(event, step.delay)
        for chunk in _played(step, answer, event):
            if run_manager and chunk.text:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


async def _wait(event: threading.Event, seconds: float) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not event.is_set() and (left := end - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(left, 0.05))


def _played(step: Step, answer: Answer | None, event: threading.Event) -> Iterator[ChatGenerationChunk]:
    """The chunks of a step, up to the place where its exception is due."""
    if not isinstance(step.fault, Exception):
        yield from answer.chunks(event)
        return
    if answer and step.after:
        # The last chunk closes a message; here the stream breaks before it.
        *parts, _ = answer.cut(step.after).chunks(event)
        yield from parts
    raise step.fault
