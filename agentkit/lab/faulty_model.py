"""Chat models with a fault in them: a call torn on its way, an answer cut short, the same call again and again.

`FaultyModel` wraps any chat model, local, scripted or served. What is not at fault comes from the inner model: its
stream, its tools, its profile, its name. The planner's own question is left alone, so that a fault meets the loop.
"""

import contextlib
import json
import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding
from pydantic import ConfigDict, PrivateAttr

from agentkit.events import FaultInjected, emit
from agentkit.loops.history import this_turn
from agentkit.loops.planner import PLAN_TOOL
from agentkit.loops.react_text import parse as read_reply
from agentkit.models.errors import BadField
from agentkit.models.scripted_answer import answer_of
from agentkit.models.tape import Step
from agentkit.models.tool_calls import parse

CUT_REASONS = ("length", "max_tokens")


class Uses:
    """How often a fault may still act; None is always. Shared by all copies of a model or tool."""

    def __init__(self, times: int | None):
        if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
            raise BadField(f"times is {times!r}; allowed is a whole number from 1, or None for always")
        self._left, self._lock = times, threading.Lock()

    def left(self) -> bool:
        """Whether the fault may act once more."""
        return self._left is None or self._left > 0

    def take(self, fault: str, detail: str) -> bool:
        """Use it once, and tell it as an event; False if it is used up."""
        with self._lock:
            if not self.left():
                return False
            self._left = None if self._left is None else self._left - 1
        emit(FaultInjected(fault=fault, detail=detail))
        return True

    def __deepcopy__(self, memo: dict) -> "Uses":
        return self


class FaultyModel(BaseChatModel):
    """A chat model that speaks through `inner`. What this class does not have is asked of `inner`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    inner: BaseChatModel
    profile: Any = None
    shows_tools: bool = False  # it is bound to tools
    _uses: Uses = PrivateAttr()

    def __init__(self, inner: BaseChatModel, times: int | None = None, **fields: Any):
        if not isinstance(inner, BaseChatModel):
            raise BadField(f"model is a {type(inner).__name__}; a fault needs a LangChain chat model")
        kept = {name: getattr(inner, name) for name in BaseChatModel.model_fields if hasattr(inner, name)}
        super().__init__(**{**kept, "inner": inner, **fields})
        self._uses = Uses(times)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or name == "inner":
                raise
        if name == "with_profile":  # of a local model; the copy it makes would have no fault
            changed = self.inner.with_profile
            return lambda **changes: self._around(changed(**changes))
        return getattr(self.inner, name)

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type

    def _around(self, inner: BaseChatModel) -> "FaultyModel":
        return self.model_copy(update={"inner": inner, "profile": getattr(inner, "profile", None)})

    def bind_tools(self, tools: Sequence, **kwargs: Any) -> Runnable:
        """Show tools to the inner model, in its own way; the planner's hidden one without the fault."""
        bound = self.inner.bind_tools(tools, **kwargs)
        if list(tools) == [PLAN_TOOL]:
            return bound
        inner, given = bound, None
        if isinstance(bound, RunnableBinding):
            inner, given = bound.bound, {"kwargs": bound.kwargs, "config": bound.config}
        if isinstance(inner, BaseChatModel):
            faulty = self._around(inner).model_copy(update={"shows_tools": True})
            return faulty if given is None else RunnableBinding(bound=faulty, **given)
        raise BadField(
            f"bind_tools of {type(self.inner).__name__} gives a {type(bound).__name__}; no fault fits around it"
        )

    def _generate(self, messages: list, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(
            generations=[ChatGeneration(message=whole(self._stream(messages, stop, run_manager, **kwargs)))]
        )

    def _stream(
        self, messages: list, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        # The inner model gets no run manager: listeners hear of a chunk when it has passed the fault.
        with contextlib.closing(self._spoken(messages, stop, kwargs)) as chunks:
            for chunk in chunks:
                if run_manager:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    def _spoken(self, messages: list[BaseMessage], stop: Any, options: dict) -> Iterator[ChatGenerationChunk]:
        """What the model says, the fault in it."""
        yield from _chunks(self.inner, messages, stop, options)


class Malformed(FaultyModel):
    """A call loses its last closing brace before the parser reads it. Text and thoughts pass as they come."""

    def _spoken(self, messages: list[BaseMessage], stop: Any, options: dict) -> Iterator[ChatGenerationChunk]:
        calls, last = AIMessageChunk(""), AIMessageChunk("")
        held = ""
        for chunk in _chunks(self.inner, messages, stop, options):
            message = chunk.message
            calls += AIMessageChunk("", tool_call_chunks=message.tool_call_chunks)
            if not self.shows_tools and isinstance(message.content, str):
                # Perhaps an Action Input of the text protocol: a brace may have to go, so text waits to the end.
                held, message = held + message.content, message.model_copy(update={"content": ""})
            update = {"tool_call_chunks": [], "tool_calls": [], "invalid_tool_calls": [], "chunk_position": None}
            last = message.model_copy(update=update)
            yield ChatGenerationChunk(message=last)
        if held:
            yield ChatGenerationChunk(message=AIMessageChunk(self._torn_text(held)))
        said = message_chunk_to_message(calls)
        parts = calls.tool_call_chunks
        if (
            said.tool_calls
            and not said.invalid_tool_calls
            and self._uses.take("malformed", _lost(said.tool_calls[0]["name"]))
        ):
            parts, extra = self._torn(said.tool_calls)
        else:
            extra = {}
        yield ChatGenerationChunk(
            message=AIMessageChunk("", tool_call_chunks=parts, additional_kwargs=extra, chunk_position="last")
        )

    def _torn(self, calls: list[dict]) -> tuple[list, dict]:
        """The calls written as text, torn, and read by the parser of local models, which refuses them."""
        texts = [json.dumps({"name": call["name"], "arguments": call["args"]}, ensure_ascii=False) for call in calls]
        read = parse("\n".join(f"<tool_call>\n{text[:-1]}\n</tool_call>" for text in texts), form="hermes")
        refused = [{**call, "id": own["id"] or call["id"]} for call, own in zip(read.invalid_tool_calls, calls)]
        # The reason in front keeps LangChain from completing the call when it merges chunks.
        parts = [
            tool_call_chunk(name=call["name"], args=f"{call['error']}\n{call['args']}", id=call["id"], index=number)
            for number, call in enumerate(refused)
        ]
        return parts, {"refused_calls": refused}

    def _torn_text(self, text: str) -> str:
        reply = read_reply(text)
        if reply.problem or reply.action is None or not isinstance(reply.input, dict):
            return text
        brace = (
            text.rindex("}", 0, text.index(reply.text) + len(reply.text)) if reply.text in text else text.rindex("}")
        )
        return text[:brace] + text[brace + 1 :] if self._uses.take("malformed", _lost(reply.action)) else text


class Cut(FaultyModel):
    """An answer ends after `tokens` tokens. `limited` is the inner model under that limit; None: it counts words."""

    tokens: int
    limited: Any = None

    def __init__(self, inner: BaseChatModel, tokens: int, times: int | None = None):
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
            raise BadField(f"tokens is {tokens!r}; allowed is a whole number from 1")
        super().__init__(inner, times, tokens=tokens, limited=_limited(inner, tokens))

    def _around(self, inner: BaseChatModel) -> "FaultyModel":
        return super()._around(inner).model_copy(update={"limited": _limited(inner, self.tokens)})

    def _spoken(self, messages: list[BaseMessage], stop: Any, options: dict) -> Iterator[ChatGenerationChunk]:
        if not self._uses.left():
            yield from super()._spoken(messages, stop, options)
            return
        if self.limited is None:
            said = whole(_chunks(self.inner, messages, stop, options))
            answer = answer_of(Step(said, fault="cut", after=self.tokens), messages, None, "", 0, _new_id)
            chunks = _as_chunks(answer.message())
        else:
            chunks = _chunks(self.limited, messages, stop, options)
        for chunk in chunks:
            told = chunk.message.response_metadata
            if any(told.get(key) in CUT_REASONS for key in ("finish_reason", "stop_reason", "done_reason")):
                self._uses.take("cut", f"the answer ended after {self.tokens} tokens")
            yield chunk


class Repeating(FaultyModel):
    """Once the model has called a tool, it makes the same call for every further answer of the turn."""

    def _spoken(self, messages: list[BaseMessage], stop: Any, options: dict) -> Iterator[ChatGenerationChunk]:
        again = self._again(messages)
        if again is None or not self._uses.take("repeats", "the model's last call was made again"):
            yield from super()._spoken(messages, stop, options)
        else:
            yield from _as_chunks(again)

    def _again(self, messages: list[BaseMessage]) -> AIMessage | None:
        spoken = [m for m in this_turn(messages) if isinstance(m, AIMessage)]
        if last := next((m for m in reversed(spoken) if m.tool_calls), None):
            calls = [{**call, "id": _new_id()} for call in last.tool_calls]
            return AIMessage(last.content, tool_calls=calls, response_metadata={"finish_reason": "stop"})
        # The text protocol: results are messages of the user there, and the conversation is one turn.
        spoken = [m for m in messages if isinstance(m, AIMessage)]
        if spoken and read_reply(str(spoken[-1].text)).action:
            return AIMessage(spoken[-1].text, response_metadata={"finish_reason": "stop"})
        return None


def whole(chunks: Iterator[ChatGenerationChunk]) -> AIMessage:
    """The message that chunks add up to."""
    total = AIMessageChunk("")
    for chunk in chunks:
        total += chunk.message
    return message_chunk_to_message(total)


def _chunks(model: BaseChatModel, messages: list, stop: Any, options: dict) -> Iterator[ChatGenerationChunk]:
    """A model's answer as chunks, in one piece if it cannot stream."""
    if type(model)._stream is not BaseChatModel._stream:
        yield from model._stream(messages, stop, None, **options)
    else:
        yield from _as_chunks(model._generate(messages, stop, None, **options).generations[0].message)


def _as_chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """A message as one chunk that becomes it again."""
    calls = [(c, json.dumps(c["args"], ensure_ascii=False)) for c in message.tool_calls]
    calls += [(c, c["args"] or "") for c in message.invalid_tool_calls]
    parts = [tool_call_chunk(name=c["name"], args=args, id=c["id"], index=n) for n, (c, args) in enumerate(calls)]
    fields = ("content", "additional_kwargs", "response_metadata", "usage_metadata", "id", "name")
    kept = {field: getattr(message, field) for field in fields}
    yield ChatGenerationChunk(message=AIMessageChunk(**kept, tool_call_chunks=parts, chunk_position="last"))


def _limited(model: BaseChatModel, tokens: int) -> BaseChatModel | None:
    """The same model with a limit of tokens, in its own field for it."""
    if hasattr(model, "with_profile"):
        return model.with_profile(max_tokens=tokens)
    field = next((name for name in ("max_tokens", "num_predict") if name in type(model).model_fields), None)
    return field and model.model_copy(update={field: tokens})


def _lost(name: str) -> str:
    return f"the call of {name} lost its last closing brace"


def _new_id() -> str:
    return uuid.uuid4().hex[:9]
