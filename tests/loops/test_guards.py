"""The guards: what each lets pass, hints at and stops, told as events; afterwards the thread goes on."""

import threading
import time

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver

from agentkit.events import GuardVerdict, ToolReturned, listening
from agentkit.loops import guards
from agentkit.loops.guards import HINT, ToolLoopDetected, before_tool, fingerprint
from agentkit.loops.stop import TurnEnded
from agentkit.models import GenerationProfile, Step
from agentkit.models.errors import BadField
from tests.histories import assert_valid, call, calls
from tests.loops.conftest import GRAPH_LOOPS

SUM = {"expression": "1+1"}


@pytest.fixture(params=GRAPH_LOOPS)
def loop(request):
    return request.param


@pytest.fixture
def saver(tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        yield saver


@pytest.fixture
def heard():
    events = []
    with listening(events.append):
        yield events


def verdicts(heard):
    return [(e.guard, e.verdict) for e in heard if isinstance(e, GuardVerdict)]


def _ran(heard):
    return [e.content for e in heard if isinstance(e, ToolReturned) and e.seconds is not None]


def _goes_on(agent, result, reason):
    assert result.reason == reason
    assert_valid(result.messages)
    assert result.messages[-1].text == result.answer
    again = agent.run("And now?", thread="t")
    assert (again.reason, again.answer) == ("answer", "fine")
    assert_valid(again.messages)
    assert [m.id for m in again.messages[: len(result.messages)]] == [m.id for m in result.messages]


# In the loops


def test_the_second_call_gets_a_hint_with_the_earlier_result_and_the_third_ends_the_turn(scripted, saver, heard):
    agent = scripted(*[call("calculator", **SUM)] * 3, "fine", checkpointer=saver)
    result = agent.run("q", thread="t")
    assert _ran(heard) == ["2"]
    first, hint, stopped = [m for m in result.messages if m.type == "tool"]
    assert first.text == "2" and hint.text.startswith(HINT) and hint.text.endswith("\n2") and stopped.status == "error"
    assert verdicts(heard) == [("repeated_call", "hint"), ("repeated_call", "stop")]
    assert 'calculator(expression="1+1") 3 times in a row' in result.answer and "smaller steps" in result.answer
    _goes_on(agent, result, "guard")


def test_who_reads_the_hint_and_answers_has_an_answer(scripted, saver, heard):
    agent = scripted(call("calculator", **SUM), call("calculator", **SUM), "It is 2.", "fine", checkpointer=saver)
    _goes_on(agent, agent.run("q", thread="t"), "answer")
    assert verdicts(heard) == [("repeated_call", "hint")]


def test_a_new_turn_may_make_the_last_ones_call(scripted, saver, heard):
    agent = scripted(call("calculator", **SUM), "2", call("calculator", **SUM), "2 again", checkpointer=saver)
    for _ in range(2):
        assert agent.run("What is 1+1?", thread="t").reason == "answer"
    assert _ran(heard) == ["2", "2"] and verdicts(heard) == []


def test_changed_arguments_are_never_blocked(scripted, heard):
    changing = [call("calculator", expression=f"{n}+1") for n in range(10)]
    assert scripted(*changing, "done").run("q").reason == "answer"
    assert len(_ran(heard)) == 10 and verdicts(heard) == []


def test_the_same_call_twice_in_one_message_runs_once_and_ends_nothing(scripted, saver, heard):
    pair = ("calculator", SUM)
    agent = scripted(calls(pair, pair, pair), "2", "fine", checkpointer=saver)
    result = agent.run("q", thread="t")
    assert _ran(heard) == ["2"]
    assert [m.text.startswith(HINT) for m in result.messages if m.type == "tool"] == [False, True, True]
    _goes_on(agent, result, "answer")


def test_after_a_message_of_doubles_the_next_repetition_ends_the_turn(scripted, saver, heard):
    pair = ("calculator", SUM)
    agent = scripted(calls(pair, pair), calls(pair), "fine", checkpointer=saver)
    _goes_on(agent, agent.run("q", thread="t"), "guard")


def test_alternating_calls_are_reported_and_run(scripted, heard):
    a, b = call("calculator", expression="1+1"), call("calculator", expression="2+2")
    assert scripted(a, b, a, b, a, b, "done").run("q").reason == "answer"
    assert verdicts(heard) == [("alternating_calls", "warn")] * 2 and len(_ran(heard)) == 6
    assert "alternate, 2 times" in next(e.detail for e in heard if isinstance(e, GuardVerdict))


def test_malformed_calls_in_a_row(scripted, saver, heard):
    bad = Step(call("calculator", **SUM), fault="malformed")
    agent = scripted(bad, bad, bad, "fine", checkpointer=saver)
    result = agent.run("q", thread="t")
    assert verdicts(heard) == [("malformed_call", "hint")] * 2 + [("malformed_call", "stop")]
    _goes_on(agent, result, "malformed")


def test_a_sound_call_begins_the_count_of_malformed_ones_anew(scripted, heard):
    bad = Step(call("calculator", **SUM), fault="malformed")
    tape = [bad, bad, call("calculator", expression="1+1"), bad, bad, call("calculator", expression="2+2"), "done"]
    assert scripted(*tape).run("q").reason == "answer"


def test_the_token_budget_ends_a_turn_between_two_calls_of_the_model(scripted, saver, heard):
    wordy = calls(("calculator", SUM), text="word " * 100)
    agent = scripted(wordy, "fine", checkpointer=saver, profile=GenerationProfile(token_budget=90))
    result = agent.run("q", thread="t")
    used = result.usage["prompt_tokens"] + result.usage["generated_tokens"]
    assert verdicts(heard) == [("token_budget", "stop")] and _ran(heard) == ["2"]
    assert f"budget: {used} tokens" in result.answer and "90 are allowed" in result.answer
    _goes_on(agent, result, "budget")


@tool
def slow() -> str:
    """Look at nothing for a long time."""
    time.sleep(20)
    return "late"


def test_the_clock_ends_a_turn_inside_a_tool_that_is_deaf(scripted, saver, heard):
    agent = scripted(call("slow"), "fine", tools=[slow], checkpointer=saver, profile=GenerationProfile(time_limit=0.5))
    began = time.monotonic()
    result = agent.run("q", thread="t")
    assert time.monotonic() - began < 3 and verdicts(heard) == [("wall_clock", "stop")]
    assert "longer than the 0.5 seconds" in result.answer
    agent.profile = GenerationProfile()  # the next turn's time is not what this is about
    _goes_on(agent, result, "clock")


def test_the_clock_ends_a_turn_while_the_model_speaks(scripted, saver, heard):
    agent = scripted(Step("late", delay=20), "fine", checkpointer=saver, profile=GenerationProfile(time_limit=0.5))
    result = agent.run("q", thread="t")
    agent.profile = GenerationProfile()
    _goes_on(agent, result, "clock")


def test_a_clock_that_did_not_ring_leaves_nothing_behind(scripted, heard):
    cancel = threading.Event()
    assert scripted("done", profile=GenerationProfile(time_limit=60)).run("q", cancel=cancel).reason == "answer"
    assert not [t for t in threading.enumerate() if isinstance(t, threading.Timer) and not t.finished.is_set()]
    assert verdicts(heard) == []


def test_a_user_who_stops_first_is_told_so_and_not_that_time_was_up(scripted):
    cancel = threading.Event()
    agent = scripted(call("slow"), tools=[slow], profile=GenerationProfile(time_limit=2))
    threading.Timer(0.2, cancel.set).start()
    assert agent.run("q", cancel=cancel).reason == "cancel"


def test_the_recursion_limit_is_a_verdict_too(scripted, heard):
    endless = [call("calculator", expression=f"{n}+1") for n in range(9)]
    result = scripted(*endless, profile=GenerationProfile(recursion_limit=5)).run("q")
    assert result.reason == "limit" and verdicts(heard) == [("recursion_limit", "stop")]


def test_a_limit_inside_configurable_is_refused(scripted):
    agent = scripted("never")
    config = {"configurable": {"recursion_limit": 5, "thread_id": "t"}}
    with pytest.raises(BadField, match="recursion_limit is 5 inside `configurable`.*top level"):
        agent.graph.invoke({"messages": [HumanMessage("q")]}, config)


def test_a_graph_that_is_run_without_its_agent_is_guarded_and_limited_as_well(scripted):
    agent = scripted(*[call("calculator", **SUM)] * 3, profile=GenerationProfile(recursion_limit=60))
    with pytest.raises(ToolLoopDetected):
        agent.graph.invoke({"messages": [HumanMessage("q")]})
    assert agent.graph.config["recursion_limit"] == 60


# By themselves


def _asked(*messages):
    """A turn: a question, and calls with their results in order; the last call is the one to judge."""
    history, number = [HumanMessage("q")], 0
    for pairs in messages:
        made = [{"name": name, "args": args, "id": f"c{(number := number + 1)}"} for name, args in pairs]
        history.append(AIMessage("", tool_calls=made))
        history += [ToolMessage(f"result {c['id']}", tool_call_id=c["id"], name=c["name"]) for c in made]
    last = made[-1]
    del history[-len(made) :]
    return last, history


def test_search_words_are_compared_without_case_and_spaces_and_other_arguments_exactly():
    one = {"name": "web_search", "args": {"query": " Thai  Food\n", "limit": 3}}
    assert fingerprint(one) == fingerprint({"name": "web_search", "args": {"limit": 3, "query": "thai food"}})
    assert fingerprint(one) != fingerprint({"name": "web_search", "args": {"limit": 4, "query": "thai food"}})
    assert fingerprint({"name": "bash", "args": {"c": "ls -A"}}) != fingerprint({"name": "bash", "args": {"c": "ls -a"}})
    assert fingerprint({"name": "f", "args": {"n": 1}}) != fingerprint({"name": "f", "args": {"n": True}})


@pytest.mark.parametrize("query", ["Thai food", "thai  FOOD ", "THAI\tFOOD"])
def test_a_search_in_other_letters_is_the_same_search(query):
    hint = before_tool(*_asked([("web_search", {"query": "thai food"})], [("web_search", {"query": query})]))
    assert hint.text.startswith(HINT) and hint.text.endswith("result c1")


def test_only_calls_in_a_row_count():
    a, b = ("f", {"x": 1}), ("f", {"x": 2})
    assert before_tool(*_asked([a], [b], [a])) is None
    assert before_tool(*_asked([a], [a], [b], [a])) is None
    with pytest.raises(ToolLoopDetected) as end:
        before_tool(*_asked([b], [a], [a], [a]))
    assert isinstance(end.value, TurnEnded) and end.value.reason == "guard"


def test_no_more_of_a_long_turn_is_read_than_is_needed():
    class Watched(list):
        read = 0

        def __getitem__(self, place):
            self.read += 1
            return super().__getitem__(place)

    rounds = [(call("f", x=n), ToolMessage("ok", tool_call_id="call_1")) for n in range(200)]
    messages = Watched([HumanMessage("q"), *(message for pair in rounds for message in pair), call("f", x=200)])
    assert before_tool(messages[-1].tool_calls[0], messages) is None and messages.read < 20


def test_servers_that_give_every_call_the_same_id_do_not_fool_the_guard():
    call_, history = _asked([("f", {})], [("f", {})], [("f", {})])
    for message in history:
        for made in getattr(message, "tool_calls", []):
            made["id"] = "call_0"
    with pytest.raises(ToolLoopDetected):
        before_tool(call_ | {"id": "call_0"}, history)


def test_a_hint_keeps_the_status_of_the_earlier_result_and_cuts_a_very_long_one():
    call_, history = _asked([("f", {})], [("f", {})])
    history[2] = ToolMessage("x" * 9000, tool_call_id="c1", status="error")
    hint = before_tool(call_, history)
    assert hint.status == "error" and len(hint.text) < 5000 and "the whole is above" in hint.text


def test_the_budget_does_not_count_what_the_cache_gave():
    from agentkit.loops.result import Usage

    usage = Usage()
    usage.prompt, usage.cached, usage.generated = 100, 90, 5
    guards.Limits(16, 0, usage).check_budget()
    with pytest.raises(TurnEnded) as end:
        guards.Limits(15, 0, usage).check_budget()
    assert end.value.reason == "budget"
