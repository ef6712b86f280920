import asyncio
import contextlib
import http.server
import json
import sys
import threading
import time

import pytest
from langchain_core.messages import AIMessage

from agentkit.models import backends, load_model
from agentkit.models.bundled import bundled_folder
from agentkit.models.errors import ModelUnavailable
from agentkit.models.profile import GenerationProfile
from agentkit.models.server import free_port, serving

PROFILE = GenerationProfile(
    temperature=0, top_p=0.9, top_k=7, min_p=0.05, max_tokens=8, repetition_penalty=1.2, repetition_window=33, seed=5
)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def server():
    """Address of a real mlx_lm.server on the bundled model."""
    with serving(bundled_folder()) as url:
        yield url


def test_a_real_server_answers_streams_and_takes_tools(server):
    # The server's repetition penalty sees only what its prompt cache lacks, so the second answer would be another one.
    model = load_model(server, profile=PROFILE.but(repetition_penalty=1))
    answer = model.invoke("Say hello.")
    assert isinstance(answer, AIMessage) and answer.text and 0 < answer.usage_metadata["output_tokens"] <= 8
    chunks = list(model.stream("Say hello."))
    assert "".join(chunk.text for chunk in chunks) == answer.text and len(chunks) > 2
    assert (
        sum((c.usage_metadata or {}).get("output_tokens", 0) for c in chunks) == answer.usage_metadata["output_tokens"]
    )
    bound = model.bind_tools([WEATHER]).invoke("What is the weather in Oslo?")
    assert (
        bound.usage_metadata["input_tokens"] > answer.usage_metadata["input_tokens"] + 20
    )  # the tool reached the prompt
    assert asyncio.run(model.ainvoke("Say hello.")).text == answer.text


def test_a_real_server_refuses_a_model_it_does_not_have(server):
    with pytest.raises(ModelUnavailable, match="answered 404"):
        load_model(f"{server}#no-such/model", profile=PROFILE).invoke("hi")


def test_openai_itself_is_spoken_to_the_same_way(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("OPENAI_BASE_URL", server)
    answer = load_model("openai:default_model", profile=PROFILE).invoke("Say hello.")
    assert answer.text and answer.usage_metadata["output_tokens"] <= 8


def test_a_server_that_dies_is_one_clear_line():
    with serving(bundled_folder()) as url:
        model = load_model(url, profile=PROFILE)
    for ask in (lambda: model.invoke("hi"), lambda: list(model.stream("hi")), lambda: asyncio.run(model.ainvoke("hi"))):
        with pytest.raises(ModelUnavailable, match="cannot be reached"):
            ask()


def test_a_server_that_cannot_start_says_why(tmp_path):
    with pytest.raises(ModelUnavailable, match="cannot be served: it has no config.json"), serving(tmp_path):
        pass
    with (
        pytest.raises(ModelUnavailable, match="mlx_lm.server ended with code 2: .*--no-such-option"),
        serving(bundled_folder(), "--no-such-option"),
    ):
        pass


@contextlib.contextmanager
def answering(answers):
    """A server with prepared answers by path: (status, body) or a function. Yields (address, requests)."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            length = int(self.headers.get("Content-Length") or 0)
            requests.append(
                {
                    "path": self.path,
                    "headers": {name.lower(): value for name, value in self.headers.items()},
                    "body": json.loads(self.rfile.read(length) or "null"),
                }
            )
            answer = answers.get(self.path, (404, "nothing here"))
            status, body = answer() if callable(answer) else answer
            body = body if isinstance(body, str) else json.dumps(body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if body[:1] in "{[" else "text/html")
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):
                self.wfile.write(body.encode())

        do_POST = do_GET

        def log_message(self, *args):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}", requests
    finally:
        httpd.shutdown()
        httpd.server_close()


LIST = (200, {"data": [{"id": "m1"}]})


def completion(**message):
    return (
        200,
        {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m1",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi", **message}}
            ],
        },
    )


def test_a_server_gets_the_whole_profile_and_never_the_key_of_openai(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with answering({"/v1/models": LIST, "/v1/chat/completions": completion()}) as (url, requests):
        load_model(url, profile=PROFILE).invoke("hello")
    sent = requests[-1]["body"]
    wanted = {
        "model": "m1",
        "temperature": 0,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.05,
        "max_tokens": 8,
        "seed": 5,
        "repetition_penalty": 1.2,
        "repetition_context_size": 33,
        "repeat_penalty": 1.2,
        "repeat_last_n": 33,
    }
    assert {key: sent.get(key) for key in wanted} == wanted
    assert not any("secret" in str(request["headers"]) for request in requests)


def test_a_server_key_of_its_own_is_sent(monkeypatch):
    monkeypatch.setenv("AGENTKIT_SERVER_KEY", "k1")
    with answering({"/v1/models": LIST, "/v1/chat/completions": completion()}) as (url, requests):
        load_model(url).invoke("hello")
    assert [request["headers"]["authorization"] for request in requests] == ["Bearer k1"] * 2


def test_a_thought_told_apart_is_kept_apart():
    with answering({"/v1/models": LIST, "/v1/chat/completions": completion(reasoning="hmm")}) as (url, _):
        answer = load_model(url).invoke("hello")
    assert answer.text == "hi" and answer.additional_kwargs["reasoning_content"] == "hmm"


@pytest.mark.parametrize(
    "models, words",
    [
        ((200, {"data": []}), "lists 0 models"),
        ((200, {"data": [{"id": "a"}, {"id": "b"}]}), "lists 2 models.*#NAME: a, b"),
        ((200, "<html>hello</html>"), "not an OpenAI-compatible server"),
        ((200, "[]"), "not an OpenAI-compatible server"),
        ((500, "oops"), "answers 500"),
        ((401, "{}"), "AGENTKIT_SERVER_KEY"),
        ((403, "{}"), "AGENTKIT_SERVER_KEY"),
    ],
)
def test_servers_that_do_not_name_one_model(models, words):
    with answering({"/v1/models": models}) as (url, _), pytest.raises(ModelUnavailable, match=words):
        load_model(url)


def test_a_named_model_needs_no_list():
    with answering({"/v1/chat/completions": completion()}) as (url, requests):
        assert load_model(f"{url}#mine").invoke("hello").text == "hi"
    assert requests[-1]["body"]["model"] == "mine"


@pytest.mark.parametrize(
    "answer, words",
    [
        ((500, {"error": {"message": "out of memory\nand more"}}), "answered 500: out of memory$"),
        ((401, {}), "refused the key in AGENTKIT_SERVER_KEY"),
        ((429, {"error": "slow down"}), "answered 429: slow down"),
    ],
)
def test_failures_while_it_answers_are_one_line(answer, words):
    with answering({"/v1/models": LIST, "/v1/chat/completions": answer}) as (url, _):
        model = load_model(url)
        with pytest.raises(ModelUnavailable, match=words):
            model.invoke("hello")
        with pytest.raises(ModelUnavailable, match=words):
            list(model.stream("hello"))


def test_a_server_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(backends, "PROBE_SECONDS", 0.2)
    with (
        answering({"/v1/models": lambda: time.sleep(1) or LIST}) as (url, _),
        pytest.raises(ModelUnavailable, match="within 0.2 seconds"),
    ):
        load_model(url)


def test_nobody_at_the_address():
    with pytest.raises(ModelUnavailable, match="nothing answers at http://127.0.0.1:"):
        load_model(f"http://127.0.0.1:{free_port()}/v1")


@pytest.mark.parametrize(
    "address",
    [
        "http://",
        "http://:80/v1",
        "http://h:x/v1",
        "http://127.0.0.1:99999/v1",
        "http://127.0.0.1:0",
        "http://[::1/v1",
        "http://h/v1?a=b",
    ],
)
def test_addresses_that_are_none(address):
    with pytest.raises(ModelUnavailable, match="is no server address"):
        load_model(address)


@pytest.mark.parametrize(
    "spec, parts",
    [
        ("http://h:1", ("http://h:1/v1", "")),
        ("http://h:1/v1/", ("http://h:1/v1", "")),
        ("https://h/api/v3#a/b:c", ("https://h/api/v3", "a/b:c")),
        ("http://[::1]:8080/v1", ("http://[::1]:8080/v1", "")),
    ],
)
def test_an_address_is_taken_apart(spec, parts):
    assert backends._address(spec) == parts


@pytest.mark.parametrize("kind, variable", [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")])
def test_a_missing_key_names_its_variable(kind, variable, monkeypatch):
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ModelUnavailable, match=variable):
        load_model(f"{kind}:some-model")


@pytest.mark.parametrize(
    "kind, package",
    [("openai", "langchain_openai"), ("anthropic", "langchain_anthropic"), ("ollama", "langchain_ollama")],
)
def test_a_missing_package_says_how_to_get_it(kind, package, monkeypatch):
    monkeypatch.setenv(f"{kind.upper()}_API_KEY", "test")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModelUnavailable, match=rf"pip install 'agentkit\[{kind}\]'"):
        load_model(f"{kind}:some-model")


@pytest.mark.parametrize("spec", ["openai:", "anthropic: ", "ollama:"])
def test_a_backend_without_a_model(spec):
    with pytest.raises(ModelUnavailable, match="names no model"):
        load_model(spec)


def test_hosted_models_get_what_they_take(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    openai = load_model("openai:gpt-4o", profile=PROFILE)
    assert (openai.temperature, openai.top_p, openai.max_tokens, openai.seed) == (0, 0.9, 8, 5)
    claude = load_model("anthropic:claude-x", profile=PROFILE)
    assert (claude.temperature, claude.top_p, claude.top_k, claude.max_tokens) == (0, 0.9, 7, 8)
    plain = load_model("anthropic:claude-x")
    assert plain.top_p is None and plain.top_k is None


def test_hosted_models_without_a_network(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{free_port()}")
    for spec in ("openai:gpt-4o", "anthropic:claude-x"):
        model = load_model(spec)
        with pytest.raises(ModelUnavailable, match=f"{spec} cannot be reached"):
            model.invoke("hi")


def test_ollama_is_asked_for_the_model_first(monkeypatch):
    with answering({"/api/tags": (200, {"models": [{"model": "llama3:latest"}]})}) as (url, _):
        monkeypatch.setenv("OLLAMA_HOST", url)
        model = load_model("ollama:llama3", profile=PROFILE)
        assert (
            model.temperature,
            model.top_p,
            model.top_k,
            model.seed,
            model.num_predict,
            model.repeat_penalty,
            model.repeat_last_n,
        ) == (0, 0.9, 7, 5, 8, 1.2, 33)
        with pytest.raises(ModelUnavailable, match="ollama pull qwen3"):
            load_model("ollama:qwen3")
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        model.invoke("hi")
    with pytest.raises(ModelUnavailable, match="ollama serve"):
        load_model("ollama:llama3")
