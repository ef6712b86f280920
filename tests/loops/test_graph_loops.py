"""`react` and `planned` beside `lite`: one set of events, one result, and what their graphs look like."""

import threading
from itertools import permutations
from typing import Annotated

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt

from agentkit.events import CheckpointSaved, RunStarted, StepStarted, Token, ToolReturned, listening
from agentkit.loops.build import LOOPS, build_agent
from agentkit.loops.nodes import open_calls, should_continue
from agentkit.loops.state import AgentState
from agentkit.models import GenerationProfile, ScriptedChatModel
from tests.histories import assert_valid, call, calls
from tests.loops.conftest import GRAPH_LOOPS

ROUND = [call("calculator", expression="1+1"), call("nope"), "done"]


@pytest.fixture(params=GRAPH_LOOPS)
def loop(request):
    return request.param


def _told(agent, **options):
    heard = []
    with listening(heard.append):
        result = agent.run("q", **options)
    return heard, result


def test_react_is_the_loop_unless_another_is_named():
    assert build_agent(model=ScriptedChatModel([])).loop == "react"


@pytest.mark.parametrize(("first", "then"), list(permutations(GRAPH_LOOPS, 2)))
def test_a_thread_goes_on_in_another_loop_even_if_its_last_turn_was_left_open(scripted, first, then):
    @tool
    def wait() -> str:
        """Wait for a reply that nobody gives."""
        return interrupt("Well?")

    saver = InMemorySaver()
    left = scripted("hi", call("wait"), loop=first, tools=[wait], checkpointer=saver)
    assert [left.run(question, thread="t").reason for question in ("Hello", "Wait")] == ["answer", "interrupt"]
    result = scripted("fine", loop=then, tools=[wait], checkpointer=saver).run("And now?", thread="t")
    assert (result.reason, result.answer) == ("answer", "fine") and [m.text for m in result.messages[:2]] == ["Hello", "hi"]
    assert_valid(result.messages)


def test_all_loops_tell_the_same_course_in_the_same_words_and_order(scripted):
    told = {}
    for name in GRAPH_LOOPS:
        heard, result = _told(scripted(*ROUND, loop=name, checkpointer=InMemorySaver()), thread="t")
        told[name] = [
            (type(e).__name__, getattr(e, "node", getattr(e, "content", getattr(e, "name", ""))))
            for e in heard
            if not isinstance(e, CheckpointSaved | Token)
        ]
        assert heard[0].loop == name and result.answer == "done" and result.usage["tool_calls"] == 2
        assert any(isinstance(e, CheckpointSaved) for e in heard)
    assert told["react"] == told["lite"]
    assert [pair for pair in told["planned"] if pair[1] != "planner"] == told["lite"]


def test_the_limit_that_is_told_is_the_one_that_counts(scripted, loop):
    heard, _ = _told(scripted("done", profile=GenerationProfile(recursion_limit=7)))
    assert [e.limit for e in heard if isinstance(e, RunStarted)] == [7]


def test_react_is_one_node_that_is_a_graph(scripted):
    graph = scripted("x", loop="react").graph
    assert set(graph.get_graph().nodes) == {"__start__", "react", "__end__"}
    inner = dict(graph.get_subgraphs())["react"]
    assert set(inner.get_graph().nodes) == {"__start__", "model", "tools", "__end__"}
    assert "react:model" in graph.get_graph(xray=True).nodes


def test_the_loops_are_registered_in_the_order_of_the_lessons_and_share_one_state(scripted):
    assert set(GRAPH_LOOPS) < set(LOOPS)
    for name in GRAPH_LOOPS:
        assert set(AgentState.__annotations__) <= set(scripted("x", loop=name).graph.channels)


def test_a_step_of_react_is_a_superstep_of_its_inner_graph_and_saved_there(scripted):
    saver = InMemorySaver()
    heard, _ = _told(scripted(*ROUND, loop="react", checkpointer=saver), thread="t")
    assert [(e.step, e.node) for e in heard if isinstance(e, StepStarted)] == [
        (1, "model"),
        (2, "tools"),
        (3, "model"),
        (4, "tools"),
        (5, "model"),
    ]
    inner = [place for place in saver.storage["t"] if place.startswith("react:")]
    assert len(inner) == 1 and len(saver.storage["t"][inner[0]]) >= 5


def test_a_tool_may_read_the_state_and_change_it(scripted, loop):
    @tool
    def count(state: Annotated[dict, InjectedState]) -> str:
        """Count the messages."""
        return str(len(state["messages"]))

    @tool
    def decide(state: Annotated[dict, InjectedState]) -> Command:
        """Decide on a plan."""
        from langchain_core.messages import ToolMessage

        id = state["messages"][-1].tool_calls[0]["id"]
        return Command(update={"plan": ["a"], "messages": [ToolMessage("decided", tool_call_id=id)]})

    agent = scripted(call("count"), call("decide"), "done", tools=[count, decide], checkpointer=InMemorySaver())
    heard, result = _told(agent, thread="t")
    assert_valid(result.messages)
    assert [e.content for e in heard if isinstance(e, ToolReturned)] == ["2", "decided"]
    assert agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["plan"] == ["a"]


def test_parallel_calls_run_at_the_same_time_and_keep_their_order(scripted, loop):
    both = threading.Barrier(2, timeout=10)

    @tool
    def meet(name: str) -> str:
        """Wait for the other one."""
        both.wait()
        return name

    result = scripted(calls(("meet", {"name": "a"}), ("meet", {"name": "b"})), "done", tools=[meet]).run("q")
    assert [m.text for m in result.messages if m.type == "tool"] == ["a", "b"]


def test_tokens_come_once(scripted, loop):
    heard, _ = _told(scripted("one two three"))
    assert "".join(e.text for e in heard if isinstance(e, Token) and e.channel == "answer") == "one two three"


def test_should_continue_sends_each_call_without_a_result_and_else_ends():
    question = HumanMessage("q")
    message = calls(("f", {}), ("g", {}))
    for number, made in enumerate(message.tool_calls):
        made["id"] = str(number)
    assert should_continue({"messages": [question]}) == "__end__" == should_continue({"messages": []})
    assert [send.arg[0]["name"] for send in should_continue({"messages": [question, message]})] == ["f", "g"]
    from langchain_core.messages import ToolMessage

    assert [c["name"] for c in open_calls([question, message, ToolMessage("r", tool_call_id="0")])] == ["g"]
