"""`LocalChatModel` on the bundled model and on tiny random ones: LangChain's interface, calls, stops, cancel, events."""

import asyncio
import json
import re
import threading

import pytest
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from agentkit import cancel, events
from agentkit.models import LocalChatModel, load_model
from agentkit.models.errors import BadField
from agentkit.models.messages import invalid_calls
from agentkit.models.owner import owner
from agentkit.models.parsed import BLANK
from tests import tiny


@tool
def get_weather(city: str, unit: str = "C") -> str:
    """The weather in a city."""
    return ""


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return ""


TOOLS = [get_weather, read_file]
ASK = [HumanMessage("What is the weather in Lima?")]
FOX = [HumanMessage("the quick brown fox")]


@pytest.fixture(scope="module")
def bundled():
    return load_model("bundled").with_profile(seed=7, max_tokens=60)


@pytest.fixture(scope="module")
def small(tiny_folders):
    """A tiny random model that can think; what it writes has no meaning, so only code can make it well-formed."""
    return LocalChatModel.load(tiny_folders["qwen3"]).with_profile(seed=1, max_tokens=40, temperature=1.0, thinking_budget=8)


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """A tiny random model whose template opens the thought, and leaves earlier thoughts out."""
    template = "{% set preopen = true %}" + tiny.THINKING_TEMPLATE
    folder = owner().call(tiny.make, tmp_path_factory.mktemp("thinker"), tiny.QWEN3, template)
    return LocalChatModel.load(folder, name="thinker").with_profile(seed=1, max_tokens=40, temperature=1.0, thinking_budget=8)


def plain(message):
    """What a message says, without the ids that are drawn anew each time."""
    return {
        "content": message.content,
        "reasoning": message.additional_kwargs.get("reasoning_content", ""),
        "calls": [(call["name"], call["args"]) for call in message.tool_calls],
        "invalid": [(call["name"], call["args"], call["error"]) for call in invalid_calls(message)],
        "usage": message.usage_metadata,
        "reason": message.response_metadata["finish_reason"],
        "model": message.response_metadata["model_name"],
    }


def merged(chunks):
    whole = None
    for chunk in chunks:
        whole = chunk if whole is None else whole + chunk
    return whole


async def collect(stream):
    return [chunk async for chunk in stream]


def heard(work):
    """(result of work(), events emitted meanwhile)."""
    seen = []
    with events.listening(seen.append):
        return work(), seen


def tokens_of(seen):
    return [event for event in seen if isinstance(event, events.Token)]


# --- invoke, stream, astream ------------------------------------------------------------------------------------------


def all_ways(model, messages, **options):
    """The answer by invoke, stream, ainvoke and astream, each from a cold cache."""
    options["prefix_cache"] = False
    return [plain(answer) for answer in (
        model.invoke(messages, **options), merged(model.stream(messages, **options)),
        asyncio.run(model.ainvoke(messages, **options)), merged(asyncio.run(collect(model.astream(messages, **options)))))]


def test_every_way_of_asking_gives_the_same_answer(bundled):
    first, *others = all_ways(bundled, [HumanMessage("Say hello.")], max_tokens=10)
    assert first["content"] and first["reason"] in ("stop", "length")
    assert others == [first] * 3


def test_every_way_of_asking_gives_the_same_call(bundled):
    model = bundled.bind_tools(TOOLS, tool_choice="get_weather")
    first, *others = all_ways(model, ASK)
    assert [name for name, _ in first["calls"]] == ["get_weather"] and first["reason"] == "stop"
    assert others == [first] * 3


@pytest.mark.parametrize("seed", range(6))
def test_every_way_of_asking_agrees_on_random_text(thinker, seed):
    """Thought, forced close, then anything: markup, broken calls, bytes that are no letters."""
    first, *others = all_ways(thinker, FOX, seed=seed, temperature=1.5)
    assert first["reasoning"]
    # A later </think> turns what was shown into thought; a stream cannot take text back, everything else agrees.
    assert [other | {"content": ""} for other in others] == [first | {"content": ""}] * 3
    assert all(other["content"].endswith(first["content"]) for other in others)


def test_a_stream_comes_in_pieces_and_ends_with_the_counts(bundled):
    chunks = list(bundled.stream("Say hello.", max_tokens=8))
    assert len([chunk for chunk in chunks if chunk.content]) > 2
    assert [bool(chunk.usage_metadata) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].chunk_position == "last"


def test_listeners_of_langchain_hear_each_piece(bundled):
    from langchain_core.callbacks import BaseCallbackHandler

    class Ear(BaseCallbackHandler):
        def __init__(self):
            self.told = []

        def on_llm_new_token(self, token, **kwargs):
            self.told.append(token)

    ear = Ear()
    answer = merged(bundled.stream("Say hello.", config={"callbacks": [ear]}, max_tokens=8))
    assert len(ear.told) > 2 and "".join(ear.told) == answer.content


def test_the_same_seed_gives_the_same_text_and_another_another(bundled, small):
    for model, ask in ((bundled, "Tell me a story."), (small, "the quick")):
        texts = [model.invoke(ask, seed=seed, temperature=1.5, max_tokens=8).content for seed in (4, 4, 5)]
        assert texts[0] == texts[1] != texts[2]


# --- usage ------------------------------------------------------------------------------------------------------------


def test_usage_counts_the_prompt_the_cached_and_the_generated(bundled):
    model = bundled.bind_tools(TOOLS)
    prompt = bundled.prompt_tokens(ASK, model.kwargs["tools"])
    owner().call(bundled.engine.prefix.clear)
    (cold, seen), warm = heard(lambda: model.invoke(ASK, max_tokens=6)), model.invoke(ASK, max_tokens=6)
    assert cold.usage_metadata == {"input_tokens": len(prompt), "output_tokens": len(tokens_of(seen)), "total_tokens": len(prompt) + len(tokens_of(seen)),
                                   "input_token_details": {"cache_read": 0}, "output_token_details": {"reasoning": 0}}
    assert warm.usage_metadata["input_token_details"] == {"cache_read": len(prompt) - 1}, "its last token is fed again"
    assert plain(warm) | {"usage": 0} == plain(cold) | {"usage": 0}
    assert cold.response_metadata["tokens_per_second"] > 0


def test_a_next_turn_reads_all_of_the_last_one_from_the_cache(bundled):
    owner().call(bundled.engine.prefix.clear)
    first = bundled.invoke("What do bees make?", max_tokens=8, temperature=0)
    turn2 = [HumanMessage("What do bees make?"), first, HumanMessage("Thanks.")]
    usage = bundled.invoke(turn2, max_tokens=4).usage_metadata
    assert usage["input_token_details"]["cache_read"] >= first.usage_metadata["input_tokens"]
    assert usage["input_tokens"] == len(bundled.prompt_tokens(turn2))


def test_thought_tokens_are_counted_apart(thinker):
    answer, seen = heard(lambda: thinker.invoke(FOX, thinking_budget=6))
    usage, metadata = answer.usage_metadata, answer.response_metadata
    thought = [event for event in tokens_of(seen) if event.channel == "thought"]
    assert usage["output_token_details"]["reasoning"] == metadata["thinking_tokens"] <= 6 == metadata["thinking_budget"]
    assert metadata["thinking_tokens"] <= len(thought) <= metadata["thinking_tokens"] + 2, "the marks are not counted"
    assert usage["output_tokens"] == len(tokens_of(seen))


def test_counting_is_the_models_own(bundled):
    assert bundled.count_tokens("12345") == 5 == bundled.get_num_tokens("12345")
    assert bundled.count_tokens("") == 0


# --- where an answer ends ---------------------------------------------------------------------------------------------


def test_a_stop_sequence_cuts_across_token_borders(bundled):
    """Each stop begins in one token and ends in a later one; invoke and stream cut alike, in front of it."""
    options = {"temperature": 0, "max_tokens": 12}
    whole, seen = heard(lambda: bundled.invoke("Tell me of the sea.", **options))
    texts = [event.text for event in tokens_of(seen)]
    assert len(texts) > 6
    for at, ask in ((1, bundled.invoke), (3, lambda *args, **kwargs: merged(bundled.stream(*args, **kwargs)))):
        stop = texts[at][-1:] + texts[at + 1] + texts[at + 2][:1]
        answer = ask("Tell me of the sea.", stop=[stop, "never said"], **options)
        assert answer.content == whole.content[:whole.content.index(stop)].rstrip()
        assert answer.response_metadata["finish_reason"] == "stop"


def test_nothing_is_generated_behind_a_stop_sequence(bundled):
    """The count is exact and the same each time: the engine itself stops, not the reader of its queue."""
    options = {"temperature": 0, "max_tokens": 12}
    _, seen = heard(lambda: bundled.invoke("Tell me of the sea.", **options))
    texts = [event.text for event in tokens_of(seen)]
    stop = texts[3].strip()
    until = next(i for i in range(len(texts)) if stop in "".join(texts[:i + 1])) + 1
    for _ in range(2):
        answer, seen = heard(lambda: bundled.invoke("Tell me of the sea.", stop=[stop], **options))
        assert answer.usage_metadata["output_tokens"] == len(tokens_of(seen)) == until


def test_a_stop_sequence_that_never_comes_loses_nothing(small):
    """What is held back because it may become the stop is told at the end."""
    whole = small.invoke(FOX, max_tokens=12)
    if whole.content:
        last = whole.content[-1]
        assert small.invoke(FOX, max_tokens=12, stop=[last + "\x00"]).content == whole.content
        assert merged(small.stream(FOX, max_tokens=12, stop=[last + "\x00"])).content == whole.content


def test_one_stop_may_be_given_as_text(bundled):
    whole = bundled.invoke("Say hello.", temperature=0, max_tokens=10).content
    assert bundled.invoke("Say hello.", temperature=0, max_tokens=10, stop=whole[3:6]).content == whole[:whole.find(whole[3:6])].rstrip()


def test_max_tokens_ends_with_length(bundled):
    answer = bundled.invoke("Count from 1 to 100.", max_tokens=3)
    assert answer.response_metadata["finish_reason"] == "length"
    assert answer.usage_metadata["output_tokens"] == 3


@pytest.mark.parametrize("limit", [1, 4, 17])
def test_max_tokens_counts_forced_tokens_too(bundled, limit):
    """The grammar forces some twenty tokens at once; the limit holds all the same."""
    answer, seen = heard(lambda: bundled.bind_tools(TOOLS, tool_choice="get_weather").invoke(ASK, max_tokens=limit))
    assert answer.usage_metadata["output_tokens"] == len(tokens_of(seen)) == limit
    assert answer.response_metadata["finish_reason"] == "length"
    assert not answer.tool_calls


@pytest.mark.parametrize("limit", [10, 15, 19])
def test_a_call_cut_by_the_limit_is_refused_and_the_next_turn_works(bundled, limit):
    """LangChain would complete the JSON of a cut call and run it."""
    model = bundled.bind_tools(TOOLS, tool_choice="get_weather")
    for answer in (model.invoke(ASK, max_tokens=limit), merged(model.stream(ASK, max_tokens=limit))):
        assert answer.tool_calls == []
        assert len(answer.invalid_tool_calls) == 1
        [call] = invalid_calls(answer)
        assert "token limit" in call["error"] and "<tool_call>" in call["args"]
        assert answer.response_metadata["finish_reason"] == "length"
        assert "<tool_call>" not in answer.content
        history = [*ASK, answer, ToolMessage(call["error"], tool_call_id=call["id"]), HumanMessage("Again, please.")]
        shown = owner().call(lambda history=history: bundled.engine.tokenizer.decode(bundled.prompt_tokens(history)))
        assert call["args"] in shown, "the model sees what it wrote"
        [again] = model.invoke(history).tool_calls
        assert again["name"] == "get_weather"


# --- tools and choices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("choice", "names"), [
    ("any", {"get_weather", "read_file"}), ("required", {"get_weather", "read_file"}), (True, {"get_weather", "read_file"}),
    ("read_file", {"read_file"}), ({"type": "function", "function": {"name": "read_file"}}, {"read_file"}), ({"type": "tool", "name": "get_weather"}, {"get_weather"}),
    ({"type": "any"}, {"get_weather", "read_file"})])
def test_a_choice_is_kept(small, choice, names):
    """The random model would never write a call of its own."""
    for seed in range(3):
        [call] = small.bind_tools(TOOLS, tool_choice=choice).invoke(FOX, seed=seed, max_tokens=1500).tool_calls
        assert call["name"] in names


@pytest.mark.parametrize("choice", [None, "auto", False, {"type": "auto"}])
def test_auto_leaves_the_model_free(small, choice):
    """Neither a grammar nor forced tokens."""
    _, seen = heard(lambda: small.bind_tools(TOOLS, tool_choice=choice).invoke(FOX, max_tokens=6, thinking_budget=100))
    assert {event.origin for event in tokens_of(seen)} == {"sampled"}


def test_none_does_not_even_show_the_tools(bundled):
    answer = bundled.bind_tools(TOOLS, tool_choice="none").invoke(ASK, max_tokens=8)
    assert answer.usage_metadata["input_tokens"] == len(bundled.prompt_tokens(ASK))
    assert not answer.tool_calls


@pytest.mark.parametrize("choice", ["get_wether", {"function": {"name": "f"}}, {"type": "sometimes"}, {"function": "get_weather"}, {}, 5, ["get_weather"]])
def test_an_unknown_choice_is_refused_when_it_is_made(bundled, choice):
    with pytest.raises(BadField, match="tool_choice is .*; allowed are auto, none, required or one of get_weather, read_file"):
        bundled.bind_tools(TOOLS, tool_choice=choice)


def test_tools_may_be_functions_dicts_and_pydantic_models(bundled):
    from pydantic import BaseModel, Field

    class Book(BaseModel):
        """Book a room."""

        guests: int = Field(description="How many")

    def shout(text: str) -> str:
        """Say it loudly."""
        return text

    schema = {"type": "function", "function": {"name": "stop", "description": "Stop.", "parameters": {"type": "object", "properties": {}}}}
    bound = bundled.bind_tools([get_weather, Book, shout, schema])
    text = owner().call(lambda: bundled.engine.tokenizer.decode(bundled.prompt_tokens(ASK, bound.kwargs["tools"])))
    assert '- Book(guests: integer "How many"): Book a room.' in text
    assert "- shout(text: string): Say it loudly." in text and "- stop(): Stop." in text


def schema(name, required=None, **properties):
    return {"type": "function", "function": {"name": name, "description": f"Use {name}.", "parameters": {
        "type": "object", "properties": properties, "required": list(properties) if required is None else required}}}


SHORT = {"type": "string", "maxLength": 12}
ODD = [
    schema("set_light", room={"type": "string", "enum": ["kitchen", "bath", "Küche 😀"]}, level={"type": "integer", "minimum": 0, "maximum": 100}),
    schema("book", guest={"type": "object", "properties": {"name": SHORT, "vip": {"type": "boolean"}}, "required": ["name", "vip"]}, nights={"type": "integer", "minimum": 1, "maximum": 30}),
    schema("plot", points={"type": "array", "items": {"type": "array", "items": {"type": "number", "minimum": -9, "maximum": 9}, "minItems": 2, "maxItems": 2}, "minItems": 1, "maxItems": 3}),
    schema("tag", labels={"type": "array", "items": {"enum": ["red", "blue"]}, "uniqueItems": True, "maxItems": 4}),
    schema("toggle", on={"type": "boolean"}, delay={"type": ["integer", "null"], "minimum": 0, "maximum": 9}),
    schema("pay", amount={"type": "number", "minimum": 0, "exclusiveMaximum": 1000}, note={"anyOf": [SHORT, {"type": "null"}]}),
    schema("deep", a={"type": "object", "properties": {"b": {"type": "object", "properties": {"c": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}}, "required": ["c"]}}, "required": ["b"]}),
    schema("pick", required=[], which={"oneOf": [{"const": 7}, {"enum": ["left", "right"]}]}, why=SHORT),
    schema("code", id={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}, mode={"const": "fast"}),
    schema("nothing"),
    schema("geo.find-place", place=SHORT | {"description": "Say \"where\"", "default": "x"}, near={"type": "object", "properties": {"lat": {"type": "integer", "minimum": -90, "maximum": 90}}, "required": ["lat"]}),
    schema("due", day={"type": "string", "format": "date", "maxLength": 10}, priority={"type": "integer", "enum": [1, 2, 3]}),
]


def check_call(call, tools):
    parameters = {t["function"]["name"]: t["function"]["parameters"] for t in tools}[call["name"]]
    lenient = json.loads(json.dumps(parameters).replace('"uniqueItems": true', '"uniqueItems": false'))  # no grammar can count
    Draft202012Validator(lenient | {"additionalProperties": False}).validate(call["args"])


@pytest.mark.parametrize("wanted", ODD, ids=lambda t: t["function"]["name"])
def test_a_named_call_fits_its_schema_whatever_the_model(small, wanted):
    """The hardest test of the grammar: a model that writes noise still gives a call that fits."""
    for seed in range(5):
        answer = small.bind_tools(ODD, tool_choice=wanted["function"]["name"]).invoke(FOX, seed=seed, temperature=2.0, max_tokens=1900)
        assert answer.invalid_tool_calls == [] and answer.content == ""
        [call] = answer.tool_calls
        assert call["name"] == wanted["function"]["name"]
        check_call(call, ODD)


@pytest.mark.parametrize("marks", [tiny.MARKS, tiny.MARKS[2:], ()], ids=["thinks", "own tags", "tags of several tokens"])
def test_any_call_of_a_random_model_names_an_existing_tool_and_all_get_their_turn(tmp_path, marks):
    model = LocalChatModel.load(owner().call(lambda: tiny.make(tmp_path / "m", tiny.QWEN3, marks=marks)))
    model = model.with_profile(temperature=2.0, max_tokens=1900, thinking_budget=8).bind_tools(ODD, tool_choice="any")
    named = set()
    for seed in range(10):
        answer = model.invoke(FOX, seed=seed)
        [call] = answer.tool_calls
        check_call(call, ODD)
        assert answer.invalid_tool_calls == [] and answer.content == ""
        named.add(call["name"])
    assert len(named) > 3


def test_the_bundled_model_writes_calls_to_odd_schemas(bundled):
    """In one grammar for all of them; arguments are its own choice. A number may have digits without end, so none here."""
    tools = [t for t in ODD if '"number"' not in json.dumps(t)]
    for ask in ("Turn the kitchen light to 40.", "Book for Ada, three nights, she is a VIP."):
        [call] = bundled.bind_tools(tools, tool_choice="any").invoke(ask, max_tokens=150).tool_calls
        check_call(call, tools)


@pytest.mark.parametrize("seed", range(8))
def test_constrained_auto_is_a_thought_then_text_or_a_whole_call(thinker, seed):
    """The grammar begins behind the thought; what the random model thinks is free. A call may end the thought, too."""
    model = thinker.bind_tools(ODD).bind(constrained=True, seed=seed, temperature=1.5, max_tokens=200)
    answer, seen = heard(lambda: model.invoke(FOX))
    text, channels = "".join(event.text for event in tokens_of(seen)), [event.channel for event in tokens_of(seen)]
    assert channels[0] == "thought"
    if "<tool_call>" in text:
        assert re.search(r'<tool_call>\n\{"name": "(' + "|".join(t["function"]["name"] for t in ODD) + ")", text)
        assert answer.response_metadata["finish_reason"] == "length" or len(answer.tool_calls) == 1
    else:
        assert answer.tool_calls == answer.invalid_tool_calls == []
        assert answer.content == text.split("</think>", 1)[1].strip(BLANK)


def test_neither_the_end_nor_a_call_cuts_a_thought_short_where_a_grammar_holds(thinker):
    """The random model draws its end mark, or a call's tag, inside the thought about every fifth time."""
    model = thinker.bind_tools([schema("nothing")], tool_choice="nothing")
    for seed in range(60):
        options = {"seed": seed, "temperature": 2.0, "thinking_budget": 40, "repetition_penalty": 1, "max_tokens": 100}
        answer, seen = heard(lambda options=options: model.invoke(FOX, **options))
        text = "".join(event.text for event in tokens_of(seen))
        assert re.search(r'</think>\s{0,4}<tool_call>\n\{"name": "nothing", "arguments": \{\}\}\n</tool_call>$', text), text
        assert [(call["name"], call["args"]) for call in answer.tool_calls] == [("nothing", {})]


@pytest.mark.parametrize("seed", range(6))
def test_a_required_call_comes_behind_the_thought(thinker, seed):
    answer, seen = heard(lambda: thinker.bind_tools(ODD, tool_choice="any").invoke(FOX, seed=seed, max_tokens=1900))
    [call] = answer.tool_calls
    check_call(call, ODD)
    channels = [event.channel for event in tokens_of(seen)]
    assert "thought" in channels and channels[-1] == "call" and answer.content == ""


# --- what the model may read and show ---------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
                                  {"type": "audio", "base64": "AAAA"}, {"type": "file", "file_id": "1"}])
def test_images_and_other_parts_are_refused(bundled, part):
    message = HumanMessage([{"type": "text", "text": "What is this?"}, part])
    for ask in (bundled.invoke, lambda messages: list(bundled.stream(messages)), lambda messages: asyncio.run(bundled.ainvoke(messages))):
        with pytest.raises(BadField, match=f"content of type '{part['type']}': this model reads text only"):
            ask([message])


def test_text_parts_are_read(bundled):
    parts = HumanMessage([{"type": "text", "text": "Say "}, "hello."])
    assert bundled.prompt_tokens([parts]) == bundled.prompt_tokens([HumanMessage("Say hello.")])


@pytest.mark.parametrize("seed", range(10))
def test_no_thought_is_in_the_visible_answer(thinker, seed):
    answer, seen = heard(lambda: thinker.invoke(FOX, seed=seed, temperature=1.5, max_tokens=60))
    assert "<think>" not in answer.content and "</think>" not in answer.content
    assert answer.additional_kwargs["reasoning_content"]
    text = "".join(event.text for event in tokens_of(seen))
    answered = text.rsplit("</think>", 1)[1] if "</think>" in text else ""
    assert answer.content == answered.strip(BLANK), "what is shown lies behind the last close"


def test_thinking_can_be_left_out_of_the_prompt_by_the_template(tmp_path):
    template = tiny.THINKING_TEMPLATE + "{% if not enable_thinking %}<think></think>{% endif %}"
    model = LocalChatModel.load(owner().call(tiny.make, tmp_path / "m", tiny.QWEN3, template))
    quiet = model.model_copy(update={"thinking": False})
    extra = quiet.prompt_tokens(FOX)[len(model.prompt_tokens(FOX)):]
    assert model.count_tokens("<think></think>") == len(extra) == 2


# --- closing and cancel -----------------------------------------------------------------------------------------------


def fed(model):
    """Tokens of the conversation that the engine finished last."""
    return owner().call(lambda: len(list(model.engine.prefix.entries.values())[-1].tokens))


@pytest.fixture
def long(small):
    """A model that would write for a long time: taking the likeliest token each time, it never comes to its end mark."""
    model = small.with_profile(max_tokens=1500, temperature=0, thinking_budget=1500)
    assert model.invoke(FOX, max_tokens=150).response_metadata["finish_reason"] == "length"
    owner().call(small.engine.prefix.clear)
    return model


def test_closing_a_stream_stops_the_engine(long):
    stream = long.stream(FOX)
    for _ in range(3):
        next(stream)
    stream.close()
    assert fed(long) < 1000
    assert long.invoke(FOX, max_tokens=3).usage_metadata["output_tokens"] == 3, "the engine is free"


def test_leaving_an_async_stream_stops_the_engine(long):
    async def leave():
        stream = long.astream(FOX)
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(leave())
    assert fed(long) < 1000


def test_a_cancelled_task_stops_the_engine(long):
    async def cancelled():
        begun = asyncio.Event()

        async def read():
            async for _ in long.astream(FOX):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert fed(long) < 1000


def test_a_cancelled_run_ends_with_what_it_has(long):
    event = threading.Event()
    with cancel.cancelled_by(event):
        chunks = []
        for chunk in long.stream(FOX):
            chunks.append(chunk)
            if len(chunks) == 3:
                event.set()
    answer = merged(chunks)
    assert answer.response_metadata["finish_reason"] == "cancel"
    assert 3 <= answer.usage_metadata["output_tokens"] < 1000
    assert long.invoke(FOX, max_tokens=2).response_metadata["finish_reason"] == "length", "the event counts for its run only"


def test_a_run_cancelled_before_it_begins_generates_nothing(bundled):
    event = threading.Event()
    event.set()
    with cancel.cancelled_by(event):
        answer, seen = heard(lambda: bundled.invoke("Say hello."))
    assert (answer.content, answer.response_metadata["finish_reason"]) == ("", "cancel")
    assert answer.usage_metadata["output_tokens"] == 0 == len(tokens_of(seen))


def test_a_call_under_way_when_the_run_is_cancelled_is_refused(small):
    event = threading.Event()
    model = small.bind_tools([schema("write", text={"type": "string", "minLength": 1000})], tool_choice="write")

    def sink(token):
        if isinstance(token, events.Token) and token.channel == "call" and token.origin == "sampled":
            event.set()

    with cancel.cancelled_by(event), events.listening(sink):
        answer = model.invoke(FOX, max_tokens=1500)
    assert answer.response_metadata["finish_reason"] == "cancel"
    assert answer.tool_calls == [] and len(answer.invalid_tool_calls) == 1
    assert "token limit" not in answer.invalid_tool_calls[0]["error"]


# --- events -----------------------------------------------------------------------------------------------------------


def test_each_token_is_told_with_its_chance_and_origin(bundled):
    answer, seen = heard(lambda: bundled.bind_tools(TOOLS, tool_choice="get_weather").invoke(ASK))
    told = tokens_of(seen)
    assert len(told) == answer.usage_metadata["output_tokens"]
    assert sum(event.origin == "forced" for event in told) == answer.response_metadata["forced_tokens"] > 5
    for event in told:
        assert event.origin in ("sampled", "forced")
        assert event.probability is None if event.origin == "forced" else 0 < event.probability <= 1
    text = "".join(event.text for event in told)
    assert text == owner().call(lambda: bundled.engine.tokenizer.decode([event.id for event in told]))
    assert text.startswith('<tool_call>\n{"name": "get_weather", "arguments": ')
    assert {event.channel for event in told} == {"call"}


def test_a_forced_close_of_the_thought_is_told_as_forced(thinker):
    answer, seen = heard(lambda: thinker.invoke(FOX, thinking_budget=3, seed=3))
    forced = [event for event in tokens_of(seen) if event.origin == "forced"]
    # On a spent budget a thought that is opened again is closed at once.
    assert {event.text for event in forced} == {"</think>"} and forced[0].channel == "thought"
    assert answer.usage_metadata["output_token_details"]["reasoning"] == 3


def test_one_report_of_reuse_names_both_tokens_of_the_first_difference(bundled):
    owner().call(bundled.engine.prefix.clear)
    _, first = heard(lambda: bundled.invoke([SystemMessage("Be brief."), HumanMessage("Say one.")], max_tokens=2))
    _, second = heard(lambda: bundled.invoke([SystemMessage("Be brief."), HumanMessage("Say two.")], max_tokens=2))
    [cold], [warm] = ([event for event in seen if isinstance(event, events.PrefixReuse)] for seen in (first, second))
    assert (cold.reused, cold.first_difference, cold.reason) == (0, None, "miss: nothing cached yet")
    assert 0 < warm.reused < warm.prompt
    assert warm.first_difference == f"token {warm.reused}: the cache holds ' one', the prompt has ' two'"
    assert warm.reason.startswith("hit")


def test_qwen3_1826_a_template_that_drops_thoughts_is_reported_with_its_first_differing_token(thinker):
    """Turn 2 shows turn 1 without its thought: the cache holds more than the prompt from there on."""
    owner().call(thinker.engine.prefix.clear)
    first = thinker.invoke(FOX, max_tokens=20)
    prompt = thinker.prompt_tokens(FOX)
    _, seen = heard(lambda: thinker.invoke([*FOX, first, HumanMessage("the lazy dog")], max_tokens=2))
    [report] = [event for event in seen if isinstance(event, events.PrefixReuse)]
    at = len(prompt) - thinker.count_tokens("<think>\n")
    assert report.reused == at
    assert report.first_difference.startswith(f"token {at}: the cache holds '<think>', the prompt has ")


# --- profile ----------------------------------------------------------------------------------------------------------


def test_settings_of_one_call_leave_the_model_as_it_was(bundled):
    before = bundled.profile
    assert bundled.invoke("Count to ten.", max_tokens=2).usage_metadata["output_tokens"] == 2
    assert bundled.bind(max_tokens=3).invoke("Count to ten.").usage_metadata["output_tokens"] == 3
    assert bundled.profile == before
    with pytest.raises(BadField, match="temperature is 9; allowed is 0.0 to 2.0"):
        bundled.invoke("hi", temperature=9)


def test_a_changed_profile_is_another_object_on_the_same_engine(bundled):
    other = bundled.with_profile(max_tokens=2, temperature=0)
    assert other.engine is bundled.engine and other.name == bundled.name
    assert (other.profile.max_tokens, bundled.profile.max_tokens) == (2, 60)
    assert other.invoke("Count to ten.").usage_metadata["output_tokens"] == 2
    with pytest.raises(BadField, match="'temperatur' is unknown"):
        bundled.with_profile(temperatur=1)


def test_a_changed_profile_keeps_everything_else(bundled):
    marked = bundled.model_copy(update={"tags": ["mine"], "metadata": {"a": 1}, "thinking": False})
    other = marked.with_profile(max_tokens=2)
    assert (other.tags, other.metadata, other.thinking) == (["mine"], {"a": 1}, False)


def test_the_name_reaches_every_message(thinker):
    assert thinker.invoke(FOX, max_tokens=2).response_metadata["model_name"] == "thinker"
    assert "thinker" in str(thinker._identifying_params)


def test_calls_and_results_of_a_history_are_shown_as_the_template_says(bundled):
    history = [*ASK, AIMessage("", tool_calls=[{"name": "get_weather", "args": {"city": "Lima"}, "id": "1"}]),
               ToolMessage("sunny", tool_call_id="1", name="get_weather"), AIMessage("It is sunny.")]
    text = owner().call(lambda: bundled.engine.tokenizer.decode(bundled.prompt_tokens(history, generation=False)))
    assert text.endswith('<|im_start|>assistant\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lima"}}\n</tool_call><|im_end|>\n'
                         "<|im_start|>user\n<tool_response>\nsunny\n</tool_response><|im_end|>\n<|im_start|>assistant\nIt is sunny.<|im_end|>\n")
