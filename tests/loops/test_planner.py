"""The planner: what it makes of any answer of a model, and how its plan enters a turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from agentkit.events import StepEnded, StepStarted, Token, ToolCalled, ToolReturned, listening
from agentkit.loops.build import build_agent
from agentkit.loops.planner import Planner, intercepted, read_plan
from agentkit.models import ScriptedChatModel, Step
from agentkit.models.errors import BadField
from agentkit.tools import tools_for
from tests.histories import assert_valid, call, calls

SIMPLE, COMPLEX = call("plan", kind="simple", steps=[]), call("plan", kind="complex", steps=["find it", "use it"])


def _agent(loop, *tape, tools=("calculator", "create_plan"), **options):
    return build_agent(loop, model=ScriptedChatModel(list(tape)), tools=tools_for(tools), **options)


@pytest.mark.parametrize(
    ("message", "steps"),
    [
        (COMPLEX, ["find it", "use it"]),
        (AIMessage('Sure! ```json\n{"kind": "complex", "steps": ["a", "b"]}\n```'), ["a", "b"]),
        (call("plan", kind="complex", steps=["a\n b", "", "a b", 7, "c"]), ["a b", "c"]),
        (call("plan", kind="complex", steps=[f"s{n}" for n in range(30)]), [f"s{n}" for n in range(8)]),
    ],
)
def test_a_complex_request_has_two_to_eight_steps(message, steps):
    plan = read_plan(message)
    assert (plan.kind, plan.steps) == ("complex", steps)


@pytest.mark.parametrize(
    "message",
    [
        SIMPLE,
        AIMessage(""),
        AIMessage("This is a complex request."),
        AIMessage('{"kind": "complex", "steps": ['),
        AIMessage('{"kind": "complex", "steps": "many"}'),
        AIMessage("[1, 2]"),
        call("plan"),
        call("plan", kind="complex"),
        call("plan", kind="complex", steps=["only one"]),
        call("plan", kind="complex", steps=None),
        call("plan", kind="complex", steps=7),
        call("plan", kind=["complex"], steps=["a", "b"]),
        call("other", kind="complex", steps=["a", "b"]),
        AIMessage("", invalid_tool_calls=[{"name": "plan", "args": "{", "id": "1", "error": "cut"}]),
    ],
)
def test_everything_else_is_simple(message):
    plan = read_plan(message)
    assert (plan.kind, plan.steps) == ("simple", []) and plan.why


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.sampled_from(["simple", "complex", "huge", None]) | _json, _json)
def test_whatever_a_model_calls_the_plan_can_be_carried_out(kind, steps):
    plan = read_plan(call("plan", kind=kind, steps=steps))
    assert (plan.kind == "complex") == (len(plan.steps) >= 2) and all(isinstance(s, str) and s for s in plan.steps)


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("Research fusion power.", "fusion power"),
        ("please research the history of Bangkok's canals", "the history of Bangkok's canals"),
        ("Could you do some in-depth research on  solid-state\n batteries?", "solid-state batteries"),
        ("Investigate why the bees are dying", "why the bees are dying"),
        ("Write me a research report on tides", "tides"),
        ("Find out everything about Ada Lovelace!", "Ada Lovelace"),
        ("research: ไทย", "ไทย"),
    ],
)
def test_a_clear_request_for_research_needs_no_model(question, topic):
    plan = intercepted(question)
    assert plan.kind == "research" and plan.steps[0].endswith(f"about {topic}") and len(plan.steps) == 4


@pytest.mark.parametrize(
    "question",
    [
        "What is research?",
        "Research is expensive. Why?",
        "He researched cats. What is a cat?",
        "Researchers found water. Where?",
        "research",
        "Explain the research of Darwin",
        "Should I investigate?",
        "What is 2+2?",
        "",
    ],
)
def test_what_only_speaks_of_research_is_not_intercepted(question):
    assert intercepted(question) is None


@pytest.mark.parametrize("loop", ["react", "planned"])
def test_research_seeds_create_plan_from_code_before_the_model_is_asked(loop):
    agent, heard = _agent(loop, "done", checkpointer=InMemorySaver()), []
    with listening(heard.append):
        result = agent.run("Research fusion power.", thread="t")
    assert (result.reason, result.answer, result.usage["model_calls"]) == ("answer", "done", 1)
    assert_valid(result.messages)
    assert [(e.name, len(e.args["steps"])) for e in heard if isinstance(e, ToolCalled)] == [("create_plan", 4)]
    assert [e.node for e in heard if isinstance(e, StepStarted)] == ["planner", "tools", "model"]
    state = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["kind"] == "research" and state["plan"][0] == "Search for sources about fusion power"
    # The model reads the plan as a result of its own call, and not a second time in front.
    assert [m.type for m in agent.model.calls[0].messages] == ["human", "ai", "tool"]


@pytest.mark.parametrize("loop", ["react", "planned"])
def test_a_complex_request_becomes_a_call_of_create_plan(loop):
    agent, heard = _agent(loop, COMPLEX, "done"), []
    with listening(heard.append):
        result = agent.run("q")
    assert [m.type for m in result.messages] == ["human", "ai", "tool", "ai"]
    assert [e.content for e in heard if isinstance(e, ToolReturned)][0].endswith("1. find it\n2. use it")
    asked = agent.model.calls[0]
    assert asked.options == {"tool_choice": "plan"} and [t["function"]["name"] for t in asked.tools] == ["plan"]
    assert "plan" not in [t["function"]["name"] for t in agent.model.calls[1].tools]  # hidden from the loop's model
    assert result.usage["model_calls"] == 2


@pytest.mark.parametrize("loop", ["react", "planned"])
def test_a_simple_request_leaves_no_trace_in_the_history(loop):
    agent, heard = _agent(loop, SIMPLE, "done"), []
    with listening(heard.append):
        result = agent.run("q")
    assert [m.type for m in result.messages] == ["human", "ai"]
    (change,) = [e.change for e in heard if isinstance(e, StepEnded) and e.node == "planner"]
    assert change == {"kind": "simple", "why": "the planner said so", "plan": []}


def test_without_the_tool_react_asks_no_planner_and_planned_shows_the_plan_in_front():
    agent = _agent("react", "done", tools=["calculator"])
    assert agent.run("Research tides").usage["model_calls"] == 1 and "planner" not in agent.graph.get_graph(xray=1).nodes
    agent = _agent("planned", COMPLEX, "done", SIMPLE, "again", tools=["calculator"], checkpointer=InMemorySaver())
    result = agent.run("q", thread="t")
    assert [m.type for m in result.messages] == ["human", "ai"]  # the note is for the model, not for the history
    system = agent.model.calls[1].messages[0]
    assert system.type == "system" and "1. find it\n2. use it" in system.text
    agent.run("And now?", thread="t")
    assert [m.type for m in agent.model.calls[3].messages] == ["human", "ai", "human"]  # the plan was the last turn's


@pytest.mark.parametrize(
    "planner",
    ["no JSON at all", Step(SIMPLE, fault="malformed"), Step(fault=ConnectionError("no route")), Step(fault=KeyError("x"))],
)
def test_a_planner_that_fails_makes_the_request_simple(planner):
    result = _agent("planned", planner, "done").run("q")
    assert (result.reason, result.answer) == ("answer", "done")


class _NoChoice(ScriptedChatModel):
    """A model, or a server, that refuses to be told which tool to call."""

    def bind_tools(self, tools, *, tool_choice=None, **kwargs):
        if tool_choice == "plan":
            raise BadField("tool_choice is not for this model")
        return super().bind_tools(tools, tool_choice=tool_choice, **kwargs)


def test_a_model_that_takes_no_tool_choice_is_asked_without():
    agent = build_agent("planned", model=_NoChoice([COMPLEX, "done"]), tools=tools_for(["create_plan"]))
    assert [m.type for m in agent.run("q").messages] == ["human", "ai", "tool", "ai"]


def test_a_model_that_knows_no_tools_is_asked_by_no_planner():
    model = GenericFakeChatModel(messages=iter([AIMessage("done")]))
    assert build_agent("planned", model=model).run("q").answer == "done"


def test_what_the_planner_writes_is_told_as_a_thought():
    heard = []
    with listening(heard.append):
        _agent("planned", "this is simple", "The answer.").run("q")
    tokens = [(e.channel, e.text) for e in heard if isinstance(e, Token)]
    assert "".join(text for channel, text in tokens if channel == "thought") == "this is simple"
    assert "".join(text for channel, text in tokens if channel == "answer") == "The answer."


@pytest.mark.parametrize("loop", ["lite", "react", "planned"])
def test_the_model_may_plan_by_itself_and_the_last_of_two_plans_counts(loop):
    two = calls(("create_plan", {"steps": ["a", "b"]}), ("create_plan", {"steps": ["c"]}))
    tape = [two, "done"] if loop == "lite" else [SIMPLE, two, "done"]
    agent = _agent(loop, *tape, checkpointer=InMemorySaver())
    assert agent.run("q", thread="t").reason == "answer"
    assert agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["plan"] == ["c"]


@pytest.mark.model
def test_the_bundled_model_writes_a_plan_that_can_be_read():
    from agentkit.models import load_model

    plan = Planner(load_model("bundled"), []).asked("What is 2+2?")
    assert plan.kind in ("simple", "complex") and "could not be" not in plan.why
