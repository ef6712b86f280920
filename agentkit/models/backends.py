"""Models that other programs serve: OpenAI, Anthropic, Ollama, and any OpenAI-compatible server, by one string.

| profile            | http(s):// server | openai: | anthropic: | ollama: |
|--------------------|-------------------|---------|------------|---------|
| temperature, top_p | yes               | yes     | yes        | yes     |
| max_tokens         | yes               | yes     | yes        | yes     |
| seed               | yes               | yes     | -          | yes     |
| top_k              | yes               | -       | yes        | yes     |
| min_p              | yes               | -       | -          | -       |
| repetition penalty and window | yes    | -       | -          | yes     |

Not carried over to any of them: thinking budget and nudge, prefix cache, slots and guard, constrained decoding. Tokens
come without probabilities. A thought that a server reports apart lands in `additional_kwargs["reasoning_content"]`.
Calls are held to the rule of local models (`agentkit.models.guarded`); in a stream they come whole, at its end.
"""

import contextlib
import functools
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentkit.models.errors import AgentkitError, ContextFull, ModelUnavailable
from agentkit.models.profile import GenerationProfile

if TYPE_CHECKING:
    import httpx2
    from langchain_core.language_models import BaseChatModel

PROBE_SECONDS = 5.0
SERVER_KEY = "AGENTKIT_SERVER_KEY"


def is_backend(name: str) -> bool:
    """Whether a model name is one of the strings that `connect` takes."""
    return name.lower().startswith(("openai:", "anthropic:", "ollama:", "http://", "https://"))


def connect(spec: str, profile: GenerationProfile) -> "BaseChatModel":
    """The chat model behind `openai:M`, `anthropic:M`, `ollama:M` or `http://host:port/v1[#M]`, set to `profile`.

    A server is asked at once which models it has. Raises `ModelUnavailable` where the package, the key, the model's
    name or the server is missing; the same while it answers.
    """
    kind, _, model = spec.partition(":")
    if kind.lower() in ("http", "https"):
        return _server(spec, profile)
    if not model.strip():
        raise ModelUnavailable(f"{spec} names no model; write it as {kind}:MODEL")
    return {"openai": _openai, "anthropic": _anthropic, "ollama": _ollama}[kind.lower()](model.strip(), profile)


def _openai(model: str, profile: GenerationProfile) -> "BaseChatModel":
    key = _key("OPENAI_API_KEY", f"openai:{model}")
    base = _package("langchain_openai", "openai").ChatOpenAI
    return _plain(base, f"openai:{model}", "OPENAI_API_KEY")(
        model=model,
        api_key=key,
        temperature=profile.temperature,
        top_p=_unless(1.0, profile.top_p),
        max_tokens=profile.max_tokens,
        seed=profile.seed,
        stream_usage=True,
    )


def _anthropic(model: str, profile: GenerationProfile) -> "BaseChatModel":
    key = _key("ANTHROPIC_API_KEY", f"anthropic:{model}")
    base = _package("langchain_anthropic", "anthropic").ChatAnthropic
    return _plain(base, f"anthropic:{model}", "ANTHROPIC_API_KEY", markup=False)(
        model=model,
        api_key=key,
        temperature=min(profile.temperature, 1.0),
        top_p=_unless(1.0, profile.top_p),
        top_k=_unless(0, profile.top_k),
        max_tokens=profile.max_tokens,
    )


def _ollama(model: str, profile: GenerationProfile) -> "BaseChatModel":
    base = _package("langchain_ollama", "ollama").ChatOllama
    try:
        return _plain(base, f"ollama:{model}")(
            model=model,
            temperature=profile.temperature,
            top_p=profile.top_p,
            top_k=profile.top_k,
            seed=profile.seed,
            num_predict=profile.max_tokens,
            repeat_penalty=profile.repetition_penalty,
            repeat_last_n=profile.repetition_window,
            validate_model_on_init=True,
        )
    except (ValueError, OSError) as error:
        text = str(error)
        if "not found in Ollama" in text:
            raise ModelUnavailable(f"Ollama has no model {model}; get it with: ollama pull {model}") from None
        where = os.environ.get("OLLAMA_HOST", "http://127.0.0.1:11434")
        raise ModelUnavailable(f"ollama:{model}: nothing answers at {where}; start it with: ollama serve") from None


def _server(spec: str, profile: GenerationProfile) -> "BaseChatModel":
    base_url, model = _address(spec)
    # OPENAI_API_KEY is for OpenAI alone: whoever answers at another address must not get it.
    key = os.environ.get(SERVER_KEY) or "none"
    answer = _probe(base_url, key)
    model = model or _only_model(base_url, answer)
    base = _package("langchain_openai.chat_models.base", "openai").BaseChatOpenAI
    # The penalty goes out under mlx-lm's and vLLM's name and under LM Studio's and llama.cpp's.
    extra = {
        "top_k": profile.top_k,
        "min_p": profile.min_p,
        "repetition_penalty": profile.repetition_penalty,
        "repetition_context_size": profile.repetition_window,
        "repeat_penalty": profile.repetition_penalty,
        "repeat_last_n": profile.repetition_window,
    }
    return _plain(base, base_url, SERVER_KEY, open_thoughts=True)(
        model=model,
        base_url=base_url,
        api_key=key,
        temperature=profile.temperature,
        top_p=profile.top_p,
        max_tokens=profile.max_tokens,
        seed=profile.seed,
        extra_body=extra,
        stream_usage=True,
        use_responses_api=False,
        max_retries=0,
    )


def _address(spec: str) -> tuple[str, str]:
    """Base URL and model name ("" if not given) of `http://host:port/v1#MODEL`; a missing path is /v1."""
    try:
        parts = urlsplit(spec)
        if not parts.hostname or parts.query or not (parts.port is None or parts.port > 0):
            raise ValueError
    except ValueError:
        raise ModelUnavailable(
            f"{spec} is no server address; write it as http://host:port/v1 or http://host:port/v1#MODEL"
        ) from None
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}", parts.fragment


def _probe(base_url: str, key: str) -> "httpx2.Response":
    """The server's answer at /models; raises `ModelUnavailable` if none comes, or if it wants another key."""
    import httpx2

    try:
        answer = httpx2.get(f"{base_url}/models", headers={"Authorization": f"Bearer {key}"}, timeout=PROBE_SECONDS)
    except httpx2.TimeoutException:
        raise ModelUnavailable(f"{base_url} did not answer within {PROBE_SECONDS:g} seconds") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise ModelUnavailable(f"nothing answers at {base_url} ({error}); is the server running?") from None
    if answer.status_code in (401, 403):
        raise ModelUnavailable(f"{base_url} wants a key; set {SERVER_KEY}")
    return answer


def _only_model(base_url: str, answer: "httpx2.Response") -> str:
    """The name of the one model that a server lists; several or none must be named."""
    try:
        served = [str(model["id"]) for model in answer.json()["data"]] if answer.status_code == 200 else None
    except (ValueError, KeyError, TypeError):
        served = None
    if served is None:
        raise ModelUnavailable(
            f"{base_url}/models answers {answer.status_code} without a list of models: "
            f"not an OpenAI-compatible server? If it is one, name the model: {base_url}#NAME"
        )
    if len(served) != 1:
        raise ModelUnavailable(
            f"{base_url} lists {len(served)} models; name one as {base_url}#NAME"
            + (f": {', '.join(served[:8])}" if served else "")
        )
    return served[0]


def _package(module: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModelUnavailable(f"{extra} models need {error.name}: pip install 'agentkit[{extra}]'") from None


def _key(variable: str, spec: str) -> str:
    if key := os.environ.get(variable, "").strip():
        return key
    raise ModelUnavailable(f"{spec} needs a key in the environment variable {variable}; the model 'bundled' needs none")


def _unless(default: float, value: float) -> float | None:
    """None for a value that changes nothing: some hosted models refuse the very name of the setting."""
    return None if value == default else value


@functools.cache
def _plain(base: type, where: str, key: str | None = None, **reading: bool) -> type:
    """`base` with sound calls only (`reading`: see `guarded.Answer`), failures in one line, and thoughts kept."""
    from agentkit.models.guarded import Answer, settled
    from agentkit.models.messages import sendable

    class Plain(base):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            with _told(where, key):
                return settled(super()._generate(sendable(messages), stop, **kwargs), kwargs.get("tools"), **reading)

        async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
            with _told(where, key):
                result = await super()._agenerate(sendable(messages), stop, **kwargs)
                return settled(result, kwargs.get("tools"), **reading)

        # The base gets no run manager: it would tell listeners of chunks before they were judged.
        def _stream(self, messages, stop=None, run_manager=None, **kwargs):
            with _told(where, key):
                stream = super()._stream(sendable(messages), stop, **kwargs)
                for chunk in Answer(kwargs.get("tools"), **reading).chunks(stream):
                    if run_manager:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

        async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
            with _told(where, key):
                stream = super()._astream(sendable(messages), stop, **kwargs)
                async with contextlib.aclosing(Answer(kwargs.get("tools"), **reading).achunks(stream)) as chunks:
                    async for chunk in chunks:
                        if run_manager:
                            await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        yield chunk

        def _create_chat_result(self, response, *args, **kwargs):
            choices = getattr(response, "choices", None) or []
            calls = [_take_calls(choice.message) for choice in choices]
            result = super()._create_chat_result(response, *args, **kwargs)
            for choice, raw, generation in zip(choices, calls, result.generations):
                generation.message.invalid_tool_calls += raw
                _keep_thought(choice.message.model_dump(), generation.message)
            return result

        def _convert_chunk_to_generation_chunk(self, chunk, *args, **kwargs):
            said = chunk["choices"][0].get("delta") if chunk.get("choices") else None
            for call in (said or {}).get("tool_calls") or []:
                if call.get("function"):
                    call["function"]["arguments"] = _text(call["function"].get("arguments"))
            made = super()._convert_chunk_to_generation_chunk(chunk, *args, **kwargs)
            if made:
                _keep_thought(said, made.message)
            return made

    Plain.__name__ = Plain.__qualname__ = base.__name__
    return Plain


def _take_calls(said: Any) -> list[dict]:
    """Takes the calls out of OpenAI's message, as text: LangChain reads [] as {} and fails on 5 or on a string."""
    from langchain_core.messages.tool import invalid_tool_call

    calls = getattr(said, "tool_calls", None) or []
    if not all(getattr(call, "function", None) for call in calls):
        return []
    said.tool_calls = None
    return [
        invalid_tool_call(name=call.function.name, args=_text(call.function.arguments), id=call.id) for call in calls
    ]


def _text(arguments: Any) -> str:
    # Text by the protocol; a few servers send the object itself.
    return arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments is not None else ""


def _keep_thought(said: dict | None, message: Any) -> None:
    if thought := said and (said.get("reasoning_content") or said.get("reasoning")):
        message.additional_kwargs.setdefault("reasoning_content", thought)


@contextlib.contextmanager
def _told(where: str, key: str | None) -> Iterator[None]:
    """Turns what client libraries raise into one line; their own exception stays as the cause."""
    from langchain_core.exceptions import ContextOverflowError

    try:
        yield
    except (AgentkitError, GeneratorExit):
        raise
    except ContextOverflowError as error:
        raise ContextFull(f"{where}: {_first_line(error)}") from error
    except Exception as error:
        if (reason := _reason(error, key)) is None:
            raise
        raise ModelUnavailable(f"{where} {reason}") from error


def _reason(error: Exception, key: str | None) -> str | None:
    status, kinds = getattr(error, "status_code", None), {kind.__name__ for kind in type(error).__mro__}
    if kinds & {"ModelTimeoutError", "APITimeoutError", "TimeoutException"}:
        return "did not answer in time"
    if kinds & {
        "ModelConnectionError",
        "APIConnectionError",
        "ConnectError",
        "ConnectionError",
        "RemoteProtocolError",
        "ReadError",
    }:
        return "cannot be reached: no network, or the server is not running"
    if status in (401, 403) and key:
        return f"refused the key in {key}"
    if isinstance(status, int):
        return f"answered {status}: {_first_line(error)}"
    if isinstance(error, ValueError) and "is not supported for" in str(error):
        return f"refused a setting: {_first_line(error)} Set it to its default with --profile (temperature=1)"
    return None


def _first_line(error: Exception) -> str:
    body = getattr(error, "body", None)
    body = body.get("error", body) if isinstance(body, dict) else body
    said = body.get("message") if isinstance(body, dict) else body
    text = str(said or getattr(error, "message", None) or error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__
