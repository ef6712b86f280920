"""Every way a turn can end: its reason, a valid history, and a thread on which the next question works."""

import threading
import time

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from agentkit.events import RunEnded, StepEnded, StepStarted, Token, ToolCalled, ToolReturned, listening
from agentkit.loops.build import build_agent
from agentkit.loops.history import UNFINISHED
from agentkit.loops.stop import GRACE, TurnEnded
from agentkit.models import GenerationProfile, Step
from tests.histories import assert_valid, call, calls
from tests.loops.conftest import GRAPH_LOOPS

SUM = {"expression": "1+1"}


@pytest.fixture(params=GRAPH_LOOPS)
def loop(request):
    return request.param


@tool
def sleepy(seconds: float) -> str:
    """Sleep, deaf to everything."""
    time.sleep(seconds)
    return "awake"


def _sums(count):
    """As many calls, no two alike: the guard against repetition has no say."""
    return [call("calculator", expression=f"{n}+1") for n in range(1, count + 1)]


def _limited(limit):
    return GenerationProfile(recursion_limit=limit)


def _then_asks_again(agent, result, reason, answer="fine"):
    """The common end of these tests: a valid history, and a next turn that sees it."""
    assert result.reason == reason
    assert_valid(result.messages)
    assert result.messages[-1].text == result.answer
    again = agent.run("And now?", thread="t")
    assert (again.reason, again.answer) == ("answer", answer)
    assert_valid(again.messages)
    assert [m.id for m in again.messages[: len(result.messages)]] == [m.id for m in result.messages]


@pytest.mark.parametrize(("limit", "results"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_limit(scripted, loop, limit, results):
    tape = [*_sums((limit + 1) // 2), "fine"]
    limit += loop == "planned"  # the planner's step counts
    agent = scripted(*tape, profile=_limited(limit), checkpointer=InMemorySaver())
    result = agent.run("Add for ever", thread="t")
    assert (
        "too large for one turn" in result.answer and "Split it" in result.answer and f"{limit} steps" in result.answer
    )
    assert [m.text for m in result.messages if m.type == "tool" and m.status == "success"] == ["2", "3"][:results]
    _then_asks_again(agent, result, "limit")


def test_an_answer_in_the_last_allowed_step_is_an_answer(scripted, loop):
    """LangGraph raises there: two steps for a tool round and one for the answer leave none to notice the end."""
    profile = _limited(3 + (loop == "planned"))
    agent = scripted(call("calculator", **SUM), "It is 2.", "fine", profile=profile, checkpointer=InMemorySaver())
    _then_asks_again(agent, agent.run("q", thread="t"), "answer")


def test_malformed_calls_are_corrected_by_feedback(scripted):
    bad = Step(call("calculator", **SUM), fault="malformed")
    agent = scripted(bad, bad, call("calculator", **SUM), "It is 2.")
    heard = []
    with listening(heard.append):
        result = agent.run("q")
    assert (result.reason, result.answer) == ("answer", "It is 2.")
    assert_valid(result.messages)
    assert [e.invalid for e in heard if isinstance(e, ToolCalled)] == ["the call is not valid JSON"] * 2 + [None]
    assert [e.status for e in heard if isinstance(e, ToolReturned)] == ["error", "error", "success"]
    asked_third = agent.model.calls[2].messages
    assert "not run: the call is not valid JSON. Write the whole call again" in asked_third[-1].text


def test_malformed_three_times_ends_the_turn(scripted):
    agent = scripted(*[Step(call("calculator", **SUM), fault="malformed")] * 3, "fine", checkpointer=InMemorySaver())
    result = agent.run("q", thread="t")
    assert agent.model.position == 3 and "well-formed tool call" in result.answer
    _then_asks_again(agent, result, "malformed")


def test_a_call_cut_by_the_token_limit_is_never_run(scripted):
    ran = []

    @tool
    def write(path: str, content: str) -> str:
        """Write."""
        ran.append(path)
        return "ok"

    result = scripted(
        Step(call("write", path="a.py", content="def f( and so on"), fault="cut", after=3),
        "I could not.",
        tools=[write],
    ).run("q")
    assert ran == [] and result.reason == "answer"
    assert_valid(result.messages)


def test_a_malformed_call_beside_a_sound_one(scripted):
    mixed = AIMessage(
        "",
        tool_calls=[{"name": "calculator", "args": SUM, "id": "good"}],
        invalid_tool_calls=[
            {"name": "calculator", "args": "{", "id": None, "error": "torn", "type": "invalid_tool_call"}
        ],
    )
    agent = scripted(mixed, "It is 2.")
    result = agent.run("q")
    assert result.answer == "It is 2." and agent.model.position == 2
    assert_valid(result.messages)
    assert sorted(m.status for m in result.messages if m.type == "tool") == ["error", "success"]


def test_a_malformed_call_without_tools_does_not_hang(scripted):
    result = scripted(*[Step(call("ghost"), fault="malformed")] * 3, tools=[]).run("q")
    assert result.reason == "malformed"


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("missing.pdf"),
        ToolException("bad"),
        ValueError("two\nlines"),
        KeyError("x"),
        TimeoutError(),
        RecursionError("deep"),
        SystemExit("bye"),
    ],
)
def test_a_tools_exception_becomes_a_result_with_status_error(scripted, error):
    @tool
    def fails() -> str:
        """Fail."""
        raise error

    result = scripted(call("fails"), "It failed.", tools=[fails]).run("q")
    (message,) = [m for m in result.messages if m.type == "tool"]
    assert (result.reason, message.status) == ("answer", "error")
    assert (
        message.text.startswith("Error: ")
        and "\n" not in message.text
        and str(error).split("\n")[0].strip("'") in message.text
    )


def test_unknown_tools_and_bad_arguments_are_told_to_the_model(scripted):
    result = scripted(call("nope"), call("calculator"), call("calculator", expression=5, more=1), "I give up.").run("q")
    told = [(m.status, m.text) for m in result.messages if m.type == "tool"]
    assert [status for status, _ in told] == ["error"] * 3
    assert "try one of [calculator]" in told[0][1] and "expression" in told[1][1]


def test_a_guards_own_exception_and_an_interrupt_are_not_tool_errors(scripted):
    @tool
    def guarded() -> str:
        """End the turn."""
        raise TurnEnded("guard", "The same call came three times.")

    @tool
    def approve() -> str:
        """Ask a person."""
        return interrupt("May I?")

    agent = scripted(call("guarded"), "fine", tools=[guarded], checkpointer=InMemorySaver())
    result = agent.run("q", thread="t")
    assert result.answer == "The same call came three times."
    _then_asks_again(agent, result, "guard")
    agent = scripted(call("approve"), "fine", tools=[approve], checkpointer=InMemorySaver())
    waiting = agent.run("q", thread="t")
    assert (waiting.reason, waiting.answer) == ("interrupt", "The run waits for a reply: May I?")
    again = agent.run("Never mind", thread="t")
    assert again.answer == "fine"
    assert_valid(again.messages)


def test_what_parallel_tools_finished_before_a_guard_ended_the_turn_is_kept(scripted):
    done = threading.Event()

    @tool
    def work() -> str:
        """Change the world."""
        done.set()
        return "changed"

    @tool
    def guarded() -> str:
        """End the turn."""
        done.wait(5)
        time.sleep(0.1)
        raise TurnEnded("guard", "Enough.")

    agent = scripted(calls(("work", {}), ("guarded", {})), "fine", tools=[work, guarded], checkpointer=InMemorySaver())
    result = agent.run("q", thread="t")
    assert [m.text for m in result.messages if m.type == "tool"] == ["changed", UNFINISHED]
    _then_asks_again(agent, result, "guard")


def test_the_models_own_failure(scripted):
    agent = scripted(Step(fault=ConnectionError("no route")), "fine", checkpointer=InMemorySaver())
    result = agent.run("q", thread="t")
    assert result.answer == "ConnectionError: no route" and isinstance(result.error, ConnectionError)
    _then_asks_again(agent, result, "error")


def test_a_stream_that_breaks_in_the_middle(scripted):
    agent = scripted(
        Step("one two three four", fault=ConnectionError("reset"), after=2), "fine", checkpointer=InMemorySaver()
    )
    _then_asks_again(agent, agent.run("q", thread="t"), "error")


# Under LANGGRAPH_STRICT_MSGPACK a graph works with a copy of its saver, so the switches below belong to the class.
def test_a_saver_that_fails_is_an_error_until_it_works_again(scripted):
    class Full(InMemorySaver):
        broken = True

        def put(self, *args, **kwargs):
            if self.broken:
                raise OSError("disk full")
            return super().put(*args, **kwargs)

    agent = scripted("one", "two", checkpointer=Full())
    failed = agent.run("q", thread="t")
    assert (failed.reason, failed.answer) == ("error", "OSError: disk full")
    Full.broken = False
    assert agent.run("q", thread="t").reason == "answer"


def test_a_thread_that_cannot_be_read_is_not_overwritten(scripted):
    class Unreadable(InMemorySaver):
        closed = False

        def get_tuple(self, config):
            if self.closed:
                raise OSError("not now")
            return super().get_tuple(config)

    agent = scripted("one", "two", "three", checkpointer=Unreadable())
    agent.run("first", thread="t")
    Unreadable.closed = True
    assert agent.run("second", thread="t").reason == "error"
    Unreadable.closed = False
    assert [m.text for m in agent.run("third", thread="t").messages] == ["first", "one", "third", "two"]


def _cancelled_when(agent, kind, **options):
    """Run, and cancel at the first event of a kind; returns the events, the result and the seconds since."""
    cancel, events, began = threading.Event(), [], None
    stream = agent.stream("q", cancel=cancel, **options)
    while True:
        try:
            events.append(next(stream))
        except StopIteration as end:
            return events, end.value, time.monotonic() - began
        # The planner's tokens are thoughts, the loop's own here are the answer.
        if isinstance(events[-1], kind) and getattr(events[-1], "channel", "answer") == "answer" and began is None:
            began = time.monotonic()
            cancel.set()


def test_cancel_inside_a_tool_that_does_not_listen(scripted):
    agent = scripted(call("sleepy", seconds=30), "fine", tools=[sleepy], checkpointer=InMemorySaver())
    events, result, seconds = _cancelled_when(agent, ToolCalled, thread="t")
    assert seconds < GRACE + 1
    assert len([e for e in events if isinstance(e, StepStarted)]) == len(
        [e for e in events if isinstance(e, StepEnded)]
    )
    assert isinstance(events[-1], RunEnded) and events[-1].reason == "cancel"
    _then_asks_again(agent, result, "cancel")


def test_cancel_while_a_model_speaks(scripted):
    words = 100_000  # the tape needs no time for a word: with few, a busy machine hears of the stop too late
    agent = scripted("word " * words, "fine", checkpointer=InMemorySaver())
    events, result, seconds = _cancelled_when(agent, Token, thread="t")
    assert len([e for e in events if isinstance(e, Token)]) < words
    _then_asks_again(agent, result, "cancel")


def test_cancel_while_a_foreign_model_speaks(loop):
    class Slow(GenericFakeChatModel):
        def _stream(self, *args, **kwargs):
            for chunk in super()._stream(*args, **kwargs):
                time.sleep(0.01)
                yield chunk

    agent = build_agent(loop, model=Slow(messages=iter([AIMessage("word " * 2000)])))
    events, result, seconds = _cancelled_when(agent, Token)
    assert result.reason == "cancel" and seconds < 1
    assert_valid(result.messages)


def test_cancel_while_a_model_is_deaf(loop):
    class Deaf(GenericFakeChatModel):
        def _generate(self, *args, **kwargs):
            time.sleep(20)

    agent = build_agent(loop, model=Deaf(messages=iter([]), disable_streaming=True))
    _, result, seconds = _cancelled_when(agent, StepStarted)
    assert result.reason == "cancel" and seconds < GRACE + 1


def test_cancel_before_the_start(scripted):
    agent, cancel = scripted("never"), threading.Event()
    cancel.set()
    result = agent.run("q", cancel=cancel)
    assert result.reason == "cancel" and agent.model.position == 0
    assert [m.type for m in result.messages] == ["human", "ai"]


def test_closing_the_stream_stops_the_run_and_leaves_no_worker(scripted):
    agent = scripted(*_sums(50), "never", checkpointer=InMemorySaver())
    stream = agent.stream("q", thread="t")
    for event in stream:
        if isinstance(event, ToolReturned):
            break
    stream.close()
    assert agent.model.position < 50
    assert not [t for t in threading.enumerate() if t.name.startswith("agentkit-run")]
    saved = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    assert_valid(saved)
    assert saved[-1].text == "Stopped."


def test_runs_without_a_thread_do_not_meet_though_there_is_a_saver(scripted):
    agent = scripted("one", "two", checkpointer=InMemorySaver())
    assert agent.run("first").messages[0].text == "first"
    assert [m.text for m in agent.run("second").messages] == ["second", "two"]


def test_a_thread_broken_by_another_program_is_repaired_before_the_next_question(scripted, loop):
    first = scripted("fine", checkpointer=InMemorySaver())
    broken = [
        HumanMessage("old"),
        AIMessage("", tool_calls=[{"name": "calculator", "args": SUM, "id": "lost"}]),
        HumanMessage("newer"),
    ]
    first.graph.update_state({"configurable": {"thread_id": "t"}}, {"messages": broken}, as_node="react" if loop == "react" else "tools")
    result = first.run("newest", thread="t")
    assert_valid([m for m in result.messages if m.text != "newer"])
    asked = first.model.calls[0].messages
    assert [m.text for m in asked] == [
        "old",
        "",
        UNFINISHED,
        "newer",
        asked[4].text,
        "newest",
    ] and "broke off" in asked[4].text
