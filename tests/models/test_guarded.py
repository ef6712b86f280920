import asyncio
import functools
import json
import operator
import threading
import time

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from agentkit import events
from agentkit.loops import build_agent
from agentkit.models import load_model
from agentkit.models.bundled import bundled_folder
from agentkit.models.guarded import FILTERED, LOST
from agentkit.models.messages import invalid_calls
from agentkit.models.profile import GenerationProfile
from agentkit.models.server import serving
from agentkit.models.tool_calls import CUT
from tests.models.wires import CALCULATOR, WIRES, Said, openai_chunk, speaking
from tests.models.wires import events as sse

SOUND = '{"expression": "6*7"}'
TORN = '{"expression": "1/0'
MARKUP = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "6*7"}}\n</tool_call>'


_loop = asyncio.new_event_loop()  # one for all: langchain-openai shares a connection pool between models


async def _merged(stream):
    return functools.reduce(operator.add, [chunk async for chunk in stream])


WAYS = {
    "invoke": lambda model, text: model.invoke(text),
    "ainvoke": lambda model, text: _loop.run_until_complete(model.ainvoke(text)),
    "stream": lambda model, text: functools.reduce(operator.add, model.stream(text)),
    "astream": lambda model, text: _loop.run_until_complete(_merged(model.astream(text))),
}
every_way = pytest.mark.parametrize("way", WAYS)
every_kind = pytest.mark.parametrize("kind", WIRES)
kinds_of_text = pytest.mark.parametrize("kind", ["http", "openai", "ollama"])


def asked(kind, way, monkeypatch, said, **options) -> AIMessage:
    with speaking(kind, monkeypatch, said, **options) as (model, _):
        return WAYS[way](model, "what is it?")


def calls(message) -> list:
    return [(call["name"], call["args"]) for call in message.tool_calls]


def reasons(message) -> list[str]:
    """Of the refused calls; whatever way the message came, both places that hold them agree."""
    assert len(message.invalid_tool_calls) == len(invalid_calls(message))
    assert [call["id"] for call in message.invalid_tool_calls] == [call["id"] for call in invalid_calls(message)]
    return [call["error"] for call in invalid_calls(message)]


@every_kind
@every_way
def test_a_call_that_is_whole_and_sound_goes_through(kind, way, monkeypatch):
    message = asked(kind, way, monkeypatch, Said("Let me see.", (("calculator", SOUND), ("calculator", "{}"))))
    assert calls(message) == [("calculator", {"expression": "6*7"}), ("calculator", {})]
    assert message.text == "Let me see." and reasons(message) == []
    assert len({call["id"] for call in message.tool_calls}) == 2


@every_kind
@every_way
@pytest.mark.parametrize("args", [TORN, SOUND, ""], ids=["torn", "at a valid prefix", "before its arguments"])
def test_a_call_cut_by_the_token_limit_is_refused(kind, way, args, monkeypatch):
    said = Said("Let me see.", (("calculator", SOUND), ("calculator", args)), "length")
    message = asked(kind, way, monkeypatch, said)
    assert calls(message) == [("calculator", {"expression": "6*7"})]  # the one before was written to its end
    assert reasons(message) == [CUT] and invalid_calls(message)[0]["name"] == "calculator"
    assert message.text == "Let me see."
    assert str(message.content).count("calculator") <= 1, "no block of the content shows the refused call"
    if kind in ("http", "openai", "responses"):
        assert invalid_calls(message)[0]["args"] == args


@every_kind
@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_the_event_protocol_tells_the_same(kind, monkeypatch):
    said = Said("Let me see.", (("calculator", SOUND), ("calculator", TORN)), "length")
    with speaking(kind, monkeypatch, said) as (model, _):
        message = model.stream_events("what is it?", version="v3").output
    assert calls(message) == [("calculator", {"expression": "6*7"})] and reasons(message) == [CUT]
    assert message.text == "Let me see."


@pytest.mark.parametrize("kind", ["http", "openai"])
@every_way
@pytest.mark.parametrize(
    "args, reason",
    [
        (TORN, "bad JSON: Unterminated string"),
        ('{"expression": ', "bad JSON: "),
        ('{"expression": "1"} {"expression": "2"}', "bad JSON: text after the value"),
        ('{"expression": "1", "expression": "2"}', "bad JSON: 'expression' is given twice"),
        ('{"expression": NaN}', "bad JSON: "),
        ("[]", "must be a JSON object"),
        ("[1, 2]", "must be a JSON object"),
        ("0", "must be a JSON object"),
        ("false", "must be a JSON object"),
        ('"1/0"', "is text that is no JSON object"),
    ],
)
def test_arguments_that_are_no_sound_object_are_refused(kind, way, args, reason, monkeypatch):
    message = asked(kind, way, monkeypatch, Said(calls=(("calculator", args),), ending="tool_calls"))
    assert calls(message) == [] and reason in reasons(message)[0]
    assert invalid_calls(message)[0]["args"] == args


@every_way
@pytest.mark.parametrize("args", ["", " ", "null", "{}"])
def test_a_call_without_arguments_is_none_the_worse(way, args, monkeypatch):
    assert calls(asked("http", way, monkeypatch, Said(calls=(("calculator", args),)))) == [("calculator", {})]


@every_way
def test_arguments_inside_a_string_and_broken_lines_are_read(way, monkeypatch):
    said = Said(calls=(("calculator", json.dumps(SOUND)), ("calculator", '{"expression": "6\n*7"}')))
    assert [args["expression"] for _, args in calls(asked("http", way, monkeypatch, said))] == ["6*7", "6\n*7"]


@every_way
@pytest.mark.parametrize("kind, args", [("anthropic", TORN), ("responses", TORN), ("responses", '{"a": 1, "a": 2}')])
def test_hosted_models_that_end_well_on_unsound_arguments(kind, way, args, monkeypatch):
    if kind == "anthropic" and "invoke" in way:
        pytest.skip("Anthropic sends whole answers with the arguments already parsed")
    assert reasons(asked(kind, way, monkeypatch, Said(calls=(("calculator", args),))))[0].startswith("bad JSON: ")


@every_way
def test_a_call_without_a_name_is_refused(way, monkeypatch):
    assert reasons(asked("http", way, monkeypatch, Said(calls=(("", SOUND),)))) == ["it names no tool"]


@every_way
def test_what_a_filter_cut_is_refused(way, monkeypatch):
    message = asked("openai", way, monkeypatch, Said(calls=(("calculator", SOUND),), ending="content_filter"))
    assert calls(message) == [] and reasons(message) == [FILTERED]


@kinds_of_text
@every_way
def test_a_call_left_in_the_text_is_read(kind, way, monkeypatch):
    message = asked(kind, way, monkeypatch, Said(f"Let me see.\n\n{MARKUP}\n"))
    assert calls(message) == [("calculator", {"expression": "6*7"})] and reasons(message) == []
    assert message.text == "Let me see."


@kinds_of_text
@every_way
def test_a_call_in_the_text_that_was_cut_is_refused(kind, way, monkeypatch):
    message = asked(kind, way, monkeypatch, Said(f"Let me see.\n{MARKUP}{MARKUP[:50]}", ending="length"))
    assert calls(message) == [("calculator", {"expression": "6*7"})] and reasons(message) == [CUT]
    assert message.text == "Let me see."


@every_way
def test_markup_without_a_parser_is_refused_not_shown(way, monkeypatch):
    message = asked(
        "http", way, monkeypatch, Said('<function_calls><invoke name="calculator">6*7</invoke></function_calls>')
    )
    assert message.text == "" and "no parser for <function_calls>" in reasons(message)[0]


@every_way
def test_a_call_given_twice_over_runs_once(way, monkeypatch):
    message = asked("http", way, monkeypatch, Said(MARKUP, (("calculator", SOUND),), "tool_calls"))
    assert calls(message) == [("calculator", {"expression": "6*7"})] and message.text == "" and reasons(message) == []


@kinds_of_text
@every_way
@pytest.mark.parametrize(
    "text",
    [
        " \n Is 1 < 2 [1]?\n\n<b>Yes</b>, 1 <2. \n\n",
        "Write `<tool_call>` before a call, and <tool_call> is its name.",
        "\n",
        "a [link](there) and {} <tool_call",
    ],
)
def test_text_without_a_call_passes_untouched(kind, way, text, monkeypatch):
    message = asked(kind, way, monkeypatch, Said(text))
    assert message.content == text and message.tool_calls == message.invalid_tool_calls == []
    assert message.additional_kwargs.get("refused_calls") is None


@every_way
def test_without_tools_the_text_is_nobodys_call(way, monkeypatch):
    assert asked("http", way, monkeypatch, Said(MARKUP), tools=()).content == MARKUP


@every_way
def test_a_thought_left_in_the_text_is_kept_apart(way, monkeypatch):
    message = asked("http", way, monkeypatch, Said(f"<think>Hm.\n{MARKUP}\nNo.</think>\n\nIt is 42.\n"))
    assert message.text == "It is 42." and message.tool_calls == []
    assert message.additional_kwargs["reasoning_content"].startswith("Hm.")


@every_way
def test_a_call_that_the_server_lost_is_told(way, monkeypatch):
    assert reasons(asked("openai", way, monkeypatch, Said(ending="tool_calls"))) == [LOST]
    assert reasons(asked("http", way, monkeypatch, Said(ending="length"))) == [f"{CUT}; {LOST}"]
    assert reasons(asked("http", way, monkeypatch, Said("It is", ending="length"))) == []
    assert reasons(asked("http", way, monkeypatch, Said(ending="length"), tools=())) == []
    # Their thoughts may be hidden: an empty answer need not have been a call.
    assert reasons(asked("openai", way, monkeypatch, Said(ending="length"))) == []


def test_text_arrives_while_the_server_still_writes(monkeypatch):
    seen = threading.Event()

    def answer(handler, sent):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(sse(openai_chunk({"role": "assistant", "content": "It is "})))
        handler.wfile.flush()
        arrived = seen.wait(10)
        handler.wfile.write(sse(openai_chunk({"content": "42." if arrived else "late"}), openai_chunk({}, "stop")))
        handler.wfile.write(b"data: [DONE]\n\n")
        handler.close_connection = True

    text = ""
    with speaking("http", monkeypatch, answer) as (model, _):
        for chunk in model.stream("what is it?"):
            text += chunk.text
            if text == "It is":  # the blank behind it may yet turn out to lie before a call
                seen.set()
    assert text == "It is 42."


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_a_closed_stream_lets_the_server_go(way, monkeypatch):
    gone = threading.Event()

    def answer(handler, sent):
        handler.send_response(200)
        handler.end_headers()
        try:
            for _ in range(2000):
                handler.wfile.write(sse(openai_chunk({"role": "assistant", "content": "It is "})))
                time.sleep(0.005)
        except OSError:
            gone.set()
        handler.close_connection = True

    async def first_of(stream):
        async for _ in stream:
            break
        await stream.aclose()
        return await asyncio.to_thread(gone.wait, 5)  # LangChain leaves its own generators to the event loop

    with speaking("http", monkeypatch, answer) as (model, _):
        if way == "stream":
            stream = model.stream("what is it?")
            next(stream)
            stream.close()
            assert gone.wait(5)
        else:
            assert _loop.run_until_complete(first_of(model.astream("what is it?")))


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of openai, about arguments that are no text
@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("numbers", [(None, None), (0, 0)], ids=["unnumbered", "all number 0"])
@pytest.mark.parametrize("given", [SOUND, {"expression": "6*7"}], ids=["text", "object"])
def test_servers_that_number_their_calls_badly(way, numbers, given, monkeypatch):
    parts = []
    for place, number in enumerate(numbers):
        call = {"id": f"c{place}", "type": "function", "function": {"name": "calculator", "arguments": given}}
        parts.append(
            openai_chunk({"role": "assistant", "tool_calls": [call | ({} if number is None else {"index": number})]})
        )

    def answer(handler, sent):
        return sse(*parts, openai_chunk({}, "tool_calls")) + b"data: [DONE]\n\n"

    assert calls(asked("http", way, monkeypatch, answer)) == [("calculator", {"expression": "6*7"})] * 2


def test_a_stream_that_breaks_off_runs_nothing_torn(monkeypatch):
    part = {"index": 0, "id": "c", "type": "function", "function": {"name": "calculator", "arguments": TORN}}
    message = asked(
        "http", "stream", monkeypatch, lambda *_: sse(openai_chunk({"role": "assistant", "tool_calls": [part]}))
    )
    assert calls(message) == [] and reasons(message)[0].startswith("bad JSON: ")


@every_kind
@every_way
def test_a_refused_call_goes_back_as_a_call_that_servers_can_read(kind, way, monkeypatch):
    said = Said("Hm.", (("calculator", TORN),), "length")
    with speaking(kind, monkeypatch, said, Said("I see.")) as (model, requests):
        refused = WAYS[way](model, "what is it?")
        id = refused.invalid_tool_calls[0]["id"]
        model.invoke([HumanMessage("what is it?"), refused, ToolMessage("Error: cut", tool_call_id=id, status="error")])
    sent = requests[-1].get("messages") or requests[-1]["input"]
    told = json.dumps(sent)
    assert told.count('"calculator"') == 1 and told.count("Error: cut") == 1
    if kind != "ollama":  # which pairs calls and results by their order
        assert told.count(f'"{id}"') == 2
    if kind in ("http", "openai"):
        call = sent[1]["tool_calls"][0]["function"]
        assert call == {"name": "calculator", "arguments": json.dumps({"text": TORN})}
    if kind == "anthropic":
        assert [block["type"] for block in sent[1]["content"]] == ["text", "tool_use"]


@every_kind
def test_an_agent_has_a_cut_call_corrected_and_never_runs_it(kind, monkeypatch):
    ran = []

    @tool
    def calculator(expression: str) -> str:
        """Compute an expression."""
        ran.append(expression)
        return "42"

    cut, whole = Said("Hm.", (("calculator", TORN),), "length"), Said(calls=(("calculator", SOUND),))
    with speaking(kind, monkeypatch, cut, whole, Said("It is 42."), tools=()) as (model, requests):
        agent = build_agent(model=model, tools=[calculator])
        heard = []
        with events.listening(heard.append):
            result = agent.run("what is it?")
    assert (result.answer, result.reason, ran) == ("It is 42.", "answer", ["6*7"])
    assert len(requests) == 3
    assert [e.invalid for e in heard if isinstance(e, events.ToolCalled)] == [CUT, None]
    told = {
        channel: "".join(e.text for e in heard if isinstance(e, events.Token) and e.channel == channel)
        for channel in ("answer", "call")
    }
    assert told["answer"] == "Hm.It is 42." and told["call"].count("6*7") == 1


@pytest.fixture(scope="module")
def server():
    """Address of a real mlx_lm.server on the bundled model."""
    with serving(bundled_folder()) as url:
        yield url


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tokens", [5, 12, 16, 200])
def test_a_real_server_that_drops_torn_calls(server, way, tokens):
    model = load_model(server, profile=GenerationProfile(temperature=0, max_tokens=tokens)).bind_tools([CALCULATOR])
    message = WAYS[way](model, "Use the calculator: what is 6*7?")
    assert "tool_call" not in message.text
    if message.response_metadata["finish_reason"] == "length":
        assert message.tool_calls == [] and reasons(message)[0].startswith(CUT)
    else:
        assert calls(message)[0][0] == "calculator"
    assert (tokens == 200) == bool(message.tool_calls)


def test_a_real_server_takes_a_refused_call_back(server):
    model = load_model(server, profile=GenerationProfile(temperature=0, max_tokens=8)).bind_tools([CALCULATOR])
    refused = AIMessage(
        "",
        invalid_tool_calls=[
            {"name": "calculator", "args": TORN, "id": "c1", "error": CUT, "type": "invalid_tool_call"}
        ],
    )
    answer = model.invoke([HumanMessage("What is 1/0?"), refused, ToolMessage("Error: cut", tool_call_id="c1")])
    assert answer.usage_metadata["output_tokens"] == 8
