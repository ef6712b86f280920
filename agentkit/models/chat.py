"""`LocalChatModel`: a local MLX model as a LangChain chat model."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, PrivateAttr

from agentkit import cancel, events
from agentkit.models.errors import BadField
from agentkit.models.messages import as_dicts, disarmed
from agentkit.models.owner import owner
from agentkit.models.profile import GenerationProfile
from agentkit.models.stop_text import StopText
from agentkit.models.token_events import TokenTeller
from agentkit.models.tool_calls import CUT, ToolCallParser, form_of

_engines: dict[tuple, Any] = {}
_loading = threading.Lock()


def _engine(folder: Path, kv_bits: int | None):
    """The process's one engine for a folder; loaded on the owner thread at the first call."""
    with _loading:
        key = (str(Path(folder).resolve()), kv_bits)
        if key not in _engines:
            def load():
                from agentkit.models.engine import Engine

                return Engine(folder, kv_bits=kv_bits)

            engine = owner().call(load)
            owner().at_close(engine.release)
            _engines[key] = engine
        return _engines[key]


class LocalChatModel(BaseChatModel):
    """A model in MLX form on this machine. Get one with `load_model(name)` or `LocalChatModel.load(folder)`.

    Emits `events.Token` and `events.PrefixReuse` while it generates. Stops within one token when the caller closes the
    stream or the run is cancelled (`agentkit.cancel`); the message then has finish_reason "cancel".
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str = "local"
    profile: GenerationProfile = GenerationProfile()
    thinking: bool = True
    _engine: Any = PrivateAttr()

    @classmethod
    def load(cls, folder: Path | str, *, name: str = "local", profile: GenerationProfile | None = None,
             kv_bits: int | None = None) -> "LocalChatModel":
        """Open an mlx-lm model folder; a second object on the same folder shares its weights and its prefix cache.

        Raises BadField where `kv_bits` cannot work with the model's layers.
        """
        model = cls(name=name, profile=profile or GenerationProfile())
        model._engine = _engine(Path(folder), kv_bits)
        return model

    @property
    def engine(self):
        """The engine behind this model; use it through `agentkit.models.owner.owner()` only."""
        return self._engine

    @property
    def form(self) -> str:
        """How this model writes calls, read from its chat template."""
        return form_of(self._engine.tokenizer.chat_template or "")

    @property
    def _llm_type(self) -> str:
        return "agentkit-mlx"

    @property
    def _identifying_params(self) -> dict:
        return {"name": self.name, "profile": str(self.profile)}

    def with_profile(self, **changes) -> "LocalChatModel":
        """The same loaded model under a changed profile; BadField names a bad value."""
        return self.model_copy(update={"profile": self.profile.but(**changes)})

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, by this model's own tokenizer."""
        return len(self._engine.tokenizer.encode(text, add_special_tokens=False))

    def get_token_ids(self, text: str) -> list[int]:
        """Token ids of a text (LangChain's own hook for counting)."""
        return self._engine.tokenizer.encode(text, add_special_tokens=False)

    def bind_tools(self, tools: Sequence, *, tool_choice: str | dict | bool | None = None, **kwargs: Any) -> Runnable:
        """Show tools to the model. `tool_choice`: "auto", "none", "any"/"required"/True, or a tool's name.

        A choice other than auto and none is enforced by constrained decoding. Raises BadField for an unknown choice.
        """
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        choice = _choice(tool_choice, [schema["function"]["name"] for schema in schemas])
        return self.bind(tools=schemas, tool_choice=choice, **kwargs)

    def prompt_tokens(self, messages: list[BaseMessage], tools: list[dict] | None = None, generation: bool = True) -> list[int]:
        """Token ids of the prompt that these messages and tools make, by the model's own chat template."""
        tokenizer = self._engine.tokenizer
        control = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
        rendered = tokenizer.apply_chat_template(disarmed(as_dicts(messages), control), tools=tools or None,
                                                 add_generation_prompt=generation, enable_thinking=self.thinking)
        return list(rendered)

    def _stream(self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager=None,
                **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        call = _Call(self, messages, stop, kwargs)
        try:
            for chunk in call.chunks():
                if run_manager and chunk.text:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        finally:
            call.close()

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs) -> AsyncIterator[ChatGenerationChunk]:
        # The default would leave a cancelled stream to the garbage collector; here it stops within one token.
        call = _Call(self, messages, stop, kwargs)
        chunks, done = call.chunks(), object()
        try:
            while (chunk := await asyncio.to_thread(next, chunks, done)) is not done:
                if run_manager and chunk.text:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        finally:
            call.close()

    def _generate(self, messages, stop=None, run_manager=None, **kwargs) -> ChatResult:
        call = _Call(self, messages, stop, kwargs)
        for _ in call.chunks():
            pass
        return ChatResult(generations=[ChatGeneration(message=call.message())])


def _choice(choice, names: list[str]) -> str | None:
    """LangChain's and OpenAI's ways to say it, as None (auto), "none", "required" or a tool's name."""
    wanted = choice
    if isinstance(choice, dict):
        inner = choice.get("function")
        wanted = (inner if isinstance(inner, dict) else choice).get("name") or choice.get("type")
    if wanted is None and choice is None or wanted is False or wanted == "auto":
        return None
    if wanted is True or wanted in ("any", "required"):
        return "required"
    if isinstance(wanted, str) and (wanted == "none" or wanted in names):
        return wanted
    raise BadField(f"tool_choice is {choice!r}; allowed are auto, none, required or one of {', '.join(names)}")


class _Call:
    """One generation for one set of messages: from prompt to chunks, and the whole message at the end."""

    def __init__(self, model: LocalChatModel, messages, stop, options: dict):
        self.model, self.engine = model, model._engine
        changes = {k: v for k, v in options.items() if k in GenerationProfile.ranges() and v is not None}
        self.profile = model.profile.but(**changes)
        choice = options.get("tool_choice")
        self.tools = options.get("tools") if choice != "none" else None
        self.tokens = model.prompt_tokens(messages, self.tools)
        self.grammar = self._grammar(choice)
        self.boundary = self._boundary(messages)
        self.cancel = cancel.current()
        self.closed = threading.Event()
        self.stop = StopText([stop] if isinstance(stop, str) else stop or [])
        self.finished = self.parsed = None

    def _grammar(self, choice: str | None) -> str | None:
        if not self.tools or not (self.profile.constrained or choice):
            return None
        if self.model.form != "hermes":
            raise BadField(f"constrained decoding writes calls in the hermes form; this model uses {self.model.form}. Set constrained=false and leave tool_choice on auto")
        from agentkit.models.constrain import ToolChoice, grammar_for, own_tags

        mode = ToolChoice("auto") if choice is None else ToolChoice("required") if choice == "required" else ToolChoice("named", choice)
        tokenizer = self.engine.tokenizer
        return grammar_for(self.tools, mode, thinking=tokenizer.has_thinking, tags=own_tags(tokenizer))

    def _boundary(self, messages) -> int | None:
        """Where the last message begins: a cache that cannot rewind is kept from there, so that an edit finds it."""
        if self.engine.rewinds or len(messages) < 2:
            return None
        from agentkit.models.prefix_cache import shared_length

        try:
            before = self.model.prompt_tokens(messages[:-1], self.tools, generation=False)
        except Exception:  # noqa: BLE001 - templates raise their own errors for histories they find odd
            return None
        return shared_length(before, self.tokens)

    def close(self) -> None:
        """Stop the engine before its next token."""
        self.closed.set()

    def chunks(self) -> Iterator[ChatGenerationChunk]:
        from agentkit.models.engine import Finished, Piece, Prefilled, Request

        request = Request(self.tokens, self.profile, self.grammar, self.boundary, _Either(self.cancel, self.closed))
        opened = self.engine.opens_thought(self.tokens)
        parser = ToolCallParser(self.model.form, tools=self.tools, thinking=opened)
        sent, teller = _Sent(self.model.name), TokenTeller()
        stream = owner().stream(lambda _: self._until_stop(self.engine.stream(request)), self.closed)
        for item, text in stream:
            if isinstance(item, Prefilled):
                events.emit(self._reuse(item))
            elif isinstance(item, Piece):
                before = parser.state
                deltas = parser.feed(text) if text else []
                teller.saw(item, before, parser)
                yield from sent.deltas(deltas)
            elif isinstance(item, Finished):
                self.finished = item
                break  # the engine still tidies up; the answer need not wait for it
        teller.flush()
        if self.finished is None:
            return
        reason = "stop" if self.stop.hit else self.finished.reason
        parser.feed(self.stop.rest())
        self.parsed = parser.close("length" if reason in ("length", "cancel") else "stop")
        if reason == "cancel":
            for call in self.parsed.invalid_tool_calls:
                call["error"] = call["error"].replace(CUT, "cut because the run was stopped")
        yield from sent.rest(self.parsed)
        yield sent.last(self.parsed, self._usage(), self._metadata(reason))

    def _until_stop(self, items: Iterator) -> Iterator[tuple[Any, str]]:
        """Each item with the text that is certain by now. On the owner thread: nothing is generated behind a stop sequence."""
        from agentkit.models.engine import Piece

        with contextlib.closing(items):
            for item in items:
                text = self.stop.feed(item.text) if isinstance(item, Piece) else ""
                if self.stop.hit:
                    self.closed.set()
                yield item, text

    def message(self) -> AIMessage:
        """The whole answer; refused calls carry their reasons."""
        p, reason = self.parsed, "stop" if self.stop.hit else self.finished.reason
        return AIMessage(content=p.content, tool_calls=p.tool_calls, invalid_tool_calls=p.invalid_tool_calls,
                         additional_kwargs=_extra(p), usage_metadata=self._usage(), response_metadata=self._metadata(reason) | {"model_name": self.model.name})

    def _usage(self) -> dict:
        f = self.finished
        return {"input_tokens": f.prompt, "output_tokens": f.generated, "total_tokens": f.prompt + f.generated,
                "input_token_details": {"cache_read": f.reused}, "output_token_details": {"reasoning": f.thinking}}

    def _metadata(self, reason: str) -> dict:
        f = self.finished
        rate = f.generated / f.decode_seconds if f.decode_seconds else 0.0
        return {"finish_reason": reason, "tokens_per_second": round(rate, 2), "prefill_seconds": round(f.prefill_seconds, 4),
                "forced_tokens": f.forced, "thinking_tokens": f.thinking, "thinking_budget": self.profile.thinking_budget,
                "tokens_after_forced_close": f.after_forced_close}

    def _reuse(self, item) -> events.PrefixReuse:
        r, words = item.reuse, None
        if r.difference is not None:
            cached, now = (self.engine.tokenizer.decode([t]) for t in (r.cached_token, r.prompt_token))
            words = f"token {r.difference}: the cache holds {cached!r}, the prompt has {now!r}"
        return events.PrefixReuse(prompt=r.prompt, reused=r.reused, reason=r.reason, first_difference=words,
                                  seconds=item.seconds, slow_hit=item.slow_hit)


class _Either:
    """Reads as set when any of several events is."""

    def __init__(self, *events_: threading.Event):
        self._events = events_

    def is_set(self) -> bool:
        return any(event.is_set() for event in self._events)


class _Sent:
    """Turns parser deltas into chunks and remembers what went out, so that the end adds only what is missing."""

    def __init__(self, model_name: str):
        self.model_name = model_name
        self.content = self.reasoning = 0
        self.calls = self.refused = 0

    def deltas(self, deltas) -> Iterator[ChatGenerationChunk]:
        for delta in deltas:
            if delta.kind == "content":
                self.content += len(delta.text)
                yield _chunk(content=delta.text)
            elif delta.kind == "reasoning":
                self.reasoning += len(delta.text)
                yield _chunk(content="", additional_kwargs={"reasoning_content": delta.text})
            elif delta.kind == "reclassify":
                # A stray </think>: what was shown as content was a thought. A stream cannot take text back; the message
                # of `invoke` is right, and whoever shows the stream finds the thought here.
                self.reasoning, self.content = self.reasoning + len(delta.text), 0
                yield _chunk(content="", additional_kwargs={"reasoning_content": delta.text})
            elif delta.kind == "call":
                yield self._call(delta.call)

    def _call(self, call) -> ChatGenerationChunk:
        self.calls += 1
        return _chunk(content="", tool_call_chunks=[{"name": call["name"], "args": json.dumps(call["args"], ensure_ascii=False),
                                                     "id": call["id"], "index": self.calls + self.refused - 1, "type": "tool_call_chunk"}])

    def rest(self, parsed) -> Iterator[ChatGenerationChunk]:
        if len(parsed.reasoning) > self.reasoning:
            yield _chunk(content="", additional_kwargs={"reasoning_content": parsed.reasoning[self.reasoning:]})
        if len(parsed.content) > self.content:
            yield _chunk(content=parsed.content[self.content:])
        for call in parsed.tool_calls[self.calls:]:
            yield self._call(call)

    def last(self, parsed, usage: dict, metadata: dict) -> ChatGenerationChunk:
        refused = []
        for call in parsed.invalid_tool_calls:
            # LangChain completes cut JSON when it merges chunks and would run the call: the reason in front prevents it.
            refused.append({"name": call["name"], "args": f"{call['error']}\n{call['args']}", "id": call["id"],
                            "index": self.calls + self.refused, "type": "tool_call_chunk"})
            self.refused += 1
        return ChatGenerationChunk(message=AIMessageChunk(
            content="", tool_call_chunks=refused, additional_kwargs={k: v for k, v in _extra(parsed).items() if k == "refused_calls"},
            usage_metadata=usage, response_metadata=metadata | {"model_name": self.model_name}, chunk_position="last"))


def _chunk(**fields) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(**fields))


def _extra(parsed) -> dict:
    extra = {"reasoning_content": parsed.reasoning} if parsed.reasoning else {}
    return extra | ({"refused_calls": parsed.invalid_tool_calls} if parsed.invalid_tool_calls else {})
