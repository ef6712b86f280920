"""Calls of served models, held to the rule of our own: a call that is not whole and sound is refused, never run.

LangChain completes torn JSON when it merges the chunks of a stream, takes the last of two equal keys, and fails on
arguments that are no object. Here every call waits as text until the answer has ended, is read strictly, and goes on
as a call or as a refused one with its reason. With tools bound, calls that a server left in the text are read, too.
"""

import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, merge_content
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agentkit.models.call_values import whole_json
from agentkit.models.json_calls import as_args
from agentkit.models.parsed import BLANK, Delta
from agentkit.models.tool_calls import CUT, ToolCallParser

FILTERED = "cut by the server's content filter"
LOST = "the server passed nothing of it on"
_FIRST = 1000  # a chunk's call is numbered from here: above every block of content, which LangChain numbers alike
# What servers say of an answer that ended before the model did.
_ENDINGS = {
    "length": CUT,
    "max_tokens": CUT,
    "max_output_tokens": CUT,
    "model_context_window_exceeded": CUT,
    "content_filter": FILTERED,
    "refusal": FILTERED,
}


@dataclass
class _Given:
    """A call as the server gave it; `blocks` is how a list of content shows it."""

    name: str
    args: str | dict
    id: str | None
    index: Any = None
    blocks: list = field(default_factory=list)

    def judged(self, cut: str | None) -> dict:
        """As LangChain's dict of a call, or of an invalid one with the reason as `error`."""
        id = self.id or uuid.uuid4().hex[:9]
        try:
            if cut:
                raise ValueError(cut)
            if not self.name.strip():
                raise ValueError("it names no tool")
            return tool_call(name=self.name, args=self.args if isinstance(self.args, dict) else _args(self.args), id=id)
        except ValueError as error:
            text = self.args if isinstance(self.args, str) else json.dumps(self.args, ensure_ascii=False)
            return invalid_tool_call(name=self.name or None, args=text, id=id, error=str(error))


def _args(text: str) -> dict:
    try:
        value = whole_json(text) if text.strip() else None
    except ValueError as error:
        raise ValueError(f"bad JSON: {error}") from None
    return as_args(value)


class Answer:
    """One answer on its way through: text goes on at once, calls only at the end.

    If the answer was cut, its last call is refused even if it reads well: servers close what they parsed themselves.
    markup: read calls in the text, if tools are bound. open_thoughts: the server shows thoughts, so an answer that is
    cut and empty can only have been a call which it kept to itself.
    """

    def __init__(self, tools: list[dict] | None, markup: bool = True, open_thoughts: bool = False):
        self._parser = ToolCallParser("auto", tools=tools) if tools and markup else None
        self._silence_is_a_call = bool(tools) and open_thoughts
        self._calls: list[_Given] = []
        self._ending: str | None = None
        self._provider: dict = {}
        self._raw = self._said = self._thought = ""  # text as it came, and what is answer and thought of it

    def chunks(self, stream: Iterator[ChatGenerationChunk]) -> Iterator[ChatGenerationChunk]:
        """The stream's chunks without calls, then the calls, then the reasons of those refused."""
        with contextlib.closing(stream):
            for chunk in stream:
                yield self._passed(chunk)
        yield from self._rest()

    async def achunks(self, stream: AsyncIterator[ChatGenerationChunk]) -> AsyncIterator[ChatGenerationChunk]:
        """The same of an asynchronous stream."""
        async with contextlib.aclosing(stream):
            async for chunk in stream:
                yield self._passed(chunk)
        for chunk in self._rest():
            yield chunk

    def whole(self, generation: ChatGeneration, info: dict | None) -> ChatGeneration:
        """The same for an answer that came in one piece; `info` is what its result says besides."""
        message = generation.message
        if not isinstance(message, AIMessage):
            return generation
        self._see({**(info or {}), **(generation.generation_info or {}), **message.response_metadata})
        content, extra = message.content, dict(message.additional_kwargs)
        blocks = [block for block in content if isinstance(block, dict)]  # of a text: none
        written = {block["call_id"]: block["arguments"] for block in blocks if block.get("type") == "function_call"}
        for call in [*message.tool_calls, *message.invalid_tool_calls]:
            args = written.get(call["id"], call["args"])
            self._calls.append(_Given(call["name"] or "", "" if args is None else args, call["id"]))
        self._thought = extra.get("reasoning_content") or ""
        if isinstance(content, str):
            self._read(content)
            self._end()
        judged = [call for call, _ in self._judged()]
        refused = [call for call in judged if "error" in call]
        gone = [block for block in blocks if block.get("call_id", block.get("id")) in {call["id"] for call in refused}]
        shown = self._said if isinstance(content, str) else [block for block in content if block not in gone]
        extra |= {"reasoning_content": self._thought} if self._thought else {}
        extra |= {"refused_calls": refused} if refused else {}
        update = {"content": shown, "additional_kwargs": extra, "invalid_tool_calls": refused}
        update |= {"tool_calls": [call for call in judged if "error" not in call]}
        return ChatGeneration(message=message.model_copy(update=update), generation_info=generation.generation_info)

    def _passed(self, chunk: ChatGenerationChunk) -> ChatGenerationChunk:
        message = chunk.message
        if not isinstance(message, AIMessageChunk):
            return chunk
        self._see({**(chunk.generation_info or {}), **message.response_metadata})
        content, extra = message.content, message.additional_kwargs
        for part in message.tool_call_chunks:
            self._take(part)
        if message.tool_call_chunks and isinstance(content, list):
            self._calls[-1].blocks = merge_content(self._calls[-1].blocks, content)
            content = []
        self._thought += extra.get("reasoning_content") or ""
        if isinstance(content, str):
            content, thought = self._read(content)
            extra = {**extra, "reasoning_content": extra.get("reasoning_content", "") + thought} if thought else extra
        update = {"content": content, "additional_kwargs": extra, "chunk_position": None}
        update |= {"tool_call_chunks": [], "tool_calls": [], "invalid_tool_calls": []}
        return ChatGenerationChunk(message=message.model_copy(update=update), generation_info=chunk.generation_info)

    def _rest(self) -> Iterator[ChatGenerationChunk]:
        content, thought = self._end()
        if content or thought:
            yield _chunk(content=content, additional_kwargs={"reasoning_content": thought} if thought else {})
        refused = []
        for index, (call, blocks) in enumerate(self._judged(), _FIRST):
            args = call["args"]
            if "error" in call:
                refused.append(call)
                # The reason in front keeps LangChain from completing the text when it merges chunks.
                args, blocks = f"{call['error']}\n{args}", []
            else:
                args = json.dumps(args, ensure_ascii=False)
            part = tool_call_chunk(name=call["name"], args=args, id=call["id"], index=index)
            provider = self._provider if blocks else {}
            yield _chunk(content=blocks or "", tool_call_chunks=[part], response_metadata=provider)
        yield _chunk(additional_kwargs={"refused_calls": refused} if refused else {}, chunk_position="last")

    def _see(self, info: dict) -> None:
        """Note how the answer ended, in the words of whichever server, and whose blocks its content has."""
        self._provider |= {"model_provider": info["model_provider"]} if "model_provider" in info else {}
        told = [info.get(key) for key in ("finish_reason", "stop_reason", "done_reason")]
        told.append((info.get("incomplete_details") or {}).get("reason"))
        self._ending = next(filter(None, told), self._ending)

    def _take(self, part: dict) -> None:
        index, id, name, args = part.get("index"), part.get("id"), part.get("name") or "", part.get("args") or ""
        if index is None:  # a server that does not number its calls: a piece without a head belongs to the last one
            same = [] if id or name else self._calls[-1:]
        else:  # some number every call 0: then the id tells them apart
            same = [c for c in self._calls if c.index == index and (not id or not c.id or c.id == id)][-1:]
        if same:
            same[0].name, same[0].args, same[0].id = same[0].name + name, same[0].args + args, same[0].id or id
        else:
            self._calls.append(_Given(name, args, id, index))

    def _read(self, text: str) -> tuple[str, str]:
        """What of this text, and of text held back before, is answer and what is thought."""
        self._raw += text
        if self._parser:
            return self._told(self._parser.feed(text))
        self._said += text
        return text, ""

    def _told(self, deltas: list[Delta]) -> tuple[str, str]:
        content = thought = ""
        for delta in deltas:
            if delta.kind == "content":
                words, start = delta.text, self._raw.lstrip(BLANK)
                if not self._said and start.startswith(words):  # the parser leaves out the blank space around text
                    words = self._raw[: len(self._raw) - len(start)] + words
                content, self._said = content + words, self._said + words
            elif delta.kind in ("reasoning", "reclassify"):
                # A stray </think>: what was shown was a thought. A stream cannot take it back, a whole answer can.
                self._said = "" if delta.kind == "reclassify" else self._said
                thought, self._thought = thought + delta.text, self._thought + delta.text
        return content, thought

    def _end(self) -> tuple[str, str]:
        if not self._parser:
            return "", ""
        self._parser.close("length" if self._ending in _ENDINGS else "stop")
        content, thought = self._told(self._parser.closing_deltas)
        tail = self._raw[len(self._said) :]
        if self._raw.startswith(self._said) and not tail.strip(BLANK):
            content, self._said = content + tail, self._said + tail
        return content, thought

    def _judged(self) -> list[tuple[dict, list]]:
        """Every call, given or found in the text, and the blocks of content that show it."""
        cut = _ENDINGS.get(self._ending)
        calls = [(call.judged(cut if call is self._calls[-1] else None), call.blocks) for call in self._calls]
        if self._parser:
            parsed = self._parser.close()
            given = [(call["name"], call["args"]) for call, _ in calls]
            # A server that gives a call may leave its markup in the text as well: it runs once.
            found = [call for call in parsed.tool_calls if (call["name"], call["args"]) not in given]
            refused = [{**call, "error": call["error"].replace(CUT, cut or CUT)} for call in parsed.invalid_tool_calls]
            calls += [(call, []) for call in [*found, *refused]]
        silent = self._silence_is_a_call and cut and not self._said.strip() and not self._thought
        if not calls and (self._ending == "tool_calls" or silent):
            reason = f"{cut}; {LOST}" if cut else LOST
            calls.append((invalid_tool_call(name=None, args="", id=uuid.uuid4().hex[:9], error=reason), []))
        return calls


def settled(result: ChatResult, tools: list[dict] | None, **reading: bool) -> ChatResult:
    """The result with its calls judged; `reading` is how `Answer` is to read it."""
    made = [Answer(tools, **reading).whole(generation, result.llm_output) for generation in result.generations]
    return ChatResult(generations=made, llm_output=result.llm_output)


def _chunk(content: str | list = "", **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=content, **fields))
