"""What one step of a tape says, as a message and as the chunks of a stream that add up to it."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from agentkit import events
from agentkit.models.messages import invalid_calls
from agentkit.models.tape import Step, words


@dataclass(frozen=True)
class _Call:
    """A call: `args` is its JSON text; a refused one has a reason and the text the model would have written."""

    name: str
    args: str
    id: str
    refused: str | None = None
    raw: str = ""

    def broken(self, args: str, reason: str) -> "_Call":
        return replace(
            self, args=args, refused=reason, raw=f'<tool_call>\n{{"name": {json.dumps(self.name)}, "arguments": {args}'
        )


@dataclass
class Answer:
    """What one step says, in parts that can be streamed, cut and put together again."""

    source: AIMessage
    thought: str
    content: Any
    calls: list[_Call]
    size: int | None
    reason: str
    input_tokens: int
    model_name: str
    id: str | None

    def cut(self, limit: int) -> "Answer":
        """The first `limit` words of it; a call that does not end before the limit is refused, not completed."""
        thought, left = _first(self.thought, limit)
        content, left = _first(self.content, left)
        calls = []
        for call in self.calls:
            if left <= 0:
                break
            args, left = _first(call.args, left)
            calls.append(call if args == call.args else call.broken(args, "the call was cut by the token limit"))
        whole = (thought, content, calls) == (self.thought, self.content, self.calls)
        return self if whole else replace(self, thought=thought, content=content, calls=calls, reason="length")

    def chunks(self, event: threading.Event) -> Iterator[ChatGenerationChunk]:
        """The answer in pieces; once `event` is set it ends before the next word or call, with finish_reason cancel."""
        yield from self._parts(event)
        yield self._chunk(
            additional_kwargs=self._extra(),
            usage_metadata=self._usage(),
            response_metadata=self._metadata(),
            id=self.id,
            name=self.source.name,
            chunk_position="last",
        )

    def _parts(self, event: threading.Event) -> Iterator[ChatGenerationChunk]:
        pieces = self._pieces(self.thought)
        for number, piece in enumerate(pieces):
            if event.is_set():
                return self._cancel("".join(pieces[:number]), "", [])
            _tell(piece, "thought")
            yield self._chunk(additional_kwargs={"reasoning_content": piece})
        pieces = self._pieces(self.content)
        for number, piece in enumerate(pieces):
            if event.is_set():
                return self._cancel(self.thought, "".join(pieces[:number]), [])
            _tell(piece, "answer")
            yield self._chunk(content=piece)
        for index, call in enumerate(self.calls):
            if event.is_set():
                return self._cancel(self.thought, self.content, self.calls[:index])
            yield from self._call(index, call)

    def _call(self, index: int, call: _Call) -> Iterator[ChatGenerationChunk]:
        # Once begun a call is given whole, and a refused one in a single piece with its reason in front: LangChain
        # completes torn JSON when it merges chunks, and the call would be run.
        yield self._chunk(tool_call_chunks=[tool_call_chunk(name=call.name, args="", id=call.id, index=index)])
        for piece in self._pieces(call.raw if call.refused else call.args):
            _tell(piece, "call")
            if not call.refused:
                yield self._chunk(tool_call_chunks=[tool_call_chunk(args=piece, index=index)])
        if call.refused:
            yield self._chunk(tool_call_chunks=[tool_call_chunk(args=f"{call.refused}\n{call.raw}", index=index)])

    def _cancel(self, thought: str, content: Any, calls: list[_Call]) -> None:
        self.thought, self.content, self.calls, self.reason = thought, content, calls, "cancel"

    def _chunk(self, content: Any = None, **fields: Any) -> ChatGenerationChunk:
        empty = [] if isinstance(self.content, list) else ""
        return ChatGenerationChunk(message=AIMessageChunk(content=empty if content is None else content, **fields))

    def message(self) -> AIMessage:
        """The answer in one piece, equal to its merged chunks."""
        valid = [
            {"name": c.name, "args": json.loads(c.args), "id": c.id, "type": "tool_call"}
            for c in self.calls
            if not c.refused
        ]
        # The form a refused call has after LangChain merged chunks: the reason in front of what the model wrote.
        invalid = [
            {"name": c.name, "args": f"{c.refused}\n{c.raw}", "id": c.id, "error": None, "type": "invalid_tool_call"}
            for c in self.calls
            if c.refused
        ]
        extra = ({"reasoning_content": self.thought} if self.thought else {}) | self._extra()
        return AIMessage(
            content=self.content,
            tool_calls=valid,
            invalid_tool_calls=invalid,
            additional_kwargs=extra,
            id=self.id,
            name=self.source.name,
            usage_metadata=self._usage(),
            response_metadata=self._metadata(),
        )

    def _pieces(self, part: Any) -> list:
        if not isinstance(part, str):
            return [[block] for block in part]
        return [part[i : i + self.size] for i in range(0, len(part), self.size)] if self.size else words(part)

    def _extra(self) -> dict:
        refused = [
            {"name": c.name, "args": c.raw, "id": c.id, "error": c.refused, "type": "invalid_tool_call"}
            for c in self.calls
            if c.refused
        ]
        kept = {
            k: v for k, v in self.source.additional_kwargs.items() if k not in ("reasoning_content", "refused_calls")
        }
        return kept | ({"refused_calls": refused} if refused else {})

    def _usage(self) -> dict:
        given = self.source.usage_metadata
        if given and self.reason == "stop":
            return given
        thought = len(words(self.thought))
        output = thought + _count(self.content) + sum(len(words(call.args)) for call in self.calls)
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": output,
            "total_tokens": self.input_tokens + output,
            "input_token_details": {"cache_read": 0},
            "output_token_details": {"reasoning": thought},
        }

    def _metadata(self) -> dict:
        given = self.source.response_metadata if self.reason == "stop" else {}
        return {"finish_reason": self.reason, "model_name": self.model_name, **given}


def answer_of(
    step: Step, messages: list[BaseMessage], size: int | None, model_name: str, again: int, new_id: Callable[[], str]
) -> Answer:
    """What a step answers to `messages`, its fault worked in; `again` counts how often it was given before."""
    source = step.message
    calls = []
    for call in source.tool_calls:
        given = call["id"] and (f"{call['id']}_{again + 1}" if again else call["id"])
        whole = _Call(call["name"], json.dumps(call["args"], ensure_ascii=False), given or new_id())
        calls.append(whole.broken(whole.args, "the call is not valid JSON") if step.fault == "malformed" else whole)
    for call in invalid_calls(source):
        text, reason = call["args"] or "", call["error"] or "the call is malformed"
        calls.append(_Call(call["name"] or "", text, call["id"] or new_id(), reason, text))
    answer = Answer(
        source=source,
        thought=source.additional_kwargs.get("reasoning_content", ""),
        content=source.content,
        calls=calls,
        size=size,
        reason="stop",
        input_tokens=sum(_spoken(message) for message in messages),
        model_name=model_name,
        # add_messages replaces a message of the same id, so a repeated one must not bring its id again.
        id=None if again else source.id,
    )
    return answer.cut(step.after) if step.fault == "cut" else answer


def _spoken(message: BaseMessage) -> int:
    calls = getattr(message, "tool_calls", [])
    return _count(message.content) + sum(len(words(json.dumps(call["args"], ensure_ascii=False))) for call in calls)


def _count(content: Any) -> int:
    if isinstance(content, str):
        return len(words(content))
    return sum(len(words(part if isinstance(part, str) else str(part.get("text", "")))) for part in content)


def _first(part: Any, limit: int) -> tuple[Any, int]:
    """The first `limit` words of a part, and what is left of the limit; a list of blocks is kept or dropped whole."""
    if not isinstance(part, str):
        return (part, limit - _count(part)) if limit > 0 else ("", 0)
    pieces = words(part)
    return "".join(pieces[: max(limit, 0)]), max(limit - len(pieces), 0)


def _tell(piece: Any, channel: str) -> None:
    if events.heard() and isinstance(piece, str):
        events.emit(events.Token(text=piece, channel=channel))
