import asyncio
import copy
import json
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, message_chunk_to_message
from langchain_core.tools import tool

from agentkit import cancel, events
from agentkit.models import ScriptedChatModel, Step
from agentkit.models.errors import BadField, ModelUnavailable
from agentkit.models.messages import invalid_calls
from agentkit.models.scripted import TapeEnded

CALL = {
    "content": "Let me see.",
    "tool_calls": [{"name": "read", "args": {"path": "a b.txt", "lines": [1, 2]}}, {"name": "ls", "args": {}}],
}


@tool
def read(path: str) -> str:
    """Read a file."""
    return path


def merged(chunks):
    total = None
    for chunk in chunks:
        assert isinstance(chunk, AIMessageChunk)
        total = chunk if total is None else total + chunk
    return message_chunk_to_message(total)


def same(one, other):
    assert one.model_dump(exclude={"id"}) == other.model_dump(exclude={"id"})


async def collected(stream):
    return [item async for item in stream]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
a_message = st.builds(
    lambda content, thought, calls: {
        "content": content,
        "additional_kwargs": {"reasoning_content": thought} if thought else {},
        "tool_calls": [{"name": name, "args": args} for name, args in calls],
    },
    st.text(max_size=20),
    st.text(max_size=10),
    st.lists(
        st.tuples(st.sampled_from(["read", "ls"]), st.dictionaries(st.text(max_size=4), json_values, max_size=3)),
        max_size=3,
    ),
)


@given(message=a_message, size=st.none() | st.integers(1, 7), after=st.none() | st.integers(0, 12))
def test_merged_chunks_equal_the_invoked_message(message, size, after):
    step = Step(message, **({} if after is None else {"fault": "cut", "after": after}))
    whole = ScriptedChatModel([step], chunk_size=size).invoke("?")
    same(whole, merged(ScriptedChatModel([step], chunk_size=size).stream("?")))
    same(whole, merged(asyncio.run(collected(ScriptedChatModel([step], chunk_size=size).astream("?")))))
    same(whole, asyncio.run(ScriptedChatModel([step], chunk_size=size).ainvoke("?")))
    if after is None:
        assert whole.content == message["content"] and [c["args"] for c in whole.tool_calls] == [
            c["args"] for c in message["tool_calls"]
        ]


def test_texts_dicts_and_messages_come_in_order_and_the_end_says_how_many_there_were():
    model = ScriptedChatModel(["one", CALL, AIMessage("three")])
    assert [model.invoke("?").text for _ in range(3)] == ["one", "Let me see.", "three"]
    with pytest.raises(TapeEnded, match="3 messages"):
        model.invoke("?")
    with pytest.raises(TapeEnded, match="0 messages"):
        next(ScriptedChatModel().stream("?"))


def test_words_stream_one_by_one():
    chunks = [chunk.text for chunk in ScriptedChatModel(["Hello, big  world\n"]).stream("?")]
    assert chunks[:4] == ["Hello,", " big", "  world", "\n"] and not "".join(chunks[4:])
    pieces = [c.tool_call_chunks[0]["args"] for c in ScriptedChatModel([CALL]).stream("?") if c.tool_call_chunks]
    assert len(pieces) > 4 and "".join(pieces) == '{"path": "a b.txt", "lines": [1, 2]}{}'


def test_usage_and_metadata_are_filled():
    answer = ScriptedChatModel(["two words"], model_name="tape").invoke([HumanMessage("one two three")])
    assert answer.usage_metadata == {
        "input_tokens": 3,
        "output_tokens": 2,
        "total_tokens": 5,
        "input_token_details": {"cache_read": 0},
        "output_token_details": {"reasoning": 0},
    }
    assert answer.response_metadata == {"finish_reason": "stop", "model_name": "tape"}
    recorded = AIMessage(
        "x",
        response_metadata={"model_name": "real"},
        usage_metadata={"input_tokens": 9, "output_tokens": 9, "total_tokens": 18},
    )
    answer = ScriptedChatModel([recorded]).invoke("?")
    assert answer.response_metadata["model_name"] == "real" and answer.usage_metadata["total_tokens"] == 18


def test_bound_copies_share_the_tape_and_record_what_they_were_asked():
    model = ScriptedChatModel([CALL, "done"])
    bound = model.bind_tools([read], tool_choice="any")
    assert bound.invoke("first").tool_calls[0]["id"] == "call_1"
    assert model.invoke("second", stop=["x"]).text == "done"
    assert model.position == bound.position == 2
    first, second = model.calls
    assert first.messages == [HumanMessage("first")] and first.tools[0]["function"]["name"] == "read"
    assert first.options == {"tool_choice": "any"} and second.tools == [] and second.options == {"stop": ["x"]}
    assert model.tools == []
    assert copy.deepcopy(model).position == 2


def test_calls_get_ids_where_the_tape_has_none():
    model = ScriptedChatModel(
        [CALL, {"tool_calls": [{"name": "ls", "args": {}, "id": "mine"}, {"name": "ls", "args": {}}]}]
    )
    assert [c["id"] for _ in range(2) for c in model.invoke("?").tool_calls] == ["call_1", "call_2", "mine", "call_3"]


def test_an_exception_is_raised_once_and_the_tape_goes_on():
    model = ScriptedChatModel([TimeoutError("slow"), Step(fault=ModelUnavailable("gone")), "back"])
    with pytest.raises(TimeoutError, match="slow"):
        model.invoke("?")
    with pytest.raises(ModelUnavailable, match="gone"):
        list(model.stream("?"))
    assert model.invoke("?").text == "back"


def test_a_stream_can_break_in_the_middle():
    model = ScriptedChatModel([Step("one two three four", fault=ConnectionError("lost"), after=2)])
    seen = []
    with pytest.raises(ConnectionError, match="lost"):
        for chunk in model.stream("?"):
            seen.append(chunk.text)
    assert "".join(seen) == "one two"


def test_a_malformed_call_arrives_as_invalid_and_says_why():
    for answer in (
        ScriptedChatModel([Step(CALL, fault="malformed")]).invoke("?"),
        merged(ScriptedChatModel([Step(CALL, fault="malformed")]).stream("?")),
    ):
        assert answer.tool_calls == [] and len(answer.invalid_tool_calls) == 2
        first = invalid_calls(answer)[0]
        assert first["name"] == "read" and first["error"] and first["args"].startswith('<tool_call>\n{"name": "read"')


@pytest.mark.parametrize(
    "after, text, valid, invalid",
    [(0, "", 0, 0), (2, "Let me", 0, 0), (4, "Let me see.", 0, 1), (9, "Let me see.", 1, 0), (99, "Let me see.", 2, 0)],
)
def test_a_cut_answer_never_holds_a_torn_call_as_valid(after, text, valid, invalid):
    answer = merged(ScriptedChatModel([Step(CALL, fault="cut", after=after)]).stream("?"))
    assert (answer.text, len(answer.tool_calls), len(answer.invalid_tool_calls)) == (text, valid, invalid)
    assert answer.response_metadata["finish_reason"] == ("stop" if after == 99 else "length")


def test_a_repeated_message_never_ends_and_brings_fresh_ids():
    for tape in ([CALL, Step(fault="repeat")], [Step(CALL, fault="repeat"), "never"]):
        model = ScriptedChatModel(tape)
        ids = [model.invoke("?").tool_calls[0]["id"] for _ in range(5)]
        assert len(set(ids)) == 5
    named = ScriptedChatModel([Step(AIMessage("again", id="m1"), fault="repeat")])
    assert len({named.invoke("?").id for _ in range(3)}) == 3


def test_delays_are_waited_and_end_early_when_cancelled():
    start = time.monotonic()
    ScriptedChatModel([Step("x", delay=0.2)]).invoke("?")
    assert time.monotonic() - start >= 0.2
    stop = threading.Event()
    stop.set()
    start = time.monotonic()
    with cancel.cancelled_by(stop):
        answer = ScriptedChatModel([Step("x", delay=60)]).invoke("?")
        same(answer, merged(ScriptedChatModel([Step("x", delay=60)]).stream("?")))
        same(answer, merged(asyncio.run(collected(ScriptedChatModel([Step("x", delay=60)]).astream("?")))))
    assert time.monotonic() - start < 30 and answer.response_metadata["finish_reason"] == "cancel" and answer.text == ""


def test_a_cancel_in_the_middle_keeps_what_was_said():
    stop, chunks = threading.Event(), []
    with cancel.cancelled_by(stop):
        for chunk in ScriptedChatModel([{**CALL, "content": "one two three"}]).stream("?"):
            chunks.append(chunk)
            if len(chunks) == 2:
                stop.set()
    answer = merged(chunks)
    assert answer.text == "one two" and not answer.tool_calls and answer.usage_metadata["output_tokens"] == 2


def test_tokens_are_told_to_who_listens():
    heard = []
    with events.listening(heard.append):
        ScriptedChatModel(
            [
                {
                    "content": "so",
                    "additional_kwargs": {"reasoning_content": "hm"},
                    "tool_calls": [{"name": "ls", "args": {}}],
                }
            ]
        ).invoke("?")
    assert [(e.text, e.channel) for e in heard] == [("hm", "thought"), ("so", "answer"), ("{}", "call")]


def test_a_tape_survives_the_file(tmp_path):
    tape = [
        "one",
        CALL,
        TimeoutError("slow"),
        Step("late", delay=0.5),
        Step(CALL, fault="cut", after=3),
        Step(fault="repeat"),
        AIMessage([{"type": "text", "text": "ภาษาไทย"}]),
    ]
    path = tmp_path / "tape.json"
    ScriptedChatModel(tape).write_json(path)
    again = ScriptedChatModel.from_json(path, model_name="file")
    assert "ภาษาไทย" in path.read_text(encoding="utf-8")
    for before, after in zip(ScriptedChatModel(tape).tape, again.tape, strict=True):
        assert (before.message, before.delay, before.after) == (after.message, after.delay, after.after)
        assert repr(before.fault) == repr(after.fault)


def test_a_file_may_be_written_by_hand(tmp_path):
    path = tmp_path / "tape.json"
    path.write_text(
        json.dumps(
            [
                "hi",
                {"content": "slow", "delay": 0},
                {"fault": "raise", "error": "ModelUnavailable: no network"},
                {"fault": "raise", "error": "SomeError: odd"},
                {"fault": "raise"},
            ]
        )
    )
    kinds = [type(step.fault).__name__ for step in ScriptedChatModel.from_json(path).tape]
    assert kinds == ["NoneType", "NoneType", "ModelUnavailable", "RuntimeError", "RuntimeError"]


@pytest.mark.parametrize(
    "item, words",
    [
        ({"contents": "x"}, "contents"),
        (5, "int"),
        ({"content": "x", "fault": "burn"}, "burn"),
        ({"content": "x", "delay": -1}, "delay"),
        ({"content": "x", "delay": "1"}, "delay"),
        ({"content": "x", "after": -1}, "after"),
        ({"content": "x", "fault": "malformed"}, "tool_calls"),
        ({"fault": "repeat"}, "before it"),
        ({}, "needs a message"),
        ({"tool_calls": [{"name": 1}]}, "not understood"),
        ({"tool_calls": "x"}, "not understood"),
        ({"fault": "cut"}, "needs a message"),
        ({"fault": "malformed"}, "needs a message"),
    ],
)
def test_a_bad_tape_names_the_step(item, words):
    tape = ["fine", item] if "before it" not in words else [item]
    with pytest.raises(BadField, match=f"step {len(tape)}.*{words}"):
        ScriptedChatModel(tape)


@pytest.mark.parametrize("text", ["{", '{"a": 1}', None])
def test_a_bad_tape_file_is_named(tmp_path, text):
    path = tmp_path / "tape.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadField, match="tape.json"):
        ScriptedChatModel.from_json(path)


def test_chunk_size_has_a_lower_end():
    with pytest.raises(BadField, match="chunk_size"):
        ScriptedChatModel(["x"], chunk_size=0)


def test_it_drives_an_agent():
    from langchain.agents import create_agent

    model = ScriptedChatModel([{"tool_calls": [{"name": "read", "args": {"path": "a.txt"}}]}, "It says a.txt."])
    result = create_agent(model, [read]).invoke({"messages": [("user", "What is in a.txt?")]})
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"] and result["messages"][
        -1
    ].text == "It says a.txt."
    assert model.calls[0].tools[0]["function"]["name"] == "read"
