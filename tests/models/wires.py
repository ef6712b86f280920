"""A server in the test's process that speaks as OpenAI, Anthropic and Ollama do, and says what the test tells it."""

import contextlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass

from agentkit.models import load_model
from agentkit.models.profile import GenerationProfile
from tests.served import served

_numbers = itertools.count()
CALCULATOR = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Compute an expression.",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    },
}


@dataclass(frozen=True)
class Said:
    """One answer: text, then calls as (name, arguments' text), then how it ended, in OpenAI's words."""

    text: str = ""
    calls: tuple = ()
    ending: str = "stop"

    def parts(self) -> Iterator[tuple[int, str, str, str]]:
        """Number, id, name and arguments of each call."""
        for number, (name, args) in enumerate(self.calls):
            yield number, f"call_{number}", name, args


def pieces(text: str, size: int = 3) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def events(*data, named: bool = False) -> bytes:
    """Server-sent events, as a whole."""
    head = "event: {type}\ndata: " if named else "data: "
    return "".join(f"{head.format(**one) if named else head}{json.dumps(one)}\n\n" for one in data).encode()


def openai_chunk(delta: dict, ending: str | None = None) -> dict:
    choice = {"index": 0, "delta": delta, "finish_reason": ending}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def openai_chat(said: Said, sent: dict) -> dict | bytes:
    if not sent.get("stream"):
        calls = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": args}}
            for _, id, name, args in said.parts()
        ]
        message = {"role": "assistant", "content": said.text or None} | ({"tool_calls": calls} if calls else {})
        choice = {"index": 0, "finish_reason": said.ending, "message": message}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces(said.text))]
    for number, id, name, args in said.parts():
        head = {"index": number, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        rest = [{"index": number, "function": {"arguments": piece}} for piece in pieces(args)]
        deltas += [{"tool_calls": [part]} for part in (head, *rest)]
    return events(*map(openai_chunk, deltas), openai_chunk({}, said.ending)) + b"data: [DONE]\n\n"


def openai_responses(said: Said, sent: dict) -> dict | bytes:
    cut = {"incomplete_details": {"reason": "max_output_tokens"}} if said.ending == "length" else {}
    status = "incomplete" if cut else "completed"
    text = {"type": "output_text", "text": said.text, "annotations": []}
    message = {"id": "msg", "type": "message", "role": "assistant", "status": status, "content": [text]}
    calls = [
        {"type": "function_call", "id": f"fc_{n}", "call_id": id, "name": name, "arguments": args, "status": status}
        for n, id, name, args in said.parts()
    ]
    output = ([message] if said.text else []) + calls
    whole = {
        "id": f"resp_{next(_numbers)}",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": status,
        "output": output,
        **cut,
    }
    whole |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    if not sent.get("stream"):
        return whole
    told = [{"type": "response.created", "response": {**whole, "output": []}}]
    for number, item in enumerate(output):
        place = {"output_index": number, "item_id": item["id"]}
        empty = {**item, "arguments": ""} if "arguments" in item else {**item, "content": []}
        told.append({"type": "response.output_item.added", "output_index": number, "item": empty})
        kind = "function_call_arguments" if "arguments" in item else "output_text"
        place |= {} if "arguments" in item else {"content_index": 0}
        told += [
            {"type": f"response.{kind}.delta", "delta": d, **place} for d in pieces(item.get("arguments", said.text))
        ]
    told.append({"type": f"response.{status}", "response": whole})
    return events(*({**event, "sequence_number": number} for number, event in enumerate(told)), named=True)


def anthropic_messages(said: Said, sent: dict) -> dict | bytes:
    ending = {"stop": "tool_use" if said.calls else "end_turn", "length": "max_tokens"}[said.ending]
    whole = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    blocks = [{"type": "text", "text": said.text}] if said.text else []
    blocks += [
        {"type": "tool_use", "id": id, "name": name, "input": _object(args)} for _, id, name, args in said.parts()
    ]
    if not sent.get("stream"):
        return {**whole, "stop_reason": ending, "usage": usage, "content": blocks}
    told = [{"type": "message_start", "message": {**whole, "stop_reason": None, "usage": usage, "content": []}}]
    texts = ([said.text] if said.text else []) + [args for _, args in said.calls]
    for number, (block, text) in enumerate(zip(blocks, texts)):
        call = block["type"] == "tool_use"
        empty = {**block, "input": {}} if call else {**block, "text": ""}
        told.append({"type": "content_block_start", "index": number, "content_block": empty})
        kind, key = ("input_json_delta", "partial_json") if call else ("text_delta", "text")
        for piece in pieces(text):
            told.append({"type": "content_block_delta", "index": number, "delta": {"type": kind, key: piece}})
        told.append({"type": "content_block_stop", "index": number})
    delta = {"stop_reason": ending, "stop_sequence": None}
    return events(
        *told, {"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}, named=True
    )


def ollama_chat(said: Said, sent: dict) -> bytes:
    lines = [{"content": piece} for piece in pieces(said.text)]
    for _, _, name, args in said.parts():
        lines.append({"content": "", "tool_calls": [{"function": {"name": name, "arguments": _object(args)}}]})
    told = [{"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": False, "message": line} for line in lines]
    told.append({"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": True, "done_reason": said.ending})
    told[-1]["message"] = {"content": ""}
    return "".join(
        json.dumps({**one, "message": {"role": "assistant", **one["message"]}}) + "\n" for one in told
    ).encode()


def _object(args: str) -> dict:
    """What a server that parses calls itself makes of torn text: some object."""
    try:
        return json.loads(args)
    except ValueError:
        return {}


WIRES = {
    "http": ("/v1/chat/completions", openai_chat),
    "openai": ("/v1/chat/completions", openai_chat),
    "responses": ("/v1/responses", openai_responses),
    "anthropic": ("/v1/messages", anthropic_messages),
    "ollama": ("/api/chat", ollama_chat),
}


@contextlib.contextmanager
def speaking(kind: str, monkeypatch, *answers, tools: tuple = (CALCULATOR,)):
    """A model of that kind with `tools` bound, whose server gives these answers in turn (the last for ever).

    An answer is a Said or a function of (handler, request). Yields (model, requests).
    """
    path, wire = WIRES[kind]
    requests: list[dict] = []

    def answer(handler, sent):
        said = answers[min(len(requests), len(answers) - 1)]
        requests.append(sent)
        return wire(said, sent) if isinstance(said, Said) else said(handler, sent)

    listed = {"/v1/models": {"data": [{"id": "m"}]}, "/api/tags": {"models": [{"model": "m:latest"}]}}
    with served({path: answer, **listed}) as url:
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("OLLAMA_HOST", url)
        name = {"http": f"{url}/v1", "openai": "openai:gpt-4o", "responses": "openai:codex-mini"}.get(kind, f"{kind}:m")
        model = load_model(name, profile=GenerationProfile(max_tokens=64))
        yield model.bind_tools(list(tools)) if tools else model, requests
