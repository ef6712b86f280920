"""The events of a run: which, in what order, and from which models."""

import json
import threading
import time

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from agentkit.events import RunEnded, RunStarted, StepEnded, StepStarted, Token, ToolCalled, ToolReturned, listening
from agentkit.loops.build import build_agent
from agentkit.models import GenerationProfile, Step
from agentkit.models.errors import AgentkitError
from tests.histories import call, calls


def _drained(stream):
    events = []
    while True:
        try:
            events.append(next(stream))
        except StopIteration as end:
            return events, end.value


def test_a_turn_told_from_start_to_end(scripted):
    events, result = _drained(
        scripted(call("calculator", expression="23*19"), "It is 437.").stream("What is 23 times 19?")
    )
    assert [type(e).__name__ for e in events if not isinstance(e, Token)] == [
        "RunStarted",
        "StepStarted",
        "ToolCalled",
        "StepEnded",
        "StepStarted",
        "ToolReturned",
        "StepEnded",
        "StepStarted",
        "StepEnded",
        "RunEnded",
    ]
    assert [(e.step, e.node) for e in events if isinstance(e, StepStarted)] == [
        (1, "model"),
        (2, "tools"),
        (3, "model"),
    ]
    assert "".join(e.text for e in events if isinstance(e, Token) and e.channel == "answer") == "It is 437."
    start, end = events[0], events[-1]
    assert (start.loop, start.model, start.question, start.thread, start.limit) == (
        "lite",
        "scripted",
        "What is 23 times 19?",
        None,
        60,
    )
    assert (end.reason, end.answer) == ("answer", "It is 437.") == (result.reason, result.answer)
    called, returned = (next(e for e in events if isinstance(e, kind)) for kind in (ToolCalled, ToolReturned))
    assert (called.id, called.name, called.args) == (returned.id, "calculator", {"expression": "23*19"})
    assert (returned.content, returned.status) == ("437", "success") and returned.seconds is not None
    assert all(a.at <= b.at for a, b in zip(events, events[1:]))


def test_each_event_is_json_and_a_step_shows_its_change(scripted):
    events, _ = _drained(scripted(call("calculator", expression="6*7"), "42").stream("q"))
    for event in events:
        json.dumps(event.as_dict())
    changes = [e.change["messages"] for e in events if isinstance(e, StepEnded)]
    assert [[m["type"] for m in change] for change in changes] == [["ai"], ["tool"], ["ai"]]
    assert changes[0][0]["tool_calls"][0]["args"] == {"expression": "6*7"} and changes[1][0]["content"] == "42"


def test_parallel_calls_are_one_step_whose_results_keep_the_order_of_the_calls(scripted):
    @tool
    def nap(seconds: float, name: str) -> str:
        """Sleep."""
        time.sleep(seconds)
        return name

    wanted = calls(("nap", {"seconds": 0.2, "name": "slow"}), ("nap", {"seconds": 0, "name": "quick"}))
    events, result = _drained(scripted(wanted, "done", tools=[nap]).stream("q"))
    assert [(e.step, e.node) for e in events if isinstance(e, StepStarted)] == [
        (1, "model"),
        (2, "tools"),
        (3, "model"),
    ]
    assert [e.content for e in events if isinstance(e, ToolReturned)] == ["quick", "slow"]
    (step,) = [e for e in events if isinstance(e, StepEnded) and e.node == "tools"]
    assert [m["content"] for m in step.change["messages"]] == ["slow", "quick"]
    assert [m.content for m in result.messages if m.type == "tool"] == ["slow", "quick"]


def test_events_come_while_the_run_goes_on(scripted):
    gate = threading.Event()

    @tool
    def wait() -> str:
        """Wait for the test."""
        return str(gate.wait(5))

    stream = scripted(call("wait"), "ok", tools=[wait]).stream("q")
    for event in stream:
        if isinstance(event, ToolCalled):
            gate.set()  # were the events held back, the tool would wait in vain
        if isinstance(event, ToolReturned):
            assert event.content == "True"


@pytest.mark.parametrize(
    "model",
    [
        GenericFakeChatModel(messages=iter([AIMessage("one two three")])),  # streams by itself, emits nothing
        FakeListChatModel(responses=["one two three"]),
    ],
)
def test_a_model_that_emits_no_tokens_has_its_stream_told(model):
    events, result = _drained(build_agent(model=model).stream("q"))
    tokens = [e for e in events if isinstance(e, Token)]
    assert "".join(e.text for e in tokens) == "one two three" == result.answer
    assert len(tokens) > 2 and {e.channel for e in tokens} == {"answer"}


def test_a_model_that_cannot_stream_is_told_in_one_piece():
    model = GenericFakeChatModel(messages=iter([AIMessage("whole")]), disable_streaming=True)
    events, _ = _drained(build_agent(model=model).stream("q"))
    assert [e.text for e in events if isinstance(e, Token)] == ["whole"]


def test_tokens_that_a_model_emits_itself_are_not_told_twice(scripted):
    thought = AIMessage("The answer.", additional_kwargs={"reasoning_content": "Let me think. "})
    events, _ = _drained(scripted(thought, tools=[]).stream("q"))
    assert "".join(e.text for e in events if isinstance(e, Token)) == "Let me think. The answer."


def test_a_listener_around_run_hears_the_same_events(scripted):
    heard = []
    with listening(heard.append):
        result = scripted("hello").run("q")
    assert isinstance(heard[0], RunStarted) and isinstance(heard[-1], RunEnded) and result.answer == "hello"


def test_a_listener_that_fails_ends_the_run_with_its_error_instead_of_a_hang(scripted):
    def fail(event):
        raise RuntimeError("view broke")

    with listening(fail), pytest.raises(RuntimeError, match="view broke"):
        scripted("hello").run("q")


def test_two_runs_at_once_do_not_mix(scripted):
    results = {}

    def ask(name):
        agent = scripted(
            *[Step(call("calculator", expression=f"1+{n}"), delay=0.005) for n in range(5)],
            f"I am {name}.",
        )
        results[name] = _drained(agent.stream(f"I am {name}"))

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, (events, result) in results.items():
        assert result.answer == f"I am {name}." and len([e for e in events if isinstance(e, ToolCalled)]) == 5
        assert events[0].question == f"I am {name}"


def test_usage_counts_every_model_call_of_the_turn(scripted):
    result = scripted(
        Step(call("calculator", expression="1+1"), fault="malformed"), call("calculator", expression="1+1"), "It is 2."
    ).run("q")
    spoken = [m.usage_metadata for m in result.messages if m.type == "ai"]
    assert result.usage["model_calls"] == 3 and result.usage["tool_calls"] == 1
    assert result.usage["prompt_tokens"] == sum(u["input_tokens"] for u in spoken)
    assert result.usage["generated_tokens"] == sum(u["output_tokens"] for u in spoken)
    assert result.seconds > 0 and result.error is None


@pytest.mark.parametrize(
    ("question", "thread", "said"),
    [
        ("", None, "question is empty"),
        (" \n", None, "question is empty"),
        ("q", "t", "no checkpointer"),
        ("q", " ", "1 to 200"),
        ("q", "x" * 201, "1 to 200"),
    ],
)
def test_bad_arguments_raise_before_anything_runs(scripted, question, thread, said):
    agent = scripted("never")
    with pytest.raises(AgentkitError, match=said):
        agent.stream(question, thread)
    assert agent.model.position == 0


def test_unknown_loops_and_tools_of_one_name(scripted):
    with pytest.raises(AgentkitError, match="loop 'nope' is unknown; known are lite"):
        scripted("x", loop="nope")
    first = scripted("x").tools[0]
    with pytest.raises(AgentkitError, match="same name: calculator"):
        scripted("x", tools=[first, first])


def test_the_limit_reaches_langgraph_at_the_top_level_of_the_config(scripted):
    from langgraph.config import get_config

    seen = []

    @tool
    def look() -> str:
        """Look at the config."""
        seen.append(get_config()["recursion_limit"])
        assert "recursion_limit" not in get_config()["configurable"]
        return "seen"

    scripted(call("look"), "ok", tools=[look]).run("q")
    scripted(call("look"), "ok", tools=[look], profile=GenerationProfile(recursion_limit=7)).run("q")
    assert seen == [60, 7]
