"""The handmade loop: every course a turn can take, told by events, with real tools and a scripted model."""

import json
import threading
import time

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from agentkit.events import GuardVerdict, RunEnded, StepEnded, StepStarted, Token, ToolCalled, ToolReturned, listening
from agentkit.loops.build import build_agent
from agentkit.loops.handmade import BadFormat, Handmade, Tool
from agentkit.loops.history import UNFINISHED
from agentkit.loops.stop import GRACE, TurnEnded
from agentkit.models import GenerationProfile, ScriptedChatModel, Step
from agentkit.models.errors import BadField
from agentkit.tools.calculator import calculator_tool
from agentkit.tools.files import read_file_tool
from tests.histories import assert_valid, call


def act(name="calculator", text='{"expression": "23*19"}', thought="I need a tool."):
    return f"Thought: {thought}\nAction: {name}\nAction Input: {text}"


DONE = "Thought: I know it.\nFinal Answer: 437"


@pytest.fixture
def handmade(scripted):
    return lambda *tape, **options: scripted(*tape, loop="handmade", **options)


def _heard(agent, cancel_at=None, question="What is 23 times 19?"):
    """The events of a run and its result; an event of the kind `cancel_at` stops it."""
    cancel, events = threading.Event(), []
    stream = agent.stream(question, cancel=cancel)
    while True:
        try:
            events.append(next(stream))
        except StopIteration as end:
            assert_valid(end.value.messages)
            assert {m.type for m in end.value.messages} <= {"human", "ai"}
            return events, end.value
        if cancel_at and isinstance(events[-1], cancel_at):
            cancel.set()


def _of(events, *kinds):
    return [event for event in events if isinstance(event, kinds)]


def _names(events):
    return [type(event).__name__ for event in events if not isinstance(event, Token)]


ROUND = ["StepStarted", "ToolCalled", "ToolReturned", "StepEnded"]
LAST = ["StepStarted", "StepEnded", "RunEnded"]


def test_a_turn_told_from_start_to_end(handmade):
    events, result = _heard(handmade(act(), DONE))
    assert _names(events) == ["RunStarted", *ROUND, *LAST]
    assert (events[0].loop, events[0].limit, events[0].question) == ("handmade", 8, "What is 23 times 19?")
    assert [(e.step, e.node) for e in _of(events, StepStarted, StepEnded)] == [(n, "step") for n in (1, 1, 2, 2)]
    (called,), (returned,) = _of(events, ToolCalled), _of(events, ToolReturned)
    assert (called.name, called.args, called.invalid) == ("calculator", {"expression": "23*19"}, None)
    assert (returned.id, returned.content, returned.status) == (called.id, "437", "success") and returned.seconds
    assert (result.answer, result.reason, result.error) == ("437", "answer", None)
    assert "".join(e.text for e in _of(events, Token)) == act() + DONE
    assert [e.change["messages"] for e in _of(events, StepEnded)] == [
        [{"type": "ai", "content": act()}, {"type": "human", "content": "Observation: 437"}],
        [{"type": "ai", "content": DONE}],
    ]
    for event in events:
        json.dumps(event.as_dict())


def test_what_the_model_is_asked(handmade):
    agent = handmade(act(), DONE)
    result = agent.run("What is 23 times 19?")
    first, second = agent.model.calls
    system, question = first.messages
    assert (question.type, question.content) == ("human", "What is 23 times 19?")
    for part in ("calculator", "Arithmetic, like (2+3)*4", "Think before you act", "one tool at a time", "another way"):
        assert part in system.content
    assert [m.content for m in second.messages] == [system.content, *[m.content for m in result.messages[:3]]]
    assert second.messages[-1].type == "human" and second.messages[-1].content == "Observation: 437"
    assert first.options["stop"] == ["\nObservation:"] and first.tools == []
    assert result.usage["model_calls"] == 2 and result.usage["tool_calls"] == 1
    assert result.usage["generated_tokens"] == sum(m.usage_metadata["output_tokens"] for m in result.messages[1::2])


def test_an_invented_observation_is_neither_believed_nor_repeated_to_the_model(handmade):
    agent = handmade(act() + "\nObservation: 99\nThought: So.\nFinal Answer: 99", DONE)
    _, result = _heard(agent)
    assert result.answer == "437"
    assert [m.content for m in agent.model.calls[1].messages[2:]] == [act(), "Observation: 437"]


def test_a_file_is_read_and_then_counted_with(handmade, tmp_path):
    (tmp_path / "prices.txt").write_text("apples 3\npears 4\n")
    tape = [act("read_file", "prices.txt"), act(text='```json\n{\n "expression": "3+4"\n}\n```'), "Final Answer: 7"]
    events, result = _heard(handmade(*tape, tools=[read_file_tool(tmp_path), calculator_tool()]))
    assert [e.args for e in _of(events, ToolCalled)] == [{"path": "prices.txt"}, {"expression": "3+4"}]
    assert [e.content for e in _of(events, ToolReturned)] == ["apples 3\npears 4", "7"]
    assert result.answer == "7"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("I think it is 437.", "neither an Action nor a Final Answer"),
        ('Action: calculator\nAction Input: {"expression": "1+', "not valid JSON"),
        ("Observation: 437\nFinal Answer: 437", "never yours to write"),
        (act("multiply"), "there is no tool multiply"),
        ("", "neither an Action nor a Final Answer"),
        (call("calculator", expression="23*19"), "neither an Action nor a Final Answer"),
    ],
)
def test_a_nudge_restates_the_format_and_the_run_goes_on(handmade, reply, why):
    agent = handmade(reply, act(), DONE)
    events, result = _heard(agent)
    assert _names(_of(events, ToolCalled, ToolReturned, StepEnded, RunEnded)) == [
        *ROUND[1:],
        *ROUND[1:],
        "StepEnded",
        "RunEnded",
    ]
    refused, nudge = _of(events, ToolCalled)[0], _of(events, ToolReturned)[0]
    assert why in refused.invalid and (nudge.status, nudge.seconds) == ("error", None)
    assert agent.model.calls[1].messages[-1].content == nudge.content
    for part in (why, "Action: one of calculator", "Action Input: a JSON object", "Final Answer:"):
        assert part in nudge.content
    assert result.answer == "437" and result.usage["tool_calls"] == 1
    assert all(message.content for message in result.messages)  # servers refuse an empty one


def test_three_bad_formats_in_a_row_end_the_turn(handmade):
    agent = handmade("one", "two", "three", "never")
    events, result = _heard(agent)
    assert result.reason == "malformed" and agent.model.position == 3 and "keep to the format" in result.answer
    assert _names(events) == ["RunStarted", *[*ROUND[:3], "GuardVerdict", "StepEnded"] * 3, "RunEnded"]
    assert [e.verdict for e in _of(events, GuardVerdict)] == ["hint", "hint", "stop"]
    assert result.messages[-1].text == result.answer and result.messages[-1].response_metadata == {"ended": "malformed"}


def test_bad_formats_that_are_not_in_a_row_do_not(handmade):
    tape = ["one", "two", act(), "three", "four", act("unknown"), DONE]
    _, result = _heard(handmade(*tape))
    assert result.reason == "answer"


def test_the_limit(handmade):
    agent = handmade(*[act(text=str(n)) for n in range(9)])
    events, result = _heard(agent)
    assert result.reason == "limit" and agent.model.position == 8
    assert _names(events) == ["RunStarted", *ROUND * 8, "RunEnded"]
    assert "too large for one turn: 8 steps" in result.answer and "Split it" in result.answer
    assert [m.content for m in result.messages[-2:]] == ["Observation: 7", result.answer]


def test_another_limit():
    agent = Handmade(ScriptedChatModel([act(), DONE, act(), DONE]), [calculator_tool()], max_steps=2)
    assert agent.run("q").answer == "437"  # an answer in the last step is an answer
    agent.limit = 1
    assert agent.run("q").reason == "limit"
    with pytest.raises(BadField, match="max_steps is 0"):
        Handmade(ScriptedChatModel([]), max_steps=0)


def test_the_limit_is_eight_steps_unless_the_profile_says_otherwise(handmade):
    assert handmade(DONE).limit == 8
    agent = handmade(act(), act(text='{"expression": "2*2"}'), DONE, profile=GenerationProfile(max_steps=2))
    events, result = _heard(agent)
    assert (events[0].limit, result.reason, agent.model.position) == (2, "limit", 2)


def test_a_tools_error_is_an_observation(handmade):
    @tool
    def broken() -> str:
        """Break."""
        raise ValueError("two\nlines")

    tape = [act("broken", "{}"), act(text='{"expression": "1/0"}'), act(text='{"wrong": 1}'), DONE]
    events, result = _heard(handmade(*tape, tools=[broken, calculator_tool()]))
    told = [m.content for m in result.messages if m.content.startswith("Observation: ")]
    assert [e.status for e in _of(events, ToolReturned)] == ["error"] * 3
    assert told[0] == "Observation: Error: ValueError: two lines"
    assert "zero" in told[1] and "expression Field required" in told[2] and result.reason == "answer"


def test_the_same_call_three_times_in_a_row(handmade):
    events, result = _heard(handmade(act(), act(thought="Again."), act(thought="Once more."), "never"))
    assert result.reason == "guard" and "3 times in a row" in result.answer
    assert [e.verdict for e in _of(events, GuardVerdict)] == ["hint", "stop"]
    assert result.usage["tool_calls"] == 1
    hint = result.messages[4].content
    assert hint.startswith("Observation: [tool_loop_hint]") and hint.endswith("437")


def test_token_budget_and_clock(handmade):
    spent = handmade(act(), "never", profile=GenerationProfile(token_budget=20))
    _, result = _heard(spent)
    assert result.reason == "budget" and spent.model.position == 1
    _, result = _heard(handmade(Step(act(), delay=5), profile=GenerationProfile(time_limit=0.2)))
    assert result.reason == "clock" and result.seconds < 2


def test_a_tool_that_ends_the_turn(handmade):
    @tool
    def guarded() -> str:
        """End the turn."""
        raise TurnEnded("guard", "Enough.")

    events, result = _heard(handmade(act("guarded", ""), "never", tools=[guarded]))
    assert (result.reason, result.answer) == ("guard", "Enough.")
    assert _names(events) == ["RunStarted", "StepStarted", "ToolCalled", "StepEnded", "RunEnded"]
    assert [m.content for m in result.messages[-2:]] == [f"Observation: {UNFINISHED}", "Enough."]


def test_cancel_inside_a_tool(handmade):
    @tool
    def sleepy() -> str:
        """Sleep, deaf to everything."""
        time.sleep(30)

    began = time.monotonic()
    events, result = _heard(handmade(act("sleepy", "{}"), "never", tools=[sleepy]), cancel_at=ToolCalled)
    assert time.monotonic() - began < GRACE + 1
    assert _names(events) == ["RunStarted", "StepStarted", "ToolCalled", "StepEnded", "RunEnded"]
    assert (result.reason, result.answer) == ("cancel", "Stopped.")
    assert [m.content for m in result.messages[2:]] == [f"Observation: {UNFINISHED}", "Stopped."]


def test_cancel_while_the_model_writes(handmade):
    events, result = _heard(handmade("Final Answer: " + "word " * 2000), cancel_at=Token)
    assert result.reason == "cancel" and len(_of(events, Token)) < 2000
    assert _names(events) == ["RunStarted", *LAST]
    assert [m.type for m in result.messages] == ["human", "ai"]


def test_cancel_before_the_start(handmade):
    agent, cancel = handmade("never"), threading.Event()
    cancel.set()
    result = agent.run("q", cancel=cancel)
    assert result.reason == "cancel" and agent.model.position == 0


def test_the_models_failure(handmade):
    _, result = _heard(handmade(act(), Step(fault=ConnectionError("no route"))))
    assert (result.reason, result.answer) == ("error", "ConnectionError: no route")
    assert isinstance(result.error, ConnectionError)


def test_an_action_that_was_cut_is_not_run_unless_it_is_whole(handmade):
    text = Step(act(text="1000 + 2000"), fault="cut", after=11)
    thought = Step("Thought: so long", fault="cut", after=2)
    whole = Step(act(text='{"expression":"23*19"} and'), fault="cut", after=10)
    events, result = _heard(handmade(text, thought, whole, DONE))
    assert ["cut by the token limit" in (e.invalid or "") for e in _of(events, ToolCalled)] == [True, True, False]
    assert [e.content for e in _of(events, ToolReturned)][2] == "437" and result.answer == "437"


def test_a_tool_runs_under_its_own_bad_argument_names(handmade):
    echo = Tool("echo", "Echo.", lambda **args: args, {"properties": {"self": {}, "name": {}}})
    events, _ = _heard(handmade(act("echo", '{"self": 1, "name": 2}'), DONE, tools=[echo]))
    assert [e.content for e in _of(events, ToolReturned)] == ['{"self": 1, "name": 2}']


def test_without_tools(handmade):
    agent = handmade(act(), DONE, tools=[])
    _, result = _heard(agent)
    assert result.answer == "437" and "there is no tool calculator" in result.messages[2].content


def test_runs_of_one_agent_do_not_mix(handmade):
    agent, results = handmade(*[Step(act(), delay=0.2)] * 2, DONE, DONE), []
    threads = [threading.Thread(target=lambda: results.append(agent.run("q"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[m.content for m in result.messages] for result in results] == [["q", act(), "Observation: 437", DONE]] * 2


def test_threads_are_refused(handmade):
    agent = handmade("never", checkpointer=InMemorySaver())
    with pytest.raises(BadField, match="the handmade loop keeps no threads; use a loop that does: lite"):
        agent.stream("q", thread="t")
    assert agent.model.position == 0


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (437, "437"),
        (None, "null"),
        ({"city": "เชียงใหม่", "sizes": (1, 2)}, '{"city": "เชียงใหม่", "sizes": [1, 2]}'),
        ({(1, 2): 3}, "{(1, 2): 3}"),
    ],
)
def test_a_tools_result_is_always_text(result, text):
    assert Tool("f", "", lambda: result).run() == text


def test_a_result_without_a_json_form_is_text_as_well():
    knot = []
    knot.append(knot)
    assert Tool("f", "", lambda: knot).run() == "[[...]]"
    assert Tool("f", "", lambda: {"at": threading}).run().startswith('{"at": "<module')


def test_a_langchain_tool_becomes_one_of_ours(tmp_path):
    made = Tool.of(read_file_tool(tmp_path))
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert made.run(path="a.txt", start=2) == "two\n[lines 2 to 2 of 2]"
    assert (made.name, made.description) == ("read_file", "Read the text of a file.")
    assert made.parameters["required"] == ["path"] and list(made.parameters["properties"]) == ["path", "start", "limit"]
    assert Tool.of(made) is made


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("properties", "required", "given", "arguments"),
    [
        ({"a": TEXT}, ["a"], {"a": "x"}, {"a": "x"}),
        ({"a": TEXT}, ["a"], "x y", {"a": "x y"}),
        ({"a": TEXT}, ["a"], '"x y"', {"a": "x y"}),
        ({"a": TEXT}, ["a"], "5", {"a": "5"}),
        ({"a": NUMBER}, ["a"], "5", {"a": 5}),
        ({"a": {"type": "array"}}, ["a"], "[1, 2]", {"a": [1, 2]}),
        ({"a": {}}, [], "x", {"a": "x"}),
        ({"a": TEXT, "b": NUMBER}, ["a"], "x", {"a": "x"}),
        ({"a": TEXT, "b": NUMBER}, ["a", "b"], "", {}),
        ({}, [], "", {}),
    ],
)
def test_an_action_input_as_arguments(properties, required, given, arguments):
    made = Tool("f", "", print, {"type": "object", "properties": properties, "required": required})
    assert made.arguments(given) == arguments


@pytest.mark.parametrize(("names", "said"), [(["a", "b"], "f takes a JSON object with a, b"), ([], "nothing in it")])
def test_plain_text_for_a_tool_that_has_not_one_parameter(names, said):
    with pytest.raises(BadFormat, match=said):
        Tool("f", "", print, {"properties": {name: TEXT for name in names}, "required": names}).arguments("x")


@pytest.mark.model
def test_the_bundled_model_gets_through_it_though_it_never_learned_the_protocol():
    from agentkit.models import load_model

    model = load_model("bundled").with_profile(seed=1, max_tokens=40)
    agent = build_agent("handmade", model=model, tools=[calculator_tool()])
    agent.limit, heard = 2, []
    with listening(heard.append):
        result = agent.run("What is 23 times 19?")
    assert result.reason in ("answer", "limit", "malformed", "guard") and result.error is None
    assert_valid(result.messages)
    assert len(_of(heard, StepStarted)) == len(_of(heard, StepEnded)) == result.usage["model_calls"] <= 2
    assert all(isinstance(m, AIMessage) for m in result.messages[1::2])
